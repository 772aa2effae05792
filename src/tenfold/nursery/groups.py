"""Process groups: a worker leads one, and whatever it starts is in it."""

from __future__ import annotations

import contextlib
import os
import signal


def kill(leader: int) -> None:
    """Kill a worker and whatever it started; it may be gone already, or not have made its group yet."""
    if leader <= 0:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(leader, signal.SIGKILL)


def kill_rest(leader: int) -> None:
    """Kill whatever a worker started that is gone, and whose number may be somebody else's by now."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if leader > 0:
            os.killpg(leader, signal.SIGKILL)
