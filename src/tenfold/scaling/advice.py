"""What to do, in a few sentences with numbers: from the cells of a grid and the laws that were fitted to them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tenfold.scaling.breakeven import breakeven
from tenfold.scaling.cells import Cell
from tenfold.scaling.curves import Way, fixed, measured, ways
from tenfold.scaling.fitting import Fitted, best
from tenfold.scaling.stepfit import FittedStep
from tenfold.scaling.units import percent

NOISY = 0.1
"""Repeats that differ by more make close numbers equal."""
_ENOUGH = 0.9
"""Of the highest throughput: fewer workers that have so much are the better bargain."""
_SHOWN = 0.05
"""A part of the time below this is not worth a sentence."""
_SENT = 0.1
"""Of a step: communication below this is not worth a larger batch."""
_MOVES = {
    "startup": "longer calls, or workers that are warm (tenfold.warm), would shorten it",
    "input": "prepared data (tenfold.prepare), or data in memory, would shorten it",
    "compute": "that is the work itself: more workers, a faster device or a smaller model would shorten it",
    "communication": "longer tasks, or larger items, would shorten it",
    "waiting": "parts of equal length, or larger batches, would shorten it",
    "rest": "larger items or batches would leave the caller less to do",
}
_SENDS_LESS = {
    "sharded": "larger batches, a model in fewer parts or a faster network would shorten it",
    "asynchronous": "larger batches, fewer exchanges (average_every=) or a faster network would shorten it",
}
"""Of one model that is trained, by how that is done."""
_USUAL = "larger batches, fewer exchanges (how='asynchronous', average_every=) or a faster network would shorten it"


def advice(cells: Sequence[Cell], *, step: FittedStep | None = None, seed: int = 0) -> list[str]:
    """A few sentences, the most important first; an empty list where nothing was measured.

    `step` is the fitted step-time model of the fastest way, where one model was trained: it says which batch would pay.
    """
    there = measured(cells)
    top = fastest(there)
    if top is None:
        return []
    own = ways(there)[top.setting.how, top.setting.engine]
    found = [_fastest(top, own), *_bargain(top, own), *_more(own, top.setting.size, seed), *_others(there, top)]
    found += [*_pays(own), *_bottleneck(top), *_batch(step, _several(top, own)), *_noise(there), *_failed(cells)]
    return found


def fastest(cells: Sequence[Cell]) -> Cell | None:
    """That with the most items a second, of those with the largest size; None where nothing was measured."""
    there = measured(cells)
    size = _largest(there)
    return max((cell for cell in there if cell.setting.size == size), key=lambda cell: cell.throughput, default=None)


def _several(top: Cell, own: Sequence[Cell]) -> int:
    """Workers of whom a batch is asked: the most of them where one is fastest, for a larger batch may change that."""
    return top.setting.workers if top.setting.workers > 1 else max(cell.setting.workers for cell in own)


def _largest(cells: Sequence[Cell]) -> int | None:
    sizes = [cell.setting.size for cell in cells if cell.setting.size is not None]
    return max(sizes, default=None)


def _fastest(top: Cell, own: Sequence[Cell]) -> str:
    alone = [cell for cell in own if cell.setting.workers == 1 and cell.setting.size == top.setting.size]
    start = f"Fastest: {top.setting}, {_rate(top.throughput)} items a second"
    if not alone or top.setting.workers == 1:
        return f"{start}."
    times = top.throughput / alone[0].throughput
    return f"{start}: {times:.2g} times one worker, an efficiency of {percent(times / top.setting.workers)}."


def _bargain(top: Cell, own: Sequence[Cell]) -> list[str]:
    """Fewer workers that are nearly as fast."""
    fewer = [
        cell
        for cell in own
        if cell.setting.size == top.setting.size
        and cell.setting.workers < top.setting.workers
        and cell.throughput >= _ENOUGH * top.throughput
    ]
    if not fewer:
        return []
    least = min(fewer, key=lambda cell: cell.setting.workers)
    who = "1 worker already has" if least.setting.workers == 1 else f"{least.setting.workers} workers already have"
    return [f"{who} {percent(least.throughput / top.throughput)} of that."]


def _more(own: Sequence[Cell], size: int | None, seed: int) -> list[str]:
    """What more workers than were measured would do."""
    curve = fixed(own, size)
    if len(curve.workers) < 2:
        return []
    law = best(curve.workers, curve.throughput, seed=seed)
    if law is None:
        return []
    if law.poor is not None:
        return [f"What more workers would do is not known: {law.law.name}: {law.poor}."]
    return [_told(law, max(curve.workers))]


def _told(law: Fitted, most: int) -> str:
    peak = law.peak
    if peak.high < 8 * most:
        ends = f"{round(peak.low)} to {round(peak.high)}"
        return f"By the law that fits best ({law.law.name}), more than {round(peak.value)} workers ({ends}) are slower."
    twice = law.throughput(2 * most)
    gain = twice.value / law.throughput(most).value
    return (
        f"By the law that fits best ({law.law.name}), {2 * most} workers would have {gain:.2g} times the throughput "
        f"of {most}: {_rate(twice.low)} to {_rate(twice.high)} items a second."
    )


def _others(cells: Sequence[Cell], top: Cell) -> list[str]:
    """The same place of the grid in other ways or on other engines."""
    found = []
    for other in cells:
        same = (other.setting.workers, other.setting.size) == (top.setting.workers, top.setting.size)
        if same and other is not top and other.throughput < top.throughput:
            names = _difference((top.setting.how, top.setting.engine), (other.setting.how, other.setting.engine))
            times = top.throughput / other.throughput
            close = ", which is within what repeats differ by" if times - 1 < top.spread + other.spread else ""
            found.append(f"{names[0]} is {times:.2g} times as fast as {names[1]} there{close}.")
    return found


def _difference(a: Way, b: Way) -> tuple[str, str]:
    """How two ways are told apart, in as few words as it takes."""
    pairs = [
        (one or "the usual way", other or "the usual way") for one, other in zip(a, b, strict=True) if one != other
    ]
    return " on ".join(pair[0] for pair in pairs), " on ".join(pair[1] for pair in pairs)


def _pays(own: Sequence[Cell]) -> list[str]:
    """From which size on more workers pay."""
    sizes = breakeven(own)
    if not sizes:
        return []
    words = []
    for workers, size in sizes.items():
        when = "at no size" if math.isinf(size) else f"above {size:,.0f}" if size >= 1 else "at every size"
        words.append(f"{workers} {when}")
    return [f"Sizes at which more workers pay: {', '.join(words)}."]


def _bottleneck(top: Cell) -> list[str]:
    parts = {name: seconds / top.seconds for name, seconds in top.parts.items() if seconds > 0}
    if not parts:
        return []
    shares = sorted(parts.items(), key=lambda part: -part[1])
    told = ", ".join(f"{name} {percent(share)}" for name, share in shares if share >= _SHOWN)
    return [f"The time goes to {told}. Most of it is {shares[0][0]}: {_moves(top, shares[0][0])}."]


def _moves(top: Cell, part: str) -> str:
    if part == "communication" and top.repeats[0].steps is not None:
        return _SENDS_LESS.get(top.setting.how or "", _USUAL)
    return _MOVES[part]


def _batch(step: FittedStep | None, workers: int) -> list[str]:
    """The batch with which communication is a small part of a step."""
    if step is None or workers == 1 or step.step.per_sample <= 0:
        return []
    sent = float(step.step.communication(workers)) * (1 - float(step.step.overlap))
    wanted = (sent * (1 - _SENT) / _SENT - float(step.step.fixed)) / float(step.step.per_sample)
    if wanted <= 1:
        return [f"With {workers} workers, communication is a small part of a step whatever the batch."]
    rounded = 2 ** math.ceil(math.log2(wanted))
    return [
        f"With {workers} workers, from a batch of {rounded:,} for each of them, "
        f"communication is less than {percent(_SENT)} of a step."
    ]


def _noise(cells: Sequence[Cell]) -> list[str]:
    if all(len(cell.repeats) == 1 for cell in cells):
        return ["Each setting was measured once, so close numbers may be equal; more repeats would tell."]
    worst = max(cells, key=lambda cell: cell.spread)
    if worst.spread <= NOISY:
        return []
    return [
        f"Repeats differ by up to {percent(worst.spread)} ({worst.setting}): "
        "numbers that are closer than that are equal; more repeats would tell."
    ]


def _failed(cells: Sequence[Cell]) -> list[str]:
    return [f"Not measured: {cell.setting}: {cell.failure}." for cell in cells if cell.failure is not None]


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
