"""Charts of lines: learning curves, speed-up over workers, the best so far."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tenfold.report import svg
from tenfold.report.parts import Chart
from tenfold.report.svg import Box, element

MOST = 240  # points of a line that are drawn: there are not more pixels on a phone
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Line:
    """One of them."""

    name: str
    """In the legend; empty where it is in none."""
    points: Sequence[Point]
    """x and y; one that is no number leaves a gap."""
    colour: str = "c1"
    """One of `style`."""
    manner: str = ""
    """Classes: thin, thick, dashed."""
    dots: bool = False
    """Each point is marked."""
    joined: bool = True
    """Points are connected."""
    band: Sequence[tuple[float, float, float]] = ()
    """x, low and high of an area around it."""
    titles: Sequence[str] = ()
    """What is shown over each dot, or over the line where there is one text only."""


def chart(
    title: str,
    words: str,
    lines: Sequence[Line],
    *,
    labels: tuple[str, str],
    height: float = 220,
    zero: bool = False,
    log: tuple[bool | None, bool | None] = (False, None),
    ticks: Sequence[float] | None = None,
    y_text: Callable[[float], str] = svg.number,
) -> Chart:
    """Lines in one box. `labels` and `log` are of x and y; None finds out by itself. `ticks` are those of x."""
    thin = [(line, thinned(line.points)) for line in lines]
    xs = [x for _, points in thin for x, _ in points]
    ys = [y for line, points in thin for y in [*(y for _, y in points), *(v for b in line.band for v in b[1:])]]
    x_log, y_log = (svg.spans(values) if is_log is None else is_log for values, is_log in ((xs, log[0]), (ys, log[1])))
    x_scale = svg.scale(xs, log=x_log, room=0.03 if any(line.dots for line in lines) else 0.0)
    y_scale = svg.scale(ys, log=y_log, zero=zero and not y_log)
    whole = all(float(x).is_integer() for x in xs)
    legend = [(line.name, _classes(line) if line.joined else f"f-{line.colour}") for line in lines if line.name]

    def draw(width: float) -> str:
        box = Box(
            width,
            height,
            x_scale,
            y_scale,
            labels=labels,
            legend=legend,
            x_ticks=ticks,
            y_text=y_text,
            whole=whole,
        )
        return box.draw([mark for line, points in thin for mark in _drawn(box, line, points)], f"{title}. {words}")

    data = {"x": labels[0], "y": labels[1], "lines": [{"name": line.name, "points": p} for line, p in thin]}
    return Chart(title, words, draw, data)


def thinned(points: Sequence[Point]) -> list[Point]:
    """Of many points, the lowest and highest of each stretch: what is drawn looks the same."""
    if len(points) <= MOST:
        return list(points)
    stretch = -(-2 * len(points) // MOST)
    found: list[Point] = []
    for start in range(0, len(points), stretch):
        some = [point for point in points[start : start + stretch] if math.isfinite(point[1])]
        if some:
            found += sorted({min(some, key=lambda p: p[1]), max(some, key=lambda p: p[1])})
    return found


def _drawn(box: Box, line: Line, points: Sequence[Point]) -> list[str]:
    parts = []
    if line.band:
        there = [f"{box.x(x):.1f} {box.y(high):.1f}" for x, _, high in line.band]
        back = [f"{box.x(x):.1f} {box.y(low):.1f}" for x, low, _ in reversed(line.band)]
        parts.append(element("path", d=f"M{'L'.join([*there, *back])}Z", class_=f"band f-{line.colour}"))
    label = svg.title(line.titles[0]) if len(line.titles) == 1 and not line.dots else ""
    path = _path(box, points) if line.joined else ""
    if path:
        parts.append(element("path", label, d=path, class_=_classes(line)))
    if line.dots or (line.joined and not path):
        titles = line.titles if len(line.titles) == len(points) else [line.name] * len(points)
        for (x, y), text in zip(points, titles, strict=True):
            if math.isfinite(y) and _fits(box, y):
                told = svg.title(f"{text}: {svg.number(y)} at {svg.number(x)}" if text else svg.number(y))
                parts.append(element("circle", told, cx=box.x(x), cy=box.y(y), r=3.0, class_=f"f-{line.colour}"))
    return parts


def _classes(line: Line) -> str:
    return f"curve l-{line.colour} {line.manner}".strip()


def _path(box: Box, points: Sequence[Point]) -> str:
    """Empty where no two points are beside each other."""
    runs: list[list[str]] = [[]]
    for x, y in points:
        if math.isfinite(y) and _fits(box, y):
            runs[-1].append(f"{box.x(x):.1f} {box.y(y):.1f}")
        elif runs[-1]:
            runs.append([])
    return "".join(f"M{'L'.join(run)}" for run in runs if len(run) > 1)


def _fits(box: Box, y: float) -> bool:
    return not box.by_factors or y > 0
