"""The report of a scaling study: how fast with how many workers and how much data, and where the time went."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tenfold.plan.needs import readable
from tenfold.report import bars, lines, origin, surface, svg
from tenfold.report.lines import Line
from tenfold.report.parts import Chart, Listing, Part, Report, Section, Table, Text
from tenfold.report.style import SERIES
from tenfold.scaling.cells import PARTS, Cell
from tenfold.work.times import precise

Curves = Mapping[str, Sequence[tuple[float, float, float, float]]]
"""Name -> (workers, throughput, low, high): what a law says, and within which bounds."""

DIVIDED = 24  # bars; of more cells, those of the largest size


def report(
    cells: Sequence[Cell],
    advice: Sequence[str] = (),
    curves: Curves | None = None,
    *,
    explained: Sequence[str] = (),
    title: str = "How it scales",
    unit: str = "items",
    about: Mapping[str, Any] | None = None,
    call: str = "tenfold.measure(...)",
    words: str = "The same call measures it again.",
) -> Report:
    """Of what was measured.

    advice      sentences, the most important first
    curves      what laws say; one that is called like a series of cells ("size 1,000"; "measured" where there is
                only one) is drawn in its colour
    explained   sentences about fits, and how far off they are
    unit        what goes through: "samples"
    about       what a session of the journal says of itself: machine, versions, command
    call        Python that repeats it, and "words" about that
    """
    known = [cell for cell in cells if cell.repeats]
    series = _series(known)
    sections = [Section("Advice", [Text(sentence) for sentence in advice])] if advice else []
    if known:
        sections.append(Section("Speed", [*_speed(series, curves or {}, unit), *_surfaces(cells, unit)]))
        sections.append(Section("Where the time went", [_divided(known)]))
        sections += [Section("What explains it", [Text(sentence) for sentence in explained])] if explained else []
        sections.append(Section("Numbers", [_table(known, unit)]))
    failed = [
        Listing(f"{cell.setting}: {cell.failure}", cell.traceback or str(cell.failure), opened=place == 0)
        for place, cell in enumerate(cell for cell in cells if cell.failure)
    ]
    sections += [Section("Failures", failed)] if failed else []
    sections += [origin.section(about or {}, elsewhere=about is None), origin.repeat(call, words, about or {})]
    return Report(title, _summary(series, len(cells)), sections, _figures(known, unit))


# -- what belongs together --------------------------------------------------------------------------------------------


def _series(cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    """Cells that differ in workers alone, by what they have in common; in the order of workers."""
    several = {key: len({_key(cell)[key] for cell in cells}) > 1 for key in range(3)}
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        size, how, engine = _key(cell)
        named = [f"size {size:,}" if size is not None and several[0] else "", how or "", engine or ""]
        name = ", ".join(word for key, word in enumerate(named) if word and several[key])
        found.setdefault(name or "measured", []).append(cell)
    return {name: sorted(some, key=lambda cell: cell.setting.workers) for name, some in found.items()}


def _key(cell: Cell) -> tuple[int | None, str | None, str | None]:
    return cell.setting.size, cell.setting.how, cell.setting.engine


def _speed_ups(cells: Sequence[Cell]) -> list[tuple[float, float]]:
    """Workers and speed-up, where the fewest workers are taken to be as fast as they should be."""
    first = cells[0]
    one = first.throughput / first.setting.workers
    return [(cell.setting.workers, cell.throughput / one) for cell in cells]


def _summary(series: Mapping[str, Sequence[Cell]], count: int) -> str:
    long = {name: cells for name, cells in series.items() if len(cells) > 1}
    known = sum(map(len, series.values()))
    told = f"{known} of {count} settings were measured" if known < count else f"{count} settings were measured"
    told = "1 setting was measured" if known == count == 1 else told
    if not long:
        return f"{told}."
    name, cells = max(long.items(), key=lambda pair: _weight(pair[1]))
    workers, speed_up = _speed_ups(cells)[-1]
    fewest = cells[0].setting.workers
    own = f" with {name}" if len(series) > 1 else ""
    return (
        f"{told}. {workers:g} workers are {speed_up / fewest:.2f} times as fast as {fewest}{own}: "
        f"{100 * speed_up / workers:.0f} % of what they could be."
    )


def _weight(cells: Sequence[Cell]) -> tuple[float, ...]:
    """Which series is told of first: the one that went furthest, of several ways the fastest."""
    last = cells[-1]
    return last.setting.workers, last.setting.size or 0, max(cell.throughput for cell in cells)


def _figures(cells: Sequence[Cell], unit: str) -> list[tuple[str, str]]:
    if not cells:
        return []
    best = max(cells, key=lambda cell: cell.throughput)
    return [
        ("best throughput", f"{svg.number(float(f'{best.throughput:.3g}'))} {unit}/s"),
        ("with", str(best.setting)),
        ("settings measured", f"{len(cells):,}"),
        ("repeats of each", f"{max(len(cell.repeats) for cell in cells)}"),
    ]


# -- charts -----------------------------------------------------------------------------------------------------------


def _speed(series: Mapping[str, Sequence[Cell]], curves: Curves, unit: str) -> list[Part]:
    long = dict(_some([(name, cells) for name, cells in series.items() if len(cells) > 1]))
    workers = sorted({cell.setting.workers for cells in series.values() for cell in cells})
    parts: list[Part] = [_speed_up(long, workers), _efficiency(long, workers)] if long else []
    if long or curves:
        parts.append(_throughput(long or dict(_some(list(series.items()))), curves, workers, unit))
    left_out = len(series) - len(long)
    if long and left_out > 0:
        parts.append(Text(f"{len(long)} of {len(series)} series are drawn; all of them are in the table."))
    return parts


def _some(entries: list[tuple[str, Sequence[Cell]]]) -> list[tuple[str, Sequence[Cell]]]:
    """As many as there are colours, evenly from all of them."""
    most = len(SERIES)
    if len(entries) <= most:
        return entries
    return [entries[round(place * (len(entries) - 1) / (most - 1))] for place in range(most)]


def _speed_up(series: Mapping[str, Sequence[Cell]], workers: Sequence[int]) -> Chart:
    fewest = min(cells[0].setting.workers for cells in series.values())
    ideal = Line("ideal", [(float(n), float(n)) for n in workers], "muted", "dashed")
    found = [
        Line(name, _speed_ups(cells), colour, dots=True)
        for (name, cells), colour in zip(series.items(), SERIES, strict=False)
    ]
    words = "How many times as fast as one worker. On the ideal line, every worker counts in full"
    words += "." if fewest == 1 else f", as the first {fewest} are taken to do."
    labels = ("workers", "times as fast")
    return lines.chart("Speed-up", words, [ideal, *found], labels=labels, zero=True, log=(False, False), ticks=workers)


def _efficiency(series: Mapping[str, Sequence[Cell]], workers: Sequence[int]) -> Chart:
    ideal = Line("ideal", [(float(n), 100.0) for n in workers], "muted", "dashed")
    found = [
        Line(name, [(n, 100 * times / n) for n, times in _speed_ups(cells)], colour, dots=True)
        for (name, cells), colour in zip(series.items(), SERIES, strict=False)
    ]
    words = "Speed-up for each worker: what share of a further worker's time is worth something."
    return lines.chart(
        "Efficiency",
        words,
        [ideal, *found],
        labels=("workers", "% of the ideal"),
        zero=True,
        log=(False, False),
        ticks=workers,
    )


def _throughput(series: Mapping[str, Sequence[Cell]], curves: Curves, workers: Sequence[int], unit: str) -> Chart:
    measured = []
    for (name, cells), colour in zip(series.items(), SERIES, strict=False):
        points = [(float(cell.setting.workers), cell.throughput) for cell in cells]
        band = [(x, y * (1 - c.spread), y * (1 + c.spread)) for (x, y), c in zip(points, cells, strict=True)]
        measured.append(Line(name, points, colour, dots=True, joined=name not in curves, band=band))
    fitted = [
        Line(
            "" if name in series else name,
            [(x, y) for x, y, _, _ in points],
            _colour(name, series),
            "dashed",
            band=[(x, low, high) for x, _, low, high in points],
        )
        for name, points in curves.items()
    ]
    words = "Bands around what was measured are the range of its repeats."
    words += " Dashed lines are what the fitted law says, with its bounds." if fitted else ""
    far = [x for points in curves.values() for x, *_ in points]
    ticks = None if far and max(far) > max(workers) else list(map(float, workers))
    labels = ("workers", f"{unit} a second")
    return lines.chart("Throughput", words, [*fitted, *measured], labels=labels, zero=True, ticks=ticks)


def _colour(name: str, series: Iterable[str]) -> str:
    places = {own: place for place, own in enumerate(series)}
    return SERIES[places.get(name, len(places)) % len(SERIES)]


def _surfaces(every: Sequence[Cell], unit: str) -> list[Chart]:
    """One for each way and engine that was measured at several sizes."""
    grids: dict[str, list[Cell]] = {}
    for cell in (cell for cell in every if cell.setting.size is not None):
        grids.setdefault(", ".join(filter(None, (cell.setting.how, cell.setting.engine))), []).append(cell)
    found = []
    for name, cells in grids.items():
        sizes = sorted({cell.setting.size or 0 for cell in cells})
        workers = sorted({cell.setting.workers for cell in cells})
        if len(sizes) > 1:
            values = {(str(c.setting.workers), f"{c.setting.size:,}"): _known(c) for c in cells}
            found.append(
                surface.chart(
                    f"Throughput over workers and size{f': {name}' if name and len(grids) > 1 else ''}",
                    f"{unit} a second; darker, or brighter at night, is more.".capitalize(),
                    values,
                    columns=list(map(str, workers)),
                    rows=[f"{size:,}" for size in sizes],
                    labels=("workers", "size"),
                )
            )
    return found


def _known(cell: Cell) -> float:
    return cell.throughput if cell.repeats else math.nan


def _divided(cells: Sequence[Cell]) -> Chart:
    largest = max((cell.setting.size or 0 for cell in cells), default=0)
    chosen = [cell for cell in cells if len(cells) <= DIVIDED or (cell.setting.size or 0) == largest][:DIVIDED]
    words = "Wall time of the repeat in the middle, by what it was spent on, averaged over the workers."
    if len(chosen) < len(cells):
        words += f" {len(chosen)} of {len(cells)} settings are drawn, those of the largest size first."
    if any(cell.setting.how == "sharded" and not cell.parts.get("communication") for cell in chosen):
        words += " Of sharded Keras models, what devices send each other is a part of their program, and compute."
    return bars.divided("Wall time", words, [(str(cell.setting), cell.parts) for cell in chosen], PARTS)


def _table(cells: Sequence[Cell], unit: str) -> Table:
    rows = []
    for cell in cells:
        setting = cell.setting
        named = [f"{setting.size:,}" if setting.size is not None else "", setting.how or "", setting.engine or ""]
        numbers = [precise(cell.seconds), f"± {100 * cell.spread:.0f} %", svg.number(float(f"{cell.throughput:.3g}"))]
        memory = readable(cell.memory) if cell.memory else ""
        energy = f"{cell.energy:,.0f} J" if cell.energy is not None else ""
        rows.append([str(setting.workers), *named, *numbers, memory, f"{cell.cpu:.1f}", energy])
    columns = ("workers", "size", "how", "engine", "time", "spread", f"{unit}/s", "memory", "busy cores", "energy")
    used = [n for n, _ in enumerate(columns) if any(row[n] for row in rows)]
    right = tuple(column for column in columns if column not in ("how", "engine"))
    return Table(tuple(columns[n] for n in used), [[row[n] for n in used] for row in rows], right)
