"""What became of a task: values that cross from the worker to the parent, and on to the journal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tenfold import errors
from tenfold.work import parcel

_ERRORS: Mapping[str, type[errors.TaskError]] = {
    "raised": errors.TaskRaised,
    "timeout": errors.TaskTimedOut,
    "memory": errors.TaskOutOfMemory,
    "died": errors.TaskDied,
    "unsendable": errors.TaskUnsendable,
}


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt at a task failed."""

    kind: str
    """raised, timeout, memory, died, unsendable or declined."""
    summary: str
    """One line: the exception's type and message, or what happened to the process."""
    traceback: str = ""
    """The traceback as the worker saw it."""
    exception: bytes | None = None
    """The exception itself, pickled, where that was possible."""
    output: str = ""
    """The last lines that the process wrote, where it died."""

    def to_json(self) -> str:
        """For the journal."""
        return json.dumps(asdict(self) | {"exception": self.exception.hex() if self.exception is not None else None})

    @classmethod
    def from_json(cls, text: str) -> Failure:
        """From there."""
        fields = json.loads(text)
        fields["exception"] = bytes.fromhex(fields["exception"]) if fields["exception"] is not None else None
        return cls(**fields)


@dataclass(frozen=True, slots=True)
class Report:
    """One call of `here().report`."""

    index: int
    """The task's."""
    attempt: int
    """Counted from 1."""
    step: int
    """As the task gave it."""
    values: dict[str, float]
    """As the task gave them."""
    at: float
    """Seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Unopened:
    """Stands for a value or an item that is kept and cannot be unpickled in this process."""

    reason: str
    """Why."""

    def __repr__(self) -> str:
        return f"<cannot be opened here: {self.reason}>"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one task."""

    index: int
    """Its place among the items."""
    ok: bool
    """Whether it returned a value."""
    value: Any
    """What it returned; None where it failed."""
    failure: Failure | None
    """Why it failed; None where it did not."""
    seconds: float
    """How long its last attempt ran."""
    started: float
    """When that began, in seconds since the epoch."""
    peak: int
    """Most resident memory of its process until then, in bytes; 0 where it is not known."""
    seat: int
    """Number of its seat in the plan."""
    worker: str
    """The process it ran in: host and process id."""
    attempts: int
    """How often it was started."""
    item: Any = None
    """What the task was given, where it was small enough to keep."""

    @property
    def error(self) -> errors.TaskError | None:
        """The failure as the error that `map` would raise for it."""
        return describe(self) if self.failure else None


def describe(outcome: Outcome) -> errors.TaskError:
    """The error of a failed outcome, with its item, its seat and the worker's traceback in the message."""
    failure = outcome.failure
    assert failure is not None
    tries = "" if outcome.attempts == 1 else f", attempt {outcome.attempts}"
    lines = [f"task {outcome.index} failed: {failure.summary}"]
    if outcome.item is not None:
        lines.append(f"  item: {shorten(outcome.item)}")
    lines.append(f"  seat {outcome.seat}, worker {outcome.worker or 'none'}{tries}, after {outcome.seconds:.3g} s")
    if failure.traceback:
        lines += ["", "Traceback in the worker:", failure.traceback.rstrip()]
    if failure.output:
        lines += ["", "The last lines that it wrote:", failure.output.rstrip()]
    error = _ERRORS[failure.kind]("\n".join(lines), index=outcome.index, failure=failure, attempts=outcome.attempts)
    error.__cause__ = original(failure)
    return error


def original(failure: Failure) -> BaseException | None:
    """The worker's own exception, where its class exists here too."""
    if failure.exception is None:
        return None
    try:
        found = parcel.unpack(bytearray(failure.exception))
    except Exception:  # its class exists only in the worker, or its __init__ refuses: the text has to do
        return None
    return found if isinstance(found, BaseException) else None


def shorten(item: object, most: int = 200) -> str:
    """A line that shows an item to a person."""
    try:
        text = " ".join(repr(item).split())
    except Exception as error:  # a broken __repr__ must not hide the failure that is being described
        text = f"<{type(item).__name__}, whose repr raised {type(error).__name__}>"
    return text if len(text) <= most else text[: most - 3] + "..."
