"""In a worker on another machine than its caller's: a small process beside it, which says for it that it lives.

A thread of the worker's own says so too, but must wait while a step holds Python's lock: a state that is packed, a
library that is loaded. That can take longer than a loss may go unnoticed, so silence of the thread proves nothing. The
small process asks the kernel: a worker that is busy lives, one that is stopped does not. Where nothing comes at all,
its machine is gone, stopped or cut off.

    worker ── opens a wire, says whom it is about ──> small process ── "beat", every half second ──> the caller
                                                             <── KILL: the worker hangs, and only we can end it ──

It ends with the worker, with the wire, and when the worker closes it. It imports nothing of ours: it starts within some
20 ms, and takes 8 MB.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import struct
import subprocess
import sys

from tenfold.machine.host import host
from tenfold.training.signs import BEAT_EVERY, KILL
from tenfold.training.wires import Message, Ticket, connected

_SCRIPT = """
import os, select, signal, sys

wire, worker, every = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
beat, kill = map(bytes.fromhex, sys.argv[4:])
ready = []
while not ready and os.getppid() == worker:
    with open("/proc/%d/stat" % worker) as file:
        state = file.read().rpartition(")")[2].split()[0]
    if state not in "Tt":
        os.write(wire, beat)
    ready = select.select([wire, 0], [], [], every)[0]  # the worker has the other end of 0, and never writes
if wire in ready and kill in os.read(wire, 4096) and os.getppid() == worker:
    os.kill(worker, signal.SIGKILL)
"""


class Pulse:
    """Of one worker, for as long as it is open. None is needed beside the caller, who can look for itself."""

    def __init__(self, ticket: Ticket) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        if ticket.host == host() or sys.platform != "linux":
            return
        wire, _ = connected(ticket)
        with wire, contextlib.suppress(OSError):  # no room for a process: then only long silence tells
            wire.send(Message("pulse", (host(), os.getpid())))
            words = [str(wire.fileno()), str(os.getpid()), str(BEAT_EVERY), _framed(Message("beat")).hex(), KILL.hex()]
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _SCRIPT, *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[wire.fileno()],
                start_new_session=True,  # what stops the worker's group must not stop who tells of it
            )

    def close(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait()


def _framed(message: Message) -> bytes:
    """As `Connection.send` writes it."""
    body = pickle.dumps(message)
    return struct.pack("!i", len(body)) + body
