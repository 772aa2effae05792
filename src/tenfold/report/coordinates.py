"""Parallel coordinates: a line for each trial, through all its parameters to its objective."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenfold.report import svg
from tenfold.report.parts import Chart
from tenfold.report.style import ramp
from tenfold.report.svg import Scale, element
from tenfold.work.outcome import shorten

MOST = 200  # trials that are drawn: the best of them
LABELS = 8  # words on an axis
HEIGHT = 200


@dataclass(frozen=True, slots=True)
class Axis:
    """One parameter, or the objective."""

    name: str
    """What it is called."""
    heights: Sequence[float]
    """Of each trial, from 0 to 1; NaN where it has none."""
    ticks: Sequence[tuple[float, str]]
    """What is written at which height."""


def chart(
    title: str, words: str, rows: Sequence[Mapping[str, Any]], objective: str, log: Mapping[str, bool | None]
) -> Chart:
    """`rows` are parameters and the objective of each trial, the best first; `log`: which are shown by factors."""
    rows = rows[:MOST]
    names = [name for name in dict.fromkeys(name for row in rows for name in row) if name != objective]
    varied = [name for name in names if len({repr(row.get(name)) for row in rows}) > 1]
    axes = [axis(name, [row.get(name) for row in rows], log=log.get(name)) for name in [*varied, objective]]

    def draw(width: float) -> str:
        return _drawn(axes, width, title=f"{title}. {words}")

    return Chart(title, words, draw, [dict(row) for row in rows])


def axis(name: str, values: Sequence[Any], *, log: bool | None = None) -> Axis:
    """Numbers by their size, or by their factors, which None finds out; anything else by its turn."""
    known = [value for value in values if value is not None]
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in known):
        numbers = [math.nan if value is None else float(value) for value in values]
        finite = [value for value in numbers if math.isfinite(value)]
        scale = svg.scale(finite, log=by_factors(finite) if log is None else log, room=0.0)
        heights = [scale.share(value) if math.isfinite(value) else math.nan for value in numbers]
        return Axis(name, heights, _ticks(scale, finite))
    texts = [None if value is None else shorten(value, 24).strip("'") for value in values]
    every = list(dict.fromkeys(sorted(text for text in texts if text is not None)))
    places = {text: (place + 0.5) / len(every) for place, text in enumerate(every)}
    step = -(-len(every) // LABELS)
    ticks = [(places[text], text) for text in every[::step]]
    return Axis(name, [math.nan if text is None else places[text] for text in texts], ticks)


def by_factors(values: Sequence[float]) -> bool:
    """Whether that spreads them more evenly: numbers drawn between 0 and 1 span many factors, and are no rates."""
    if not svg.spans(values):
        return False
    middle, low, high = statistics.median(values), min(values), max(values)
    by_size = (middle - low) / (high - low)
    by_factor = math.log(middle / low) / math.log(high / low)
    return abs(by_factor - 0.5) < abs(by_size - 0.5)


def _ticks(scale: Scale, values: Sequence[float]) -> list[tuple[float, str]]:
    """The ends, and round numbers between them where there is room."""
    if not values:
        return []
    if min(values) == max(values):
        return [(0.5, svg.number(values[0]))]
    found = [(0.0, svg.number(min(values))), (1.0, svg.number(max(values)))]
    between = [(scale.share(value), svg.number(value)) for value in scale.ticks(5)]
    for height, text in between:
        if all(abs(height - other) > 0.09 for other, _ in found):
            found.append((height, text))
    return found


def _drawn(axes: Sequence[Axis], width: float, title: str) -> str:
    """Across where there is room, else down: on a phone, axes lie one below the other."""
    if width < 90 * len(axes):
        return _down(axes, width, title)
    top, bottom, left = 34.0, 34.0 + HEIGHT, 4.0
    step = (width - 84) / max(1, len(axes) - 1)
    marks = []
    for place in reversed(range(len(axes[0].heights))):
        points = [
            f"{left + n * step:.1f} {bottom - axis.heights[place] * HEIGHT:.1f}"
            for n, axis in enumerate(axes)
            if math.isfinite(axis.heights[place])
        ]
        marks.append(_line(points, place, len(axes[0].heights)))
    for n, one in enumerate(axes):
        x = left + n * step
        marks.append(element("path", d=f"M{x:.1f} {top:.1f}V{bottom:.1f}", class_="grid l-muted"))
        marks.append(svg.words(svg.cut(one.name, min(step, 90)), x - 3, 14))
        for height, text in one.ticks:
            room = step - 12 if n + 1 < len(axes) else 76.0
            marks.append(_halo(svg.cut(text, room), x + 6, bottom - height * HEIGHT + 4, None))
    return svg.picture(width, bottom + 14, marks, title)


def _down(axes: Sequence[Axis], width: float, title: str) -> str:
    left, right, step, top = 8.0, width - 8.0, 62.0, 34.0
    marks = []
    for place in reversed(range(len(axes[0].heights))):
        points = [
            f"{left + axis.heights[place] * (right - left):.1f} {top + n * step:.1f}"
            for n, axis in enumerate(axes)
            if math.isfinite(axis.heights[place])
        ]
        marks.append(_line(points, place, len(axes[0].heights)))
    for n, one in enumerate(axes):
        y = top + n * step
        marks.append(element("path", d=f"M{left} {y:.1f}H{right:.1f}", class_="grid l-muted"))
        marks.append(_halo(svg.cut(one.name, width), 0, y - 12, None))
        free = -math.inf
        for height, text in sorted(one.ticks):
            half = svg.width_of(text) / 2
            x = min(max(left + height * (right - left), half), width - half)
            if x - half >= free:
                marks.append(_halo(svg.cut(text, width / 3), x, y + 16, "middle"))
                free = x + half + 8
    return svg.picture(width, top + (len(axes) - 1) * step + 24, marks, title)


def _line(points: Sequence[str], place: int, count: int) -> str:
    """Strong for good ones; the best is marked."""
    colour, manner = ("c2", "thick") if place == 0 else (ramp(1 - place / max(1, count - 1)), "thin")
    return element("path", d=f"M{'L'.join(points)}", class_=f"curve l-{colour} {manner}") if len(points) > 1 else ""


def _halo(text: str, x: float, y: float, anchor: str | None) -> str:
    """A text that can be read over lines."""
    behind = element(
        "text", svg.escaped(text), x=float(x), y=float(y), class_="halo", text_anchor=anchor, aria_hidden="true"
    )
    return behind + svg.words(text, x, y, anchor=anchor)
