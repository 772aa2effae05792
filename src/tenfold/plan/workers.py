"""How many workers train one model on one machine, where nobody has said it: decided from the first steps of each.

One worker with everything comes first. Then one with fewer cores, whose threads need not wait for each other; then more
workers; then one again, whose process has several devices. Each is tried only where so much is left that it can pay,
and only as long as each of its kind was faster than those before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tenfold.errors import DoesNotFit
from tenfold.machine import Machine
from tenfold.plan.needs import Needs
from tenfold.plan.seats import cut

FASTER = 1.1  # times the steps a second: less could be chance, and more workers hold more memory
LEANER = 1.03  # the same of fewer cores, which are better where they are as fast
PAYS = 5.0  # times what it costs to try: so much could be saved, at best
FEWER_SAVE = 1 / 3  # of the time, at best: TensorFlow's 890 steps/s of a small net on two cores were 1,360 on one
OTHERWISE_SAVES = 1 / 3  # the same of GPUs that belong to one process, compared with as many processes
HOST_DEVICES_SAVE = 0.1  # the same of cores as devices: a small net took half as many steps a second on two
LONG = 0.01  # seconds of a step for which threads pay: fewer are not tried
SHORT = 0.0015  # seconds of a step that is not divided: two workers needed 0.8 ms to meet, besides half of the step
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
    devices: int = 1
    """Among which each divides its batches: that many GPUs, or parts of its cores."""

    @property
    def parts(self) -> int:
        """That a batch is divided into."""
        return self.workers * self.devices

    def __str__(self) -> str:
        own = _count(self.devices, "device") if self.devices > 1 else _count(self.cpus, "core")
        has = _count(self.gpus, "GPU") if self.gpus else own
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
    takes_devices: bool = False
    """Whether one process may have several for this model."""


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
    """What could be tried, in the order in which it is; `cpus` are those that were asked for.

    `needs` has what a worker needs besides; `most` is the largest number of workers that is allowed.
    """
    held = sum(gpu.share for gpu in machine.gpus)
    limit = int(held / needs.gpus if needs.gpus else machine.cpus / (cpus or 1))
    found = []
    for count in _numbers(limit if most is None else min(limit, most)):
        each = cpus or share(machine.cpus, count)
        if count == 1 or _fits(machine, Needs(each, needs.gpus, needs.memory), count):
            found.append(Candidate(count, each, needs.gpus))
    fewer = [] if cpus or needs.gpus else [Candidate(1, each) for each in _fewer(found[0].cpus)]
    return [found[0], *fewer, *found[1:], *_with_devices(machine, needs, cpus)]


def _with_devices(machine: Machine, needs: Needs, cpus: float | None) -> Iterator[Candidate]:
    """One worker whose process has several: GPUs, or all cores."""
    each = cpus or share(machine.cpus, 1)
    if needs.gpus == 1:
        for count in _numbers(sum(gpu.share >= 1 for gpu in machine.gpus)):
            if count > 1 and _fits(machine, Needs(each, count, needs.memory), 1):
                yield Candidate(1, each, count, count)
    elif not needs.gpus and not cpus and each >= 2:
        yield Candidate(1, each, 0, min(int(each), DOUBLED_TO))


def decide(among: Sequence[Candidate], timings: Mapping[Candidate, Timing]) -> Verdict:
    """What comes next, when some of the candidates have been timed, in that order."""
    first = among[0]
    if len(among) == 1 and not timings:
        return Verdict(first, settled=True, why=f"{first}, because there is no more to divide")
    if not timings:
        return Verdict(first, settled=False)
    best = first
    for candidate, timing in timings.items():
        best = candidate if timing.pace > _wanted(candidate) * timings[best].pace else best
    reasons: dict[str, list[str]] = {}
    for following in _following(among, timings, best):
        against = _against(following, best, timings)
        if not against:
            return Verdict(following, settled=False)
        reasons.setdefault(against, []).append(str(following))
    told = [why.format(" or ".join(names)) for why, names in reasons.items()]
    return Verdict(best, settled=True, why="; ".join([_compared(timings, best), *told]))


def _following(among: Sequence[Candidate], timings: Mapping[Candidate, Timing], best: Candidate) -> Iterator[Candidate]:
    """The next of each kind, where the last of it was faster."""
    places = {candidate: place for place, candidate in enumerate(among)}
    last = max(places[candidate] for candidate in timings)
    kinds = ["fewer", "more", *(["devices"] if timings[among[0]].takes_devices else [])]
    for kind in kinds:
        tried = [one for one in timings if _kind(one) == kind and one is not among[0]]
        coming = [one for one in among[last + 1 :] if _kind(one) == kind and one.parts >= best.parts]
        if coming and (not tried or tried[-1] == best):
            yield coming[0]


def _kind(candidate: Candidate) -> str:
    if candidate.devices > 1:
        return "devices"
    return "more" if candidate.workers > 1 else "fewer"


def _against(following: Candidate, best: Candidate, timings: Mapping[Candidate, Timing]) -> str:
    """Why it is not tried, in words with a gap for its name; nothing where it is."""
    timing, kind = timings[best], _kind(following)
    step = 1 / timing.pace
    if kind != "fewer" and step < SHORT:
        return f"a step of {_milliseconds(step)} is too short to divide"
    if kind == "fewer" and step > LONG:
        return f"a step of {_milliseconds(step)} is long enough for threads"
    left, cost = timing.left * step, 2 * list(timings.values())[-1].spent  # to try, and to begin again
    if left * _saves(following, best) >= PAYS * cost:
        return ""
    return f"about {_seconds(left)} were left, and to try {{}} could take {_seconds(cost)}"


def _saves(following: Candidate, best: Candidate) -> float:
    """A part of the time, at best."""
    kind, divided = _kind(following), 1 - best.parts / following.parts
    if kind == "fewer":
        return FEWER_SAVE
    if kind == "more":
        return divided
    return max(divided, OTHERWISE_SAVES) if following.gpus else HOST_DEVICES_SAVE


def _wanted(candidate: Candidate) -> float:
    return LEANER if _kind(candidate) == "fewer" else FASTER


def _fewer(cpus: float) -> Iterator[float]:
    """A quarter of the cores, a quarter of that, and so on to one."""
    while cpus > 1:
        cpus = float(max(1, int(cpus / 4)))
        yield cpus


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


def _compared(timings: Mapping[Candidate, Timing], best: Candidate) -> str:
    """The best first, then the others, with their numbers."""
    order = [best, *(candidate for candidate in timings if candidate != best)]
    words = "; ".join(f"{candidate}: {_pace(timings[candidate].pace)}" for candidate in order)
    close = {_kind(one) for one, timing in timings.items() if timing.pace > timings[best].pace} - {"fewer"}
    what = "more workers" if "more" in close else "several devices"
    return words + (f" ({what} are taken where they are {FASTER:g} times as fast)" if close else "")


def _count(number: float, what: str) -> str:
    return f"{number:g} {what}{'' if number == 1 else 's'}"


def _pace(pace: float) -> str:
    return f"{pace:,.0f} steps/s" if pace >= 10 else f"{pace:.2g} steps/s"


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:,.0f} ms" if seconds >= 0.01 else f"{1000 * seconds:.2g} ms"


def _seconds(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
