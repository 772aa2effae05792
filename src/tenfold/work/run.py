"""Run the tasks of one job in this process, one after the other. The same code on every engine."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, cast

from tenfold import frameworks
from tenfold.plan.seats import Seat
from tenfold.work import here, parcel, seeds
from tenfold.work.arrivals import Arrivals
from tenfold.work.leg import Leg
from tenfold.work.outcome import Failure

_OURS = str(Path(__file__).parent.parent)


@dataclass(frozen=True, slots=True)
class Job:
    """What every worker of a call must know once."""

    seed: int
    """The call's seed; each task's own is derived from it."""
    folder: str
    """Where tasks keep their files, each in a folder of its own."""
    scratch: bool
    """The folder is a temporary one: it goes when the call ends."""
    frameworks: tuple[str, ...]
    """Members of `tenfold.frameworks` that the function uses."""
    seeds_globals: bool = True
    """Whether each task has the process's random numbers to itself; otherwise only here().rng is its own."""
    timeout: float | None = None
    """Seconds after which a task stops itself by an alarm; None where somebody else stops it, or nobody."""
    variables: tuple[tuple[str, str], ...] = ()
    """What the environment has to say before anything is imported, whatever the caller's says."""
    tasks: int | None = None
    """How many there are at least, where that is known: so many workers may be started ahead of them."""
    together: bool = False
    """They wait for each other: one that goes again does so beside the others, or none of them comes to its end."""


class Declined(Exception):
    """Not a failure: the task is to be run in another way, for the reason given. Nothing of it is kept."""


class Runner:
    """Runs tasks one at a time: marks where it is, seeds, calls, and turns what is raised into a Failure."""

    def __init__(
        self, function: Callable[[Any], Any], job: Job, seat: Seat, post: here.Post | None, *, whole_process: bool
    ) -> None:
        self._function = function
        self._job = job
        self._seat = seat
        self._post = post
        self._whole_process = whole_process
        # Threads share the global random numbers: seeding them for one task would make them another's, too.
        self._seeds = job.seeds_globals
        self._is_arithmetic = seeds.draws_none(function)
        self._current = 0
        self._together: Callable[[Any], list[Any]] | None = getattr(function, "together", None)
        self._gathered: list[tuple[here.Here, Any]] = []
        self._prepared: dict[int, tuple[bool, Any, float]] = {}
        self._undo: list[Callable[[], None] | None] = []  # of frameworks that tasks have imported
        self._arrivals = Arrivals(
            [member.modules[0] for member in frameworks.every().values()], after=self._framework_arrived
        )

    def __enter__(self) -> Runner:
        for name in self._job.frameworks:
            with contextlib.suppress(ImportError):  # the task's own import will say it better
                __import__(frameworks.every()[name].modules[0])
        self._arrivals.watch()
        return self

    def __exit__(self, *_: object) -> None:
        self._arrivals.stop()
        for step in reversed(self._undo):
            if step is not None:
                step()

    def gather(self, indices: Sequence[int], attempt: int, items: Sequence[Any]) -> bool:
        """Tell which tasks come next. True for a function that takes them all at once, when the first one is run."""
        if self._together is None:
            return False
        heres = [self._here(index, attempt, item) for index, item in zip(indices, items, strict=True)]
        self._gathered = list(zip(heres, items, strict=True))
        self._prepared.clear()
        return True

    def run(self, index: int, attempt: int, item: Any) -> tuple[bool, Any, float]:
        """(True, value, seconds), or (False, Failure, seconds). Never raises."""
        if self._together is None:
            return self._run(index, attempt, item, self._function)
        if index not in self._prepared:
            self._run_together(index, attempt)
        return self._prepared.pop(index)

    def _run_together(self, index: int, attempt: int) -> None:
        """All that were gathered; each has its share of the time."""
        gathered, self._gathered = self._gathered, []
        ok, values, seconds = self._run(index, attempt, gathered, cast("Callable[[Any], Any]", self._together))
        for place, (task, _) in enumerate(gathered):
            value = values[place] if ok else values
            if isinstance(value, BaseException):
                value = Failure("declined", str(value)) if isinstance(value, Declined) else raised(value)
            self._prepared[task.index] = (not isinstance(value, Failure), value, seconds / len(gathered))

    def _run(self, index: int, attempt: int, item: Any, function: Callable[[Any], Any]) -> tuple[bool, Any, float]:
        if self._is_arithmetic and self._job.timeout is None and type(item) in seeds.PLAIN:
            return self._calculate(item)
        task = self._here(index, attempt, item)
        before = here.enter(task, whole_process=self._whole_process)
        self._current = task.place
        began = time.perf_counter()
        try:
            if self._seeds:
                seeds.plant(task.seed)
                began = time.perf_counter()
            if self._job.timeout is None:
                return True, function(item), time.perf_counter() - began
            with _alarm(self._job.timeout, task):
                value = function(item)
            return True, value, time.perf_counter() - began
        except _TimeIsUp as up:
            if up.whose is not task:
                raise  # an outer task's
            failure = Failure("timeout", f"it ran longer than timeout={self._job.timeout:g} s and was stopped")
            return False, failure, time.perf_counter() - began
        except Declined as declined:
            return False, Failure("declined", str(declined)), time.perf_counter() - began
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and not self._whole_process:
                raise  # the caller's own process: Ctrl-C is for the caller
            return False, raised(error), time.perf_counter() - began
        finally:
            here.enter(before, whole_process=self._whole_process)

    def _here(self, index: int, attempt: int, item: Any) -> here.Here:
        leg = item if isinstance(item, Leg) else None
        return here.Here(index, attempt, self._job.seed, self._seat, self._job.folder, self._post, leg)

    def _calculate(self, item: Any) -> tuple[bool, Any, float]:
        """The short way for a function that neither draws random numbers nor asks where it is: 2 us less."""
        began = time.perf_counter()
        try:
            return True, self._function(item), time.perf_counter() - began
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and not self._whole_process:
                raise
            return False, raised(error), time.perf_counter() - began

    def _framework_arrived(self, module: str) -> None:
        """A task imported a framework itself: it must be settled and seeded as if it had been there before."""
        for member in frameworks.every().values():
            if member.modules[0] == module:
                self._undo.append(member.settle(self._seat))
                member.seed(seeds.number(self._job.seed, self._current))


