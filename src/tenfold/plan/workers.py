"""How many workers train one model on one machine, where nobody has said it: decided from the first steps of each.

One worker with everything comes first. More are tried only where so much is left that it can pay, and only as long as
each number was faster than the one before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tenfold.errors import DoesNotFit
from tenfold.machine import Machine
from tenfold.plan.needs import Needs
from tenfold.plan.seats import cut

FASTER = 1.1  # times the steps a second: less could be chance, and more workers hold more memory
PAYS = 5.0  # times what it costs to try: so much could be saved, at best
DOUBLED_TO = 16  # workers; beyond, numbers are four times the last, so that there are five at the most up to 256


@dataclass(frozen=True, slots=True)
class Candidate:
    """So many workers, and what each has."""

    workers: int
    """How many."""
    cpus: float
    """Cores for each."""
    gpus: float = 0
    """GPUs for each."""

    def __str__(self) -> str:
        has = _count(self.gpus, "GPU") if self.gpus else _count(self.cpus, "core")
        return f"{_count(self.workers, 'worker')} with {has}{' each' if self.workers > 1 else ''}"


@dataclass(frozen=True, slots=True)
class Timing:
    """What the first steps of a candidate have shown."""

    pace: float
    """Steps a second."""
    spent: float
    """Seconds that it took to find that out, from a worker's start."""
    left: int
    """Steps that were still to be taken."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is done next."""

    candidate: Candidate
    """The one to take, or to try."""
    settled: bool
    """It trains to the end; otherwise it is tried."""
    why: str = ""
    """In words, of one that is taken."""


def share(cpus: float, workers: int) -> float:
    """Cores for each of so many workers: a whole number, or a part of one."""
    part = cpus / workers
    return float(int(part)) if part > 1 else part


def candidates(machine: Machine, needs: Needs, cpus: float | None, most: int | None = None) -> list[Candidate]:
    """The numbers of workers that could be tried, in the order in which they are; `cpus` are those that were asked for.

    `needs` has what a worker needs besides; `most` is the largest number that is allowed.
    """
    held = sum(gpu.share for gpu in machine.gpus)
    limit = int(held / needs.gpus if needs.gpus else machine.cpus / (cpus or 1))
    found = []
    for count in _numbers(limit if most is None else min(limit, most)):
        each = cpus or share(machine.cpus, count)
        if count == 1 or _fits(machine, Needs(each, needs.gpus, needs.memory), count):
            found.append(Candidate(count, each, needs.gpus))
    return found


def decide(among: Sequence[Candidate], timings: Sequence[Timing]) -> Verdict:
    """What comes next, when the first of the candidates have been timed."""
    if len(among) == 1 and not timings:
        return Verdict(among[0], settled=True, why=f"{among[0]}, because there is no more to divide")
    if not timings:
        return Verdict(among[0], settled=False)
    last, best = len(timings) - 1, 0
    for place, timing in enumerate(timings):
        if timing.pace > FASTER * timings[best].pace:
            best = place
    following = among[last + 1] if last + 1 < len(among) else None
    if best != last or following is None:
        return Verdict(among[best], settled=True, why=_compared(among, timings, best))
    left, cost = timings[last].left / timings[last].pace, 2 * timings[last].spent  # to try, and to begin again here
    saved = left * (1 - among[last].workers / following.workers)
    if saved >= PAYS * cost:
        return Verdict(following, settled=False)
    why = f"about {_seconds(left)} were left, and to try {following} could take {_seconds(cost)}"
    return Verdict(among[last], settled=True, why=f"{_compared(among, timings, best)}; {why}")


def _numbers(limit: int) -> Iterator[int]:
    """1, 2, 4 and so on, and the limit itself."""
    factor, count = 2 if limit <= DOUBLED_TO else 4, 1
    while count < limit:
        yield count
        count *= factor
    yield max(1, limit)


def _fits(machine: Machine, needs: Needs, count: int) -> bool:
    try:
        return len(cut(machine, needs, count)) == count
    except DoesNotFit:
        return False


def _compared(among: Sequence[Candidate], timings: Sequence[Timing], best: int) -> str:
    """The best first, then the others, with their numbers."""
    order = [best, *(place for place in range(len(timings)) if place != best)]
    words = "; ".join(f"{among[place]}: {_pace(timings[place].pace)}" for place in order)
    close = any(timing.pace > timings[best].pace for timing in timings)
    return words + (f" (more workers are taken where they are {FASTER:g} times as fast)" if close else "")


def _count(number: float, what: str) -> str:
    return f"{number:g} {what}{'' if number == 1 else 's'}"


def _pace(pace: float) -> str:
    return f"{pace:,.0f} steps/s" if pace >= 10 else f"{pace:.2g} steps/s"


def _seconds(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
