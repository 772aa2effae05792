"""`tenfold.measure`: how does it scale? A grid of calls, timed; and what explains their times."""

from __future__ import annotations

import os
import random
import socket
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from tenfold import engines as every_engine
from tenfold import machine
from tenfold.errors import BadCall
from tenfold.journal.block import Block
from tenfold.machine.meter import Meter
from tenfold.report.scaling_study import ScalingStudy, cells_of, study_of
from tenfold.scaling.cells import Cell, Setting, Taken
from tenfold.scaling.split import split
from tenfold.verbs.call import Call, Settings, opened, sound
from tenfold.verbs.measurable import Measurable, measurable
from tenfold.verbs.observed import observed
from tenfold.work import parcel
from tenfold.work.outcome import Failure

KNOWN = 0.05
"""A doubt below which a cell needs no more repeats, where `budget` would allow them."""
MOST = 5
"""Times `repeats` that a cell is repeated at most."""


def measure(
    task: Any,
    *,
    workers: Sequence[int],
    sizes: Sequence[int] | None = None,
    hows: Sequence[str] | None = None,
    engines: Sequence[Any] | None = None,
    repeats: int = 3,
    budget: float | None = None,
    cpus: float | None = None,
    seed: int = 0,
    run: str | os.PathLike[str] | None = None,
    fresh: bool = False,
    progress: bool | None = None,
) -> ScalingStudy:
    """Run `task` for every number of workers and every size, and find out how its time depends on them.

    task       a `Fit` (as `train` runs it); a `functools.partial` of map, train, prepare, predict or evaluate without
               workers and engine; or a function of (workers, size)
    workers    such as [1, 2, 4]
    sizes      samples or items, from the beginning of the data; all of it where none are given
    hows       ways to do it: of a Fit those of `train`; of a map of a Fit "fused", "looped", "alone"
    engines    such as ["local", "ray"]
    repeats    of each cell, in rounds whose order is shuffled, so that a slow minute does not fall upon one cell
    budget     seconds, after which no other call begins; what is left of it goes into repeats until times are known
    cpus       cores for each worker: those of the machine, divided by the most workers, where it is not given
    run        a folder that keeps what was measured; the same call goes on, also with more workers or sizes

    The others are those of `tenfold.map`. A cell that fails has its failure, and the others are measured.
    """
    settings = Settings(seed=seed, engine="serial", run=run, fresh=fresh, progress=progress)
    faults = settings.faults()
    found = sound(faults, measurable, task)
    named = _named(engines, faults)
    faults += _counts("workers", workers) + ([] if sizes is None else _counts("sizes", sizes))
    faults += _number_faults(repeats, budget, cpus)
    if found is not None and not faults:
        faults += _grid_faults(found, sizes, hows)
    if faults or found is None:
        raise BadCall("; ".join(faults))
    axes: list[Sequence[Any]] = [workers, sizes or [None], hows or [found.how], list(named) or [None]]
    grid = [Setting(*place) for place in product(*axes)]
    each = _cpus(cpus, max(workers))
    with opened("measure", task, settings, total=None, on_error="collect", parts={}) as call:
        kept = {"function": found.name, "batch": str(found.batch or ""), "cpus": str(each) if found.is_seated else ""}
        call.journal.set_meta(**kept, count="")
        rounds = Rounds(found, grid, named, each, call)
        rounds.run(repeats, budget, seed)
        left = rounds.left(budget)
        # How many calls there are is known when none is left; until then, the run is unfinished.
        call.journal.set_meta(left=left, count="" if left else str(sum(call.journal.counts())))
    return study_of(call.journal)


