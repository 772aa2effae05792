"""What an exit status says about a worker that died, in words."""

from __future__ import annotations

import re
import signal

from tenfold.plan.needs import readable
from tenfold.work.outcome import Failure

_SHOWN = 4096  # characters of what it wrote that are in the error
_MODULES = re.compile(r"^Extension modules: .*\n?", re.MULTILINE)
"""With which faulthandler ends: kilobytes of names where frameworks are imported, and of no use to anybody."""


def describe(status: int, output: bytes, peak: int) -> Failure:
    """The failure of the task whose process ended with `status` (minus the signal where it was killed)."""
    used = f"; it had used up to {readable(peak)}" if peak else ""
    text = _MODULES.sub("", output.decode(errors="replace"))[-_SHOWN:]
    if status >= 0:
        return Failure("died", f"its process ended by itself with status {status}{used}", output=text)
    name = _name(-status)
    hint = ""
    if -status == signal.SIGKILL:
        hint = " (nobody asked tenfold to: the kernel does that when memory runs out, see memory=)"
    return Failure("died", f"its process was killed by {name}{hint}{used}", output=text)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
