"""Cells of a grid as fits want them: of one way and engine, of one size or sizes that grow with workers, as steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tenfold.scaling.cells import Cell, Setting, Taken
from tenfold.scaling.problem import Steps

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


def steps(cells: Sequence[Cell], batch: Callable[[Setting], float]) -> Steps | None:
    """The cells in which one model was trained, as `fit_step` takes them; None where there are none.

    `batch` says how many samples of a step each worker has in a setting. The time before the first step and after the
    last one is left out; waiting for others counts as communication, for it is the all-reduce that waits.
    """
    there = [cell for cell in measured(cells) if any(_step(taken) is not None for taken in cell.repeats)]
    if not there:
        return None
    seconds = [[found for taken in cell.repeats if (found := _step(taken)) is not None] for cell in there]
    taken = [sorted(cell.repeats, key=lambda one: one.seconds)[(len(cell.repeats) - 1) // 2] for cell in there]
    known = all(_steady(one) and one.parts.get("compute", 0) > 0 for one in taken)
    return Steps(
        workers=[cell.setting.workers for cell in there],
        batch=[batch(cell.setting) for cell in there],
        seconds=seconds,
        compute=[one.parts["compute"] / _steady(one) for one in taken] if known else None,
        communication=[_between(one) for one in taken] if known else None,
    )


def per_machine(cells: Sequence[Cell]) -> int | None:
    """How many workers shared a machine; None where all shared one."""
    spread = [(cell.setting.workers, taken.machines) for cell in measured(cells) for taken in cell.repeats]
    shared = [math.ceil(workers / machines) for workers, machines in spread if machines > 1]
    return max(shared, default=None)


def _steady(taken: Taken) -> int:
    """Steps but the first, which belongs to the startup: programs are made in it."""
    return max(0, (taken.steps or 0) - 1)


def _step(taken: Taken) -> float | None:
    during = taken.seconds - taken.parts.get("startup", 0.0) - taken.parts.get("rest", 0.0)
    return during / _steady(taken) if during > 0 and _steady(taken) else None


def _between(taken: Taken) -> float:
    return (taken.parts.get("communication", 0.0) + taken.parts.get("waiting", 0.0)) / _steady(taken)


def _curve(cells: list[Cell], *, scaled: bool) -> Curve:
    by_workers: dict[int, tuple[float, ...]] = {}
    for cell in sorted(cells, key=lambda cell: cell.setting.workers):
        rates = tuple(taken.items / taken.seconds for taken in cell.repeats if taken.items > 0)
        if rates:
            by_workers[cell.setting.workers] = (*by_workers.get(cell.setting.workers, ()), *rates)
    return Curve(tuple(by_workers), tuple(by_workers.values()), scaled)