@dataclass(slots=True)
class Rounds:
    """The grid, again and again."""

    task: Measurable
    """What is run in each cell."""
    grid: Sequence[Setting]
    """All cells."""
    engines: Mapping[str | None, Any]
    """What the engines' names stand for."""
    cpus: float
    """Cores of each worker."""
    call: Call
    """Its journal keeps what was measured."""
    failed: set[Setting] = field(default_factory=set)
    """Not tried again in this call."""
    taken: dict[Setting, list[Taken]] = field(init=False)
    """So far, also by earlier calls."""

    def __post_init__(self) -> None:
        self.taken = {cell.setting: list(cell.repeats) for cell in cells_of(self.call.journal)}

    def run(self, repeats: int, budget: float | None, seed: int) -> None:
        """All that is still to be measured."""
        until = None if budget is None else time.monotonic() + budget
        watch = self.call.watch
        watch.total = len(self.grid) * repeats
        warm: set[tuple[str | None, str | None]] = set()
        for setting in self._order(repeats, budget, seed):
            if until is not None and time.monotonic() >= until:
                return
            kind = (setting.how, setting.engine)
            if kind not in warm:  # a worker's first call imports, compiles and reads for the first time
                warm.add(kind)
                self._warm(kind)
            self._measure(setting)

    def _order(self, repeats: int, budget: float | None, seed: int) -> Iterator[Setting]:
        """Round after round, each in an order of its own; the first ones only where something is missing."""
        rounds = repeats if budget is None else MOST * repeats
        for number in range(1, rounds + 1):
            order = list(self.grid)
            random.Random(f"{seed} {number}").shuffle(order)
            for setting in order:
                cell = self._cell(setting)
                enough = number > repeats and cell.doubt <= KNOWN
                if len(cell.repeats) < number and not enough and setting not in self.failed:
                    yield setting

    def left(self, budget: float | None) -> str:
        """What there was no time for, in a sentence; nothing where all was tried."""
        never = [setting for setting in self.grid if not self.taken.get(setting) and setting not in self.failed]
        if not never or budget is None:
            return ""
        return (
            f"{len(never)} of {len(self.grid)} settings were not measured in the {budget:g} seconds of the budget, "
            f"such as {never[0]}: a larger budget, or the same call again with run=, has time for them."
        )

    def _cell(self, setting: Setting) -> Cell:
        return Cell(setting, tuple(self.taken.get(setting, ())))

    def _warm(self, kind: tuple[str | None, str | None]) -> None:
        """The smallest cell, untimed; what is wrong with it is found when it is measured."""
        least = min(
            (setting for setting in self.grid if (setting.how, setting.engine) == kind),
            key=lambda setting: (setting.size or 0, -setting.workers),
        )
        try:
            self._go(least)
        except Exception:
            return

    def _go(self, setting: Setting) -> Any:
        return self.task.run(setting, engine=self.engines.get(setting.engine), cpus=self.cpus, progress=False)

    def _measure(self, setting: Setting) -> None:
        watch, journal = self.call.watch, self.call.journal
        watch.headline = str(setting)
        watch.update(running=1)
        began, meter = time.monotonic(), Meter(weighs=not self.task.is_seated)
        try:
            with observed() as seen:
                done = self._go(setting)
                seconds = time.monotonic() - began - seen.seconds
        except Exception as error:
            text = "".join(traceback.format_exception(error))
            failure = Failure("raised", _first_line(f"{type(error).__name__}: {error}"), text)
            journal.add_failure(self._block(setting, time.monotonic() - began, 0), failure)
            self.failed.add(setting)
            watch.add(failed=1)
        else:
            memory = max((shift.memory for shift in seen.shifts), default=0) or meter.memory()
            parts = split(seconds, seen.shifts)
            extent = (memory, meter.cores(), meter.joules(), done.steps, done.parameters)
            cpus = self.cpus if self.task.is_seated else None
            machines = max((shift.machines for shift in seen.shifts), default=1)
            taken = Taken(seconds, done.items, parts, *extent, cpus, machines)
            journal.add_values(self._block(setting, seconds, memory), [parcel.pack(taken).body])
            self.taken.setdefault(setting, []).append(taken)
            watch.add(done=1)
        journal.commit()
        watch.update(running=0)

    def _block(self, setting: Setting, seconds: float, memory: int) -> Block:
        done, failed = self.call.journal.counts()
        who = f"{socket.gethostname()}:{os.getpid()}"
        return Block(done + failed, [seconds], memory, 0, who, 1, [setting])


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else text


# -- what may be asked ----------------------------------------------------------------------------------------------


def _counts(name: str, given: Any) -> list[str]:
    is_list = isinstance(given, Sequence | range) and not isinstance(given, str) and len(given)
    if not is_list:
        return [f"{name}={given!r}: expected a list of whole numbers, such as {name}=[1, 2, 4]"]
    wrong = [one for one in given if isinstance(one, bool) or not isinstance(one, int) or one < 1]
    found = [f"{name}: {one!r} is not a whole number above 0" for one in wrong]
    return found or ([f"{name}={list(given)!r}: one is there twice"] if len(set(given)) < len(given) else [])


def _number_faults(repeats: Any, budget: Any, cpus: Any) -> list[str]:
    found = []
    if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1:
        found.append(f"repeats={repeats!r}: expected a whole number above 0")
    for name, value in (("budget", budget), ("cpus", cpus)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value > 0):
            found.append(f"{name}={value!r}: expected a number above 0")
    return found


def _grid_faults(task: Measurable, sizes: Sequence[int] | None, hows: Sequence[str] | None) -> list[str]:
    found = []
    if sizes is not None and task.length is not None and max(sizes) > task.length:
        found.append(f"sizes: {max(sizes)} is more than the {task.length} that there are")
    unknown = [how for how in hows or () if how not in task.hows]
    if unknown:
        accepted = f"expected some of {', '.join(map(repr, task.hows))}" if task.hows else "there is one way to do it"
        found.append(f"hows={list(hows or ())!r}: {accepted}")
    return found


def _named(engines: Any, faults: list[str]) -> dict[str | None, Any]:
    """Name -> engine as it was given."""
    if engines is None:
        return {}
    if isinstance(engines, str) or not isinstance(engines, Sequence) or not engines:
        faults.append(f'engines={engines!r}: expected a list, such as engines=["local", "ray"]')
        return {}
    found: dict[str | None, Any] = {}
    for one in engines:
        engine = sound(faults, every_engine.find, one)
        if engine is not None:
            found[one if isinstance(one, str) else every_engine.name_of(engine)] = engine
    return found


def _cpus(cpus: float | None, most: int) -> float:
    """The same for each worker of every cell: so more workers are more of the machine."""
    if cpus is not None:
        return cpus
    cores = machine.look().cpus
    return max(1, cores // most) if cores >= most else cores / most
