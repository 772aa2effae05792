"""Which cells of a grid belong together: of one way and engine, of one size, or of sizes that grow with the workers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tenfold.scaling.cells import Cell

Way = tuple[str | None, str | None]
"""How, and on which engine."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Throughput over workers."""

    workers: tuple[int, ...]
    """How many at once, ascending, each once."""
    throughput: tuple[tuple[float, ...], ...]
    """For each, the items a second of every repeat."""
    scaled: bool = False
    """The size grows with the workers."""


def measured(cells: Iterable[Cell]) -> list[Cell]:
    """Those that have repeats, and took time."""
    return [cell for cell in cells if cell.repeats and cell.seconds > 0]


def ways(cells: Iterable[Cell]) -> dict[Way, list[Cell]]:
    """The measured cells of each way and engine."""
    found: dict[Way, list[Cell]] = {}
    for cell in measured(cells):
        found.setdefault((cell.setting.how, cell.setting.engine), []).append(cell)
    return found


def fixed(cells: Sequence[Cell], size: int | None = None) -> Curve:
    """The cells of one size; of the largest one where it is not given. All must be of one way and engine."""
    there = measured(cells)
    sizes = [cell.setting.size for cell in there if cell.setting.size is not None]
    wanted = size if size is not None or not sizes else max(sizes)
    return _curve([cell for cell in there if cell.setting.size == wanted], scaled=False)


def growing(cells: Sequence[Cell]) -> Curve | None:
    """The longest row of cells whose size is proportional to their workers; None where two of them are not found."""
    there = [cell for cell in measured(cells) if cell.setting.size]
    rows: dict[float, list[Cell]] = {}
    for cell in there:
        rows.setdefault((cell.setting.size or 0) / cell.setting.workers, []).append(cell)
    if not rows:
        return None
    longest = max(rows.items(), key=lambda row: (len(row[1]), row[0]))[1]
    return _curve(longest, scaled=True) if len(longest) > 1 else None


def _curve(cells: list[Cell], *, scaled: bool) -> Curve:
    by_workers: dict[int, tuple[float, ...]] = {}
    for cell in sorted(cells, key=lambda cell: cell.setting.workers):
        rates = tuple(taken.items / taken.seconds for taken in cell.repeats if taken.items > 0)
        if rates:
            by_workers[cell.setting.workers] = (*by_workers.get(cell.setting.workers, ()), *rates)
    return Curve(tuple(by_workers), tuple(by_workers.values()), scaled)
