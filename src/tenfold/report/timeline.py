"""The timeline of a run: a row for each seat, a bar for each task; what is between them is a gap."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tenfold.report import svg
from tenfold.report.occupied import Bar, Occupied
from tenfold.report.parts import Chart
from tenfold.report.style import ramp
from tenfold.report.svg import ROW, element
from tenfold.work.times import precise

SEATS = 40  # rows
STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
"""Seconds between two ticks; below these, what a scale finds round, above them days."""


def chart(found: Occupied) -> Chart:
    """Seats from top to bottom, time from left to right."""
    seats = found.seats[:SEATS]
    words = _words(found)
    title = "Tasks in each seat"

    def draw(width: float) -> str:
        return _drawn(found, seats, width, f"{title}. {words}")

    data = {"seconds": found.seconds, "sessions_begin": found.begins, "busy": found.share}
    data |= {"bars": [[b.task, b.seat, b.start, b.stop, b.ok] for b in found.bars]} if found.bars else {}
    data |= {"shares": {str(seat): found.shares[seat] for seat in seats}} if found.shares else {}
    return Chart(title, words, draw, data)


def _words(found: Occupied) -> str:
    count = f"{len(found.seats)} seat{'s' if len(found.seats) != 1 else ''}"
    told = [f"{count} in {precise(found.seconds)}: tasks ran in {100 * found.share:.0f} % of that time."]
    if found.shares:
        told.append("There are too many tasks to draw each: the darker a stretch, the more of it was taken.")
    if len(found.seats) > SEATS:
        told.append(f"The first {SEATS} of {len(found.seats):,} seats are drawn.")
    if len(found.begins) > 1:
        told.append(f"{len(found.begins)} calls worked on this run; pauses between them are left out.")
    return " ".join(told)


def _drawn(found: Occupied, seats: Sequence[int], width: float, label: str) -> str:
    high = 20.0 if len(seats) <= 12 else 13.0 if len(seats) <= 24 else 8.0
    names = {seat: f"seat {seat}" if seat >= 0 else "no seat" for seat in seats}
    left = max(map(svg.width_of, names.values()), default=0.0) + 8
    legend = [("task", "swatch l-c1")] if found.bars else []
    legend += [("failed attempt", "swatch l-c5")] if any(not bar.ok for bar in found.bars) else []
    marks, rows = svg.legend_of(legend, width, 12)
    top = 10.0 + ROW * rows
    bottom = top + high * len(seats)
    across = (width - left - 4) / found.seconds if found.seconds > 0 else 0.0
    for value, text in ticks(found.seconds, int((width - left) // 60)):
        x = left + value * across
        marks.append(element("path", d=f"M{x:.1f} {top:.1f}V{bottom + 4:.1f}", class_="grid"))
        at = min(max(x, left + svg.width_of(text) / 2 - 6), width - svg.width_of(text) / 2)
        marks.append(svg.words(text, at, bottom + 17, class_="small", anchor="middle"))
    every = 1 if high >= 13 else 3
    for place, seat in enumerate(seats):
        y = top + place * high
        if place % every == 0:
            marks.append(svg.words(names[seat], left - 8, y + high / 2 + 4, class_="small", anchor="end"))
        if found.shares:
            marks += _stretches(found.shares[seat], left, y, (width - left - 4), high)
    places = {seat: top + place * high for place, seat in enumerate(seats)}
    marks += [_bar(bar, left, places[bar.seat], across, high) for bar in found.bars if bar.seat in places]
    for begin in found.begins[1:]:
        x = left + begin * across
        marks.append(element("path", d=f"M{x:.1f} {top - 4:.1f}V{bottom:.1f}", class_="curve dashed l-muted"))
    return svg.picture(width, bottom + 24, marks, label)


def _bar(bar: Bar, left: float, y: float, across: float, high: float) -> str:
    long = (bar.stop - bar.start) * across
    what = "" if bar.ok else ", failed"
    over = svg.title(f"task {bar.task}{what}: {precise(bar.stop - bar.start)}, from {precise(bar.start)}")
    wide = max(0.7, long - 0.6)  # a thin gap tells two tasks apart
    return element(
        "rect",
        over,
        x=left + bar.start * across,
        y=y + 2,
        width=wide,
        height=high - 4,
        class_="f-c1" if bar.ok else "f-c5",
    )


def _stretches(shares: Sequence[float], left: float, y: float, room: float, high: float) -> list[str]:
    """Neighbours that look the same are drawn as one."""
    step = room / len(shares)
    marks, start = [], 0
    for colour, some in itertools.groupby(shares, key=lambda share: ramp(share) if share > 0.004 else None):
        count = len(list(some))
        if colour is not None:
            path = f"M{left + start * step:.1f} {y + 2:.1f}h{count * step:.1f}v{high - 4:.1f}h{-count * step:.1f}z"
            marks.append(element("path", d=path, class_=f"f-{colour}"))
        start += count
    return marks


def ticks(seconds: float, about: int) -> list[tuple[float, str]]:
    """Round times from 0 on, each with its unit."""
    about = max(2, about)
    if seconds <= 0:
        return [(0.0, "0 s")]
    if seconds / about < STEPS[0]:
        values = svg.Scale(0.0, seconds).ticks(about)
        unit = (1000.0, "ms") if seconds < 1 else (1.0, "s")
        return [(value, f"{value * unit[0]:.3g} {unit[1]}") for value in values]
    days = 86400 * -(-int(seconds) // (86400 * about))
    step = next((step for step in STEPS if step >= seconds / about), days)
    size, name = next((size, name) for size, name in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")) if step >= size)
    return [(float(value), f"{value / size:g} {name}") for value in range(0, int(seconds) + 1, step)]
