"""A nursery that waits for the next scripts: `tenfold warm --minutes 30`. Opt-in, and for its owner only.

It listens on a Unix socket in a folder that only its owner can enter. A script uses it when everything that decides
what an import does is the same: the interpreter, tenfold, the installed packages, and the variables that frameworks
read.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import stat
import struct
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

from tenfold import frameworks
from tenfold.errors import RunUnusable, WorkersUnavailable
from tenfold.nursery.wire import Closed, Wire

PRELOAD_LIMIT = 120.0  # seconds that the first import of all frameworks may take on a slow disk


def folder() -> Path:
    base = os.environ.get("XDG_RUNTIME_DIR")
    return Path(base) / "tenfold" if base else Path(f"/tmp/tenfold-{os.getuid()}")


def key() -> str:
    """A name for everything that decides what an import does."""
    prefixes = tuple(prefix for member in frameworks.every().values() for prefix in member.import_variables)
    variables = {name: value for name, value in os.environ.items() if name.startswith(prefixes)}
    packages = Path(sysconfig.get_paths()["purelib"])
    ours = Path(__file__).parent.parent
    facts = [sys.executable, sys.version, str(ours), variables, packages.stat().st_mtime_ns if packages.exists() else 0]
    return hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=8).hexdigest()


def connect() -> socket.socket | None:
    """A connection to a waiting nursery that fits this process, or None."""
    path = folder() / f"{key()}.socket"
    if not path.exists() or not _is_ours(path.parent):
        return None
    end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        end.connect(str(path))
        if not _same_user(end):
            raise PermissionError
    except OSError:
        end.close()
        return None
    return end


def start(modules: list[str], minutes: float) -> dict[str, Any]:
    """Start a waiting nursery, or have the one that waits import more; returns its state."""
    place = folder()
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _is_ours(place):
        raise RunUnusable(f"{place} belongs to somebody else, or others can enter it; remove it and try again")
    waiting = connect()
    if waiting is None:
        _launch(place / f"{key()}.socket", minutes)
        waiting = _connect_soon()
    with contextlib.closing(Wire(waiting)) as wire:
        waiting.settimeout(PRELOAD_LIMIT)
        try:
            wire.send(("preload", modules))
            wire.send(("state",))
            (_, state), _ = wire.receive()
        except (Closed, TimeoutError) as error:
            raise WorkersUnavailable(f"the warm nursery did not answer: {error}") from error
        return dict(state)


def stop() -> int:
    """End every waiting nursery of this user; returns how many there were."""
    from signal import SIGTERM

    count = 0
    for path in folder().glob("*.socket") if _is_ours(folder()) else ():
        with contextlib.suppress(OSError, Closed), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as end:
            end.connect(str(path))
            wire = Wire(end)
            wire.send(("state",))
            (_, state), _ = wire.receive()
            os.kill(state["pid"], SIGTERM)
            count += 1
        path.unlink(missing_ok=True)
    return count


def serve(path: str, minutes: float) -> None:
    """In the waiting process: listen until nobody has come for `minutes`."""
    from tenfold.nursery.process import Nursery

    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    old_mask = os.umask(0o177)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    listener.bind(path)
    os.umask(old_mask)
    listener.listen(64)
    try:
        Nursery(idle_limit=60 * minutes).serve(None, None, listener)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)
        os._exit(0)


def _launch(path: Path, minutes: float) -> None:
    from tenfold.nursery import client

    code = f"import sys; sys.path[:] = {sys.path!r}; from tenfold.nursery.warming import serve; "
    code += f"serve({str(path)!r}, {minutes!r})"
    subprocess.Popen(
        client.command(code),
        env=client.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
    )


def _connect_soon(limit: float = 20.0) -> socket.socket:
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        end = connect()
        if end is not None:
            return end
        time.sleep(0.02)
    raise WorkersUnavailable(f"the warm nursery did not start within {limit:g} s")


def _is_ours(place: Path) -> bool:
    """Whether only we can enter the folder: a socket in it was made by us."""
    try:
        found = place.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def _same_user(end: socket.socket) -> bool:
    if not hasattr(socket, "SO_PEERCRED"):
        return True  # the folder's permissions have to do
    credentials = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return bool(struct.unpack("3i", credentials)[1] == os.getuid())
