"""A nursery that waits for the next scripts: `tenfold warm --minutes 30`. Opt-in, and for its owner only.

It listens on a Unix socket in a folder that only its owner can enter. A script uses it when everything that decides
what an import does is the same: the interpreter, tenfold, the installed packages, and the variables that frameworks
read.

The workers of a cluster on one machine share a nursery in the same way (`join`). It is started by the first of them
and ends with the last.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import signal
import socket
import stat
import struct
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tenfold import frameworks
from tenfold.errors import RunUnusable, WorkersUnavailable
from tenfold.nursery.wire import Closed, Wire

ANSWER_LIMIT = 10.0  # seconds; a nursery that is importing answers when it is done
SHARED_IDLE = 0.3  # seconds that a shared nursery waits after its last user
PRELOAD_LIMIT = 120.0  # seconds that the first import of all frameworks may take on a slow disk


def folder() -> Path:
    base = os.environ.get("XDG_RUNTIME_DIR")
    usual = Path(f"/tmp/tenfold-{os.getuid()}")
    # The kernel takes 107 characters for the name of a socket.
    return Path(base) / "tenfold" if base and len(base) < 70 else usual


def import_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of an environment that decides what the import of a framework does."""
    prefixes = tuple(prefix for member in frameworks.every().values() for prefix in member.import_variables)
    return {name: value for name, value in environment.items() if name.startswith(prefixes)}


def key(environment: Mapping[str, str] | None = None) -> str:
    """A name for everything that decides what an import does."""
    variables = import_variables(os.environ if environment is None else environment)
    packages = Path(sysconfig.get_paths()["purelib"])
    ours = Path(__file__).parent.parent
    facts = [sys.executable, sys.version, str(ours), variables, packages.stat().st_mtime_ns if packages.exists() else 0]
    return hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=8).hexdigest()


def connect(environment: Mapping[str, str] | None = None) -> socket.socket | None:
    """A connection to a waiting nursery that fits this process, or another environment than its own; or None."""
    return _connect(folder() / f"{key(environment)}.socket")


def join(environment: Mapping[str, str]) -> socket.socket:
    """A connection to the nursery that the processes of this machine with this environment share."""
    path = place() / f"shared-{key(environment)}.socket"
    with open(path.with_suffix(".lock"), "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the first one starts it, the others wait for that
        found = _connect(path)
        if found is None or not _counts_us(found):
            _launch(path, SHARED_IDLE, environment)
            found = _connect_soon(path)
        return found


def _counts_us(end: socket.socket) -> bool:
    """Whether a shared nursery has heard of us, and so will not end before us; it may have been about to."""
    end.settimeout(PRELOAD_LIMIT)
    try:
        wire = Wire(end)
        wire.send(("state",))
        wire.receive()
    except (Closed, TimeoutError):
        end.close()
        return False
    end.settimeout(None)
    return True


def reach(path: str) -> socket.socket | None:
    """A connection to a nursery of this user that listens at `path`, or None."""
    return _connect(Path(path))


def _connect(path: Path) -> socket.socket | None:
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


def is_waiting() -> bool:
    """Whether a nursery waits for scripts like this process."""
    end = connect()
    if end is not None:
        end.close()
    return end is not None


def state() -> dict[str, Any] | None:
    """How the nursery is that waits for scripts like this process; None where there is none."""
    end = connect()
    if end is None:
        return None
    with contextlib.closing(Wire(end)) as wire:
        end.settimeout(ANSWER_LIMIT)
        try:
            wire.send(("state",))
            (_, found), _ = wire.receive()
        except TimeoutError as error:
            text = f"a nursery is waiting, and has not answered for {ANSWER_LIMIT:g} s: it is still importing"
            raise WorkersUnavailable(text) from error
        except Closed:  # it has just ended
            return None
    return dict(found)


def start(modules: list[str], minutes: float) -> dict[str, Any]:
    """Start a waiting nursery, or have the one that waits import more; returns its state."""
    path = place() / f"{key()}.socket"
    waiting = _connect(path)
    if waiting is None:
        _launch(path, 60 * minutes, os.environ)
        waiting = _connect_soon(path)
    with contextlib.closing(Wire(waiting)) as wire:
        waiting.settimeout(PRELOAD_LIMIT)
        try:
            wire.send(("preload", modules))
            wire.send(("state",))
            (_, found), _ = wire.receive()
        except (Closed, TimeoutError) as error:
            raise WorkersUnavailable(f"the warm nursery did not answer: {error}") from error
        return dict(found)


def stop() -> int:
    """End every waiting nursery of this user; returns how many there were."""
    count = 0
    for path in folder().glob("*.socket") if _is_ours(folder()) else ():
        if path.name.startswith(("shared-", "own-")):  # a cluster's or a caller's, and no business of ours
            continue
        with contextlib.suppress(OSError, Closed), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as end:
            end.settimeout(ANSWER_LIMIT)
            end.connect(str(path))
            os.kill(_peer(end)[0], signal.SIGTERM)  # also while it imports, and does not answer
            count += 1
        path.unlink(missing_ok=True)
    return count


def serve(path: str, idle_limit: float) -> None:
    """In the waiting process: listen until nobody has come for `idle_limit` seconds."""
    from tenfold.nursery.process import Nursery

    try:
        Nursery(idle_limit=idle_limit).serve(None, None, listener(path))
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)
        os._exit(0)


def listener(path: str) -> socket.socket:
    """A socket at `path` that only its owner can reach."""
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    old_mask = os.umask(0o177)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    found.bind(path)
    os.umask(old_mask)
    found.listen(64)
    return found


def place() -> Path:
    """The folder, made where it is not there yet."""
    found = folder()
    found.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _is_ours(found):
        raise RunUnusable(f"{found} belongs to somebody else, or others can enter it; remove it and try again")
    return found


def _launch(path: Path, idle_limit: float, environment: Mapping[str, str]) -> None:
    from tenfold.nursery import client

    # Forked once more, so that it is nobody's child: we neither wait for it nor leave a zombie.
    code = "import os, sys; os.fork() and os._exit(0); "
    code += (
        f"sys.path[:] = {sys.path!r}; from tenfold.nursery.warming import serve; serve({str(path)!r}, {idle_limit!r})"
    )
    subprocess.run(
        client.command(code),
        env=client.environment(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
        check=True,
    )


def _connect_soon(path: Path, limit: float = 20.0) -> socket.socket:
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        end = _connect(path)
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
    return _peer(end)[1] == os.getuid()


def _peer(end: socket.socket) -> tuple[int, int]:
    """Process and user at the other end, as the kernel knows them."""
    credentials = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, user, _ = struct.unpack("3i", credentials)
    return pid, user
