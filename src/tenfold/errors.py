"""Every error that tenfold raises on purpose, in one tree.

    TenfoldError
    ├── BadCall (ValueError)             an argument that cannot work; raised before any work starts
    │   ├── DoesNotFit                   needs that this machine, or this task's seat, cannot give
    │   └── RunDiffers                   the run folder holds another call's work
    ├── MissingPackage (ImportError)     something optional is not installed; the message has the command
    ├── RunUnusable (OSError)            the run folder or its journal cannot be read, written or locked
    ├── SampleFailed (RuntimeError)      a sample that a function could not handle, where that is not left out
    ├── SampleUnreadable (OSError)       one sample of a source is corrupt: an image, a value that does not parse
    ├── ValueUnreadable (TypeError)      a value that a task returned cannot be unpickled in this process
    ├── Diverged (ArithmeticError)       the loss of a training step is not a number
    ├── Abandoned (RuntimeError)         another worker of the same training or launch failed
    ├── GroupDiffers (RuntimeError)      a group of processes has another size than it should have
    ├── WorkersUnavailable (RuntimeError)  no worker process could be started
    │   └── ClusterLost (ConnectionError)  a cluster cannot be reached, or is gone
    ├── TaskError (RuntimeError)         one task failed; carries its whole story
    │   ├── TaskRaised                   its function raised
    │   ├── TaskTimedOut (TimeoutError)  it ran longer than timeout=
    │   ├── TaskOutOfMemory (MemoryError)  it used more than memory=
    │   ├── TaskDied                     its process ended: os._exit, a signal, the kernel's OOM killer
    │   └── TaskUnsendable (TypeError)   its item or its result could not be pickled
    └── TasksFailed (RuntimeError)       what map raises in the end; carries the results and every failure

Each one can be pickled, and can be caught as the built-in error in brackets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tenfold.dispatch.results import Results
    from tenfold.work.outcome import Failure


class TenfoldError(Exception):
    """The root of the tree."""


class BadCall(TenfoldError, ValueError):
    """An argument that cannot work. The message names it, its value, and what is accepted."""


class DoesNotFit(BadCall):
    """A task needs more than there is."""


class RunDiffers(BadCall):
    """The run folder belongs to another call: another function, other items, another seed."""


class MissingPackage(TenfoldError, ImportError):
    """An optional package is needed and is not installed."""


class RunUnusable(TenfoldError, OSError):
    """The run folder or the journal in it cannot be used."""


class SampleFailed(TenfoldError, RuntimeError):
    """A sample that the function, or its source, could not handle. The message says which."""


class SampleUnreadable(TenfoldError, OSError):
    """A sample of a source is corrupt. The message names its file; samples beside it can be read."""


class ValueUnreadable(TenfoldError, TypeError):
    """A task is done and its value is kept, but it cannot be opened here: its class is missing, for example."""


class Diverged(TenfoldError, ArithmeticError):
    """The loss of a step is not a number. The message has the step, the batch and its rows."""


class Abandoned(TenfoldError, RuntimeError):
    """A worker cannot go on, because another one of the same training or launch failed."""


class GroupDiffers(TenfoldError, RuntimeError):
    """A group has been formed, and has another size than it should have."""


class WorkersUnavailable(TenfoldError, RuntimeError):
    """Worker processes cannot be started, or none of them lives long enough to work."""


class ClusterLost(ConnectionError, WorkersUnavailable):
    """A cluster does not answer: a wrong address, no connection, a scheduler that has ended."""


class TaskError(TenfoldError, RuntimeError):
    """One task failed. `index`, `failure` and `attempts` say which, how and how often it was tried."""

    def __init__(self, message: str, *, index: int = -1, failure: Failure | None = None, attempts: int = 1) -> None:
        super().__init__(message)
        self.index = index
        self.failure = failure
        self.attempts = attempts

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.args, vars(self)

    @property
    def traceback(self) -> str:
        """The traceback as the worker saw it; empty where there was none."""
        return self.failure.traceback if self.failure else ""


class TaskRaised(TaskError):
    """The task's function raised an exception; it is this error's `__cause__` where it could be brought over."""


class TaskTimedOut(TaskError, TimeoutError):
    """The task ran longer than `timeout=` and was stopped."""


class TaskOutOfMemory(TaskError, MemoryError):
    """The task used more than `memory=` and was stopped."""


class TaskDied(TaskError):
    """The process of the task ended under it."""


class TaskUnsendable(TaskError, TypeError):
    """The task's item or result cannot be pickled."""


class TasksFailed(TenfoldError, RuntimeError):
    """Some tasks failed. Everything else is in `results`; `failures` has one error per failed task."""

    def __init__(self, message: str, results: Results | None = None) -> None:
        super().__init__(message)
        self.results = results

    def __reduce__(self) -> tuple[Any, ...]:
        # Results hold a database connection, which cannot travel; the message has the first tracebacks.
        return type(self), self.args, {**vars(self), "results": None}

    @property
    def failures(self) -> list[TaskError]:
        return list(self.results.failures) if self.results is not None else []


def every() -> list[type[TenfoldError]]:
    """The whole tree, root first."""
    found: list[type[TenfoldError]] = [TenfoldError]
    for kind in found:
        found += [below for below in kind.__subclasses__() if below not in found]
    return found
