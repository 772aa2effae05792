"""`tenfold.here()`: what this task was given, seen from inside it.

Outside a task it describes the whole machine, so that a training function also works when it is called directly.
"""

from __future__ import annotations

import contextlib
import functools
import math
import numbers
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenfold import machine
from tenfold.errors import BadCall
from tenfold.plan.seats import GpuShare, Seat
from tenfold.work import folders, noted, seeds
from tenfold.work.leg import Halted, Judge, Leg, Why
from tenfold.work.outcome import shorten

if TYPE_CHECKING:
    import numpy

Post = Callable[[int, int, int, dict[str, float], float], None]
"""Takes a report: index, attempt, step, values, time."""


SHARED = "shared"  # the folder, among those of the tasks, that all of them use


def folder_of(folder: str, index: int) -> Path:
    """Where a task keeps its files, in the folder of its call."""
    return Path(folder) / f"{index:06d}"


class Here:
    """What this task was given."""

    def __init__(
        self,
        index: int,
        attempt: int,
        run_seed: int,
        seat: Seat,
        folder: str,
        post: Post | None,
        leg: Leg | None = None,
    ) -> None:
        self.index = index
        """The place of the item among the items."""
        self.attempt = attempt
        """1 at first, 2 when it is tried again."""
        self.judge = Judge(leg) if leg is not None else None
        """Of a trial: told what it reports, and may end it."""
        self.place = index if leg is None else leg.trial
        """What its seed and its folder are by: all legs of a trial share them."""
        self.rank = 0
        """In a function that `tenfold.launch` runs: which of the workers this is."""
        self.workers = 1
        """How many of them there are; everywhere else, one."""
        self._run_seed = run_seed
        self._seat = seat
        self._folder = folder
        self._post = post
        self._rng: numpy.random.Generator | None = None

    @property
    def given(self) -> tuple[int, Seat, str]:
        """The call's seed, the seat and the folder of all tasks: what another process needs to be this task."""
        return self._run_seed, self._seat, self._folder

    @property
    def seed(self) -> int:
        """This task's own seed, 32 bits: the same on every engine, for any number of workers, on every attempt."""
        return seeds.number(self._run_seed, self.place)

    @property
    def rng(self) -> numpy.random.Generator:
        """A NumPy generator with this task's own seed."""
        if self._rng is None:
            import numpy

            self._rng = numpy.random.default_rng(seeds.sequence(self._run_seed, self.place))
        return self._rng

    @property
    def cpus(self) -> float:
        """Cores' worth of time; every thread pool is set to it."""
        return self._seat.cpus

    @property
    def memory(self) -> int | None:
        """Bytes that it may use; None where it is not limited."""
        return self._seat.memory

    @property
    def gpus(self) -> tuple[str, ...]:
        """Addresses of the GPUs that this task holds, as CUDA_VISIBLE_DEVICES has them."""
        return tuple(gpu.address for gpu in self._seat.gpus)

    @property
    def device(self) -> str:
        """ "cuda:0" where the task holds a GPU (it sees only its own), else "cpu"."""
        return self._seat.device

    @property
    def xp(self) -> Any:
        """CuPy where this task holds a GPU and CuPy is installed, else NumPy."""
        if self._seat.gpus:
            try:
                import cupy
            except ImportError:
                pass
            else:
                return cupy
        import numpy

        return numpy

    @property
    def folder(self) -> Path:
        """A folder for this task's own files, made on first use and kept with the run.

        Without `run=` it is removed when the call ends. A second attempt finds what the first one left.
        """
        return folders.make(folder_of(self._folder, self.place))

    @property
    def shared(self) -> Path:
        """A folder that the tasks of this call on this machine share, made on first use and kept with the run."""
        return folders.make(Path(self._folder) / SHARED)

    def report(self, step: int, /, **values: float) -> None:
        """Tell the caller how it is going: shown with the progress, kept in the journal.

        In a trial of a study that is to stop here, it does not return.
        """
        if isinstance(step, bool) or not isinstance(step, numbers.Integral):
            raise BadCall(f"report(step={step!r}): expected a whole number")
        if not values:
            raise BadCall(f"report({step}): expected at least one value, such as report({step}, loss=0.3)")
        told = {name: _number(name, value) for name, value in values.items()}
        if self._post is not None:
            self._post(self.index, self.attempt, int(step), told, time.time())
        if self.judge is not None:
            self._judged(self.judge, int(step), told)

    def _judged(self, judge: Judge, step: int, told: dict[str, float]) -> None:
        before = judge.steps
        why = judge.ended or judge.look(step, told)
        if judge.steps > before and not judge.numbered:
            noted.note(folder_of(self._folder, self.place), step, told)
        if why is not None:
            judge.ended = why
            raise Halted(why)

    def recall(self) -> Why | None:
        """In a trial: take what an earlier attempt at this leg has reported; why it ends there already, if it does."""
        if self.judge is None:
            return None
        return self.judge.recall(noted.noted(folder_of(self._folder, self.place)))

    def __repr__(self) -> str:
        return f"<here: task {self.index}, attempt {self.attempt}, {self._seat}>"


def _number(name: str, value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]  # tensors and arrays of one element have __float__
    except (TypeError, ValueError, OverflowError) as error:
        raise BadCall(f"report({name}={shorten(value)}): expected a number") from error


_task: ContextVar[Here | None] = ContextVar("tenfold_task", default=None)
_process_task: Here | None = None  # a thread that a task starts has no context of its own


def enter(task: Here | None, *, whole_process: bool) -> Here | None:
    """Called around each task by the one that runs it; returns the task that was under way."""
    global _process_task
    before = _task.get()
    _task.set(task)
    if whole_process:
        _process_task = task
    return before


@contextlib.contextmanager
def aside() -> Iterator[None]:
    """The same task with random numbers of its own: what is drawn meanwhile is not missing afterwards."""
    task = here()
    rng, task._rng = task._rng, None
    try:
        yield
    finally:
        task._rng = rng


def here() -> Here:
    """What this task was given; outside a task, what the machine has."""
    return _task.get() or _process_task or _outside(os.getpid())


@functools.cache
def _outside(_pid: int) -> Here:
    found = machine.look()
    shares = tuple(GpuShare(gpu.address, gpu.share) for gpu in found.gpus)
    seat = Seat(0, math.floor(found.cpus), found.cores, shares, found.memory)
    return Here(0, 1, 0, seat, os.path.join(tempfile.gettempdir(), f"tenfold-{os.getuid()}-outside"), None)
