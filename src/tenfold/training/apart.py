"""A process of its own for a worker of a launch, where the engine's are shared with others: joblib's, which stay.

A framework that has formed a group cannot form another in the same process, and a group must not be what the next
call of somebody else finds. So the process that the engine has given starts a fresh interpreter, which has its seat,
and passes on what that says.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from tenfold.errors import TaskDied
from tenfold.nursery import groups
from tenfold.work import parcel
from tenfold.work.exits import describe
from tenfold.work.here import Here, here
from tenfold.work.outcome import Failure, original
from tenfold.work.run import Job, Runner, unsendable

_CODE = "import sys; sys.path[:] = {path!r}; from tenfold.training.apart import live; live({handle}, {parent})"


def run(function: Callable[[Any], Any], item: Any, frameworks: Sequence[str]) -> Any:
    """What `function(item)` returns or raises in a fresh interpreter."""
    task = here()
    ours, theirs = Pipe()
    code = _CODE.format(path=sys.path, handle=theirs.fileno(), parent=os.getpid())
    with ours:
        child = subprocess.Popen([sys.executable, "-c", code], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()
        try:
            ours.send(_errand(task, frameworks))
            ours.send_bytes(parcel.pack_function(function).to_bytes())
            ours.send(item)
            return _answer(ours, task, child)
        finally:
            child.kill()
            child.wait()


def _errand(task: Here, frameworks: Sequence[str]) -> tuple[Any, ...]:
    run_seed, seat, folder = task.given
    job = Job(run_seed, folder, False, tuple(frameworks))
    return job, seat, task.index, task.attempt, list(sys.argv)


def _answer(wire: Connection, task: Here, child: subprocess.Popen[bytes]) -> Any:
    while True:
        try:
            kind, value = wire.recv()
        except (EOFError, OSError):
            kind, value = "ended", describe(child.wait(), b"", 0)
        if kind == "report":
            task.report(value[0], **value[1])
        elif kind == "value":
            return parcel.unpack(bytearray(value))
        elif kind == "ended":
            raise TaskDied(value.summary, index=task.index, failure=value)
        else:
            raise _raised(value)


def _raised(failure: Failure) -> BaseException:
    found = original(failure) or RuntimeError(failure.summary)
    if failure.traceback:
        found.add_note(f"in the process that it ran in:\n{failure.traceback.rstrip()}")
    return found


def live(handle: int, parent: int) -> None:
    """The whole life of the interpreter. Does not return."""
    groups.die_with(parent)
    wire = Connection(handle)
    job, seat, index, attempt, sys.argv[:] = wire.recv()
    function = parcel.unpack(bytearray(wire.recv_bytes()))
    item = wire.recv()

    def post(_index: int, _attempt: int, step: int, values: dict[str, float], _at: float) -> None:
        wire.send(("report", (step, values)))

    with Runner(function, job, seat, post, whole_process=True) as runner:
        ok, value, _ = runner.run(index, attempt, item)
    with contextlib.suppress(OSError):
        wire.send(_packed(ok, value))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # groups that were not left would wait for others at the exit


def _packed(ok: bool, value: Any) -> tuple[str, Any]:
    if not ok:
        return "failed", value
    try:
        return "value", parcel.pack(value).to_bytes()
    except BaseException as error:
        return "failed", unsendable(f"its result ({type(value).__name__})", error)
