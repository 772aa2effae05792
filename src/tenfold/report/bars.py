"""Charts of bars: how a whole divides into parts, shares of it, and how often which durations come."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy

from tenfold.report import svg
from tenfold.report.parts import Chart
from tenfold.report.style import SERIES
from tenfold.report.svg import ROW, Box, Scale, element
from tenfold.work.times import precise

BAR = 16  # pixels
BINS = 24


def divided(
    title: str,
    words: str,
    rows: Sequence[tuple[str, Mapping[str, float]]],
    names: Sequence[str],
    text: Callable[[float], str] = precise,
) -> Chart:
    """A bar for each row, as long as the whole of it; parts that are nowhere are left out."""
    used = [name for name in names if any(parts.get(name, 0) > 0 for _, parts in rows)]
    colours = {name: SERIES[place % len(SERIES)] for place, name in enumerate(names)}

    def draw(width: float) -> str:
        marks, rows_used = svg.legend_of([(name, f"l-{colours[name]} swatch") for name in used], width, 12)
        y = 12.0 + ROW * rows_used
        for label, parts in rows:
            marks += _bar(label, {name: parts.get(name, 0.0) for name in used}, colours, width, y, text)
            y += ROW + BAR + 8
        return svg.picture(width, y, marks, f"{title}. {words}")

    return Chart(title, words, draw, {label: dict(parts) for label, parts in rows})


def _bar(
    label: str,
    parts: Mapping[str, float],
    colours: Mapping[str, str],
    width: float,
    y: float,
    text: Callable[[float], str],
) -> list[str]:
    whole = sum(parts.values())
    told = text(whole)
    room = width - svg.width_of(told) - 12
    marks = [svg.words(svg.cut(label, room), 0, y + 13), svg.words(told, width, y + 13, class_="small", anchor="end")]
    x = 0.0
    for name, value in parts.items():
        wide = width * value / whole if whole > 0 else 0.0
        if wide > 0:
            over = svg.title(f"{label}, {name}: {text(value)} ({100 * value / whole:.0f} %)")
            marks.append(
                element("rect", over, x=x, y=y + ROW, width=wide, height=float(BAR), class_=f"f-{colours[name]}")
            )
        x += wide
    return marks


def shares(title: str, words: str, found: Mapping[str, float]) -> Chart:
    """A bar for each name, as long as its share of the width."""

    def draw(width: float) -> str:
        marks, y = [], 0.0
        for name, share in found.items():
            told = f"{100 * share:.0f} %"
            marks.append(svg.words(svg.cut(name, width - svg.width_of(told) - 12), 0, y + 13))
            marks.append(svg.words(told, width, y + 13, class_="small", anchor="end"))
            for wide, colour in ((width, "card"), (width * share, "c1")):
                over = svg.title(f"{name}: {told}")
                at = y + ROW
                marks.append(element("rect", over, x=0.0, y=at, width=wide, height=float(BAR), class_=f"f-{colour}"))
            y += ROW + BAR + 8
        return svg.picture(width, y, marks, f"{title}. {words}")

    return Chart(title, words, draw, dict(found))


def durations(title: str, seconds: numpy.ndarray[tuple[int], numpy.dtype[numpy.float64]]) -> Chart:
    """How many tasks took how long."""
    known = seconds[seconds > 0]
    least, middle, most = (float(numpy.quantile(seconds, q)) for q in (0.05, 0.5, 0.95))
    words = (
        f"Half of the tasks took less than {precise(middle)}, and 9 of 10 between {precise(least)} and "
        f"{precise(most)}; the longest took {precise(float(seconds.max()))}."
    )
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.001, 0.01)
    log = high > 20 * low
    if high <= low * 1.0001:
        low, high = low * 0.9, high * 1.1
    edges = numpy.geomspace(low, high, BINS + 1) if log else numpy.linspace(low, high, BINS + 1)
    counts = numpy.histogram(numpy.clip(seconds, low, high), edges)[0].tolist()
    x, y = Scale(low, high, log), Scale(0.0, max(counts) * 1.05)

    def draw(width: float) -> str:
        whole = [value for value in y.ticks(4) if value == int(value)]
        box = Box(width, 150, x, y, labels=("time of a task", "tasks"), x_text=_seconds, y_ticks=whole)
        bars = [_column(box, float(a), float(b), n) for a, b, n in zip(edges, edges[1:], counts, strict=False) if n]
        return box.draw(bars, f"{title}. {words}")

    return Chart(title, words, draw, {"edges": edges.tolist(), "tasks": counts})


def _column(box: Box, start: float, stop: float, count: int) -> str:
    left, right, top = box.x(start), box.x(stop), box.y(count)
    over = svg.title(f"{count:,} tasks: {precise(start)} to {precise(stop)}")
    shape = {"x": left + 0.5, "y": top, "width": max(0.5, right - left - 1), "height": box.bottom - top}
    return element("rect", over, **shape, class_="f-c1")


def _seconds(value: float) -> str:
    """A tick; they may span from microseconds to hours."""
    if value >= 1 or value == 0:
        return f"{svg.number(value)} s"
    return f"{1000 * value:.3g} ms" if value >= 1e-3 else f"{1e6 * value:.3g} µs"
