"""A process of its own for each task, forked from a worker that has its seat and function and runs nothing itself.

A worker that is forked from the nursery takes its seat, its environment and the function anew: 4 ms, more than the
fork itself. Where each task wants a process of its own, one worker does that once, and each task runs in a child of
it. For the caller the worker is as if it had run the task: a child that dies takes the worker with it, in the same way.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from tenfold import frameworks
from tenfold.nursery import groups
from tenfold.plan.seats import Seat

BROKEN = 70  # exit status of a process that failed before it could say why (EX_SOFTWARE)


def unsafe() -> str | None:
    """Why this process must not fork, or None: threads that a child would miss, frameworks in use."""
    tasks = Path("/proc/self/task")
    threads = len(list(tasks.iterdir())) if tasks.exists() else 1
    if threads > 1:
        return f"an import has started {threads - 1} threads, which a forked worker would be missing"
    used = [name for name, member in frameworks.every().items() if member in frameworks.imported() and member.started()]
    return f"{', '.join(used)} has started its devices while it was imported" if used else None


def can_fork(seat: Seat) -> bool:
    """Whether a worker on `seat` may run its tasks in children.

    Not with GPUs, which another call may lease between two tasks, nor with a memory limit: both look at the worker.
    """
    return sys.platform == "linux" and not seat.gpus and seat.memory is None and unsafe() is None


def run(task: Callable[[], None]) -> int:
    """Call `task` in a child, and wait until it and whatever it started are gone. Returns its exit status."""
    worker = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            groups.die_with(worker)
            task()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(BROKEN)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    for orphan in groups.children():
        groups.kill(orphan)
        os.waitpid(orphan, 0)
    return status


def die_like(status: int) -> NoReturn:
    """End as a child has ended that had `status`."""
    if status < 0:
        faulthandler.disable()  # the child has written where it was
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)
