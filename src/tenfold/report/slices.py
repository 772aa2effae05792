"""Slices: the objective over each parameter, a small box of dots for each of them, side by side where there is room."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenfold.report import svg
from tenfold.report.coordinates import by_factors
from tenfold.report.parts import Chart
from tenfold.report.svg import ROW, Box, Scale, element
from tenfold.work.outcome import shorten

MOST = 12  # parameters that have a box
HEIGHT = 130
LEAST = 220  # pixels of a box
FEW = 5  # numbers that are all written at the axis
GAP = 18  # between boxes
COLOURS = {"pruned": "c6", "complete": "c1", "best": "c2"}
"""In the order in which they are drawn: the best is on top."""


@dataclass(frozen=True, slots=True)
class Dot:
    """A trial."""

    params: Mapping[str, Any]
    """Its parameters."""
    value: float
    """Its objective."""
    kind: str
    """One of `COLOURS`."""
    title: str
    """What is shown over it."""


@dataclass(frozen=True, slots=True)
class Across:
    """The axis of one parameter."""

    scale: Scale
    """From places to a share of it."""
    places: Mapping[int, float]
    """Dot, by its number -> place; those that have no such parameter are left out."""
    ticks: Sequence[float] | None
    """Of a few values: where they are."""
    labels: Sequence[str] = ()
    """And what they are, where they are no numbers."""

    def text(self, room: float) -> Callable[[float], str]:
        """What is written at a place; each label has its part of the room."""
        if not self.labels:
            return svg.number
        most = room / len(self.labels) - 8
        return lambda place: svg.cut(self.labels[round(place)], most)


def chart(title: str, words: str, dots: Sequence[Dot], names: Mapping[str, bool | None], objective: str) -> Chart:
    """A box for each of these parameters; by factors or not, or None to find out from the values."""
    dots = sorted(dots, key=lambda dot: list(COLOURS).index(dot.kind))
    chosen = list(names.items())[:MOST]
    every = [(name, across([dot.params.get(name) for dot in dots], log=log)) for name, log in chosen]
    values = [dot.value for dot in dots]
    up = svg.scale(values, log=svg.spans(values))
    kinds = [kind for kind in COLOURS if any(dot.kind == kind for dot in dots)]
    legend = [(kind, f"f-{COLOURS[kind]}") for kind in kinds]

    def draw(width: float) -> str:
        most = max(1, int((width + GAP) // (LEAST + GAP)))
        columns = -(-len(every) // -(-len(every) // most))  # as few rows as can be, and these alike
        wide = (width - GAP * (columns - 1)) / columns
        marks, rows = svg.legend_of(legend, width, 12)
        top, y = ROW * rows + 6.0, 0.0
        for place, (name, axis) in enumerate(every):
            box = _box(wide, name, axis, up, objective)
            row, column = divmod(place, columns)
            y = top + row * (box.height + 6)
            inside = "".join(box.marks(_dots(box, axis, dots)))
            marks.append(element("g", inside, transform=f"translate({column * (wide + GAP):.1f} {y:.1f})"))
            bottom = y + box.height
        return svg.picture(width, bottom, marks, f"{title}. {words}")

    data = [{**dot.params, objective: dot.value} for dot in dots]
    return Chart(title, words, draw, data)


def across(values: Sequence[Any], *, log: bool | None) -> Across:
    """Numbers by their size, anything else by its turn."""
    known = {place: value for place, value in enumerate(values) if value is not None}
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in known.values()):
        numbers = {place: float(value) for place, value in known.items() if math.isfinite(value)}
        found = sorted(set(numbers.values()))
        scale = svg.scale(found, log=by_factors(list(numbers.values())) if log is None else log)
        return Across(scale, numbers, found if len(found) <= FEW else None)
    texts = {place: shorten(value, 24).strip("'") for place, value in known.items()}
    labels = sorted(set(texts.values()))
    places = {place: float(labels.index(text)) for place, text in texts.items()}
    return Across(Scale(-0.5, len(labels) - 0.5), places, [float(place) for place in range(len(labels))], labels)


def _box(width: float, name: str, axis: Across, up: Scale, objective: str) -> Box:
    labels = svg.cut(name, width - 24), svg.cut(objective, width - 24)
    return Box(width, HEIGHT, axis.scale, up, labels=labels, x_ticks=axis.ticks, x_text=axis.text(width - 70))


def _dots(box: Box, axis: Across, dots: Sequence[Dot]) -> list[str]:
    marks = []
    for place, x in axis.places.items():
        dot = dots[place]
        told = svg.title(f"{dot.title}: {svg.number(dot.value)}")
        radius = 4.5 if dot.kind == "best" else 2.6
        marks.append(
            element("circle", told, cx=box.x(x), cy=box.y(dot.value), r=radius, class_=f"f-{COLOURS[dot.kind]}")
        )
    return marks