def raised(error: BaseException) -> Failure:
    """An exception as a value that always travels: text in any case, the exception itself where it can be pickled."""
    where = _without_our_frames(error.__traceback__)
    text = "".join(traceback.format_exception(type(error), error, where))
    try:
        summary = "".join(traceback.format_exception_only(error)).strip()
    except Exception:  # a __str__ that raises
        summary = type(error).__name__
    return Failure("raised", summary, text, _pickled(error))


def unsendable(what: str, error: BaseException) -> Failure:
    """`what` could not be pickled."""
    return Failure("unsendable", f"{what} cannot be pickled: {type(error).__name__}: {error}")


def _pickled(error: BaseException) -> bytes | None:
    """An exception as a parcel that can be opened again: by its own way of pickling, or without that."""
    by_itself: parcel.Ways = {}
    for ways in (by_itself, {type(error): _reduce_error}):
        with contextlib.suppress(Exception):
            body = parcel.pack(error, ways=ways).to_bytes()
            parcel.unpack(body)
            return body
    return None


def _reduce_error(error: BaseException) -> Any:
    """Its type and values: without an `__init__` that wants other arguments, or the traceback that tblib adds."""
    return _rebuild_error, (type(error), error.args, vars(error))


def _rebuild_error(kind: type[BaseException], args: tuple[Any, ...], values: dict[str, Any]) -> BaseException:
    error = kind.__new__(kind, *args)
    vars(error).update(values)
    return error


def _without_our_frames(tb: TracebackType | None) -> TracebackType | None:
    """The traceback from the first frame that is not tenfold's own."""
    while tb is not None and tb.tb_next is not None and tb.tb_frame.f_code.co_filename.startswith(_OURS):
        tb = tb.tb_next
    return tb


class _TimeIsUp(BaseException):
    """Raised in the task by the alarm; not an Exception, so that a task's own `except Exception` lets it through."""

    def __init__(self, whose: object) -> None:
        super().__init__()
        self.whose = whose


_deadlines: list[tuple[float, object]] = []  # of the tasks that are under way in the main thread, outermost first


@contextlib.contextmanager
def _alarm(seconds: float, whose: object) -> Iterator[None]:
    """Raise `_TimeIsUp(whose)` in the block after `seconds`: the main thread's Python code only.

    A task may call `map` in its turn, so there may be several; the one timer is set to the first that is due.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _deadlines.append((time.monotonic() + seconds, whose))
    before = signal.signal(signal.SIGALRM, _ring)
    _set_timer()
    try:
        yield
    finally:
        _deadlines.pop()
        signal.signal(signal.SIGALRM, before)
        _set_timer()


def _ring(_signal: int, _frame: FrameType | None) -> None:
    now = time.monotonic()
    for deadline, whose in _deadlines:
        if deadline <= now:
            raise _TimeIsUp(whose)
    _set_timer()


def _set_timer() -> None:
    due = min((deadline for deadline, _ in _deadlines), default=None)
    signal.setitimer(signal.ITIMER_REAL, max(1e-3, due - time.monotonic()) if due is not None else 0)
