"""The caller's side: the one nursery of this process, started when it is first needed, gone when this process is.

A worker has one too: the connection that its nursery gave it, so that a nested call forks from the same nursery. A
process that works for callers on other machines has one for each environment that they want; all such processes of
this machine share them.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping
from typing import IO

from tenfold.errors import WorkersUnavailable
from tenfold.frameworks.numpy import THREAD_VARIABLES
from tenfold.nursery import warming
from tenfold.nursery.wire import Closed, Wire

_CODE = "import sys; sys.path[:] = {path!r}; from tenfold.nursery.process import main; main({first}, {life})"


class Client:
    """A connection to a nursery. Sessions are opened under a lock; each is then used by one thread alone."""

    def __init__(self, end: socket.socket, process: subprocess.Popen[bytes] | None = None) -> None:
        self._wire = Wire(end)
        self._process = process
        self._lock = threading.Lock()
        self._asked: set[str] = set()
        self._path: str | None = None  # where it listens
        self.owner = os.getpid()
        self.life: int | None = None
        self.log: IO[bytes] | None = None

    def preload(self, modules: Iterable[str]) -> None:
        """Have modules imported ahead of the next session; returns at once."""
        with self._lock:
            wanted = [module for module in modules if module not in self._asked]
            if wanted:
                self._asked.update(wanted)
                self._wire.send(("preload", wanted))

    def session(self, modules: Iterable[str] = ()) -> socket.socket:
        """A connection of its own, for one call, whose workers have these modules."""
        ours, theirs = socket.socketpair()
        with self._lock, theirs:
            try:
                self._wire.send(("session", list(modules)), [theirs.fileno()])
            except Closed:
                ours.close()
                raise
        return ours

    def listen(self) -> str:
        """Have it serve other processes of this user, too; returns where."""
        with self._lock:
            if self._path is None:
                path = warming.place() / f"own-{os.getpid()}-{os.urandom(4).hex()}.socket"
                with warming.listener(str(path)) as listener:
                    self._wire.send(("listen", str(path)), [listener.fileno()])
                self._path = str(path)
            return self._path

    @property
    def alive(self) -> bool:
        return self.owner == os.getpid() and (self._process is None or self._process.poll() is None)

    def written(self) -> str:
        """What the nursery has printed: imports say there why they failed."""
        with contextlib.suppress(ValueError):  # closed by another thread, which lost it too
            if self.log is not None:
                self.log.seek(0)
                return self.log.read().decode(errors="replace")
        return ""

    def close(self) -> None:
        """End the nursery and everything that it started. Two threads that have lost it may both call this."""
        with self._lock:
            life, self.life = self.life, None
            self._wire.close()
            if life is not None:
                os.close(life)
            if self._process is not None and self.owner == os.getpid():
                self._process.kill()
                self._process.wait()
            if self.log is not None:
                self.log.close()
            if self._path is not None:
                with contextlib.suppress(OSError):
                    os.unlink(self._path)


_current: Client | None = None
_special: dict[tuple[tuple[str, str], ...], Client] = {}  # nurseries with other variables than this process has
_shared: dict[str, Client] = {}
_lock = threading.Lock()


def get(variables: tuple[tuple[str, str], ...] = ()) -> Client:
    """This process's nursery: the one it has, a warm one that waits for scripts, or a new one.

    With `variables` that differ from this process's environment it is another one, which has them.
    """
    global _current
    with _lock:
        if any(os.environ.get(name) != value for name, value in variables):
            found = _special.get(variables)
            if found is None or not found.alive:
                waiting = warming.connect({**os.environ, **dict(variables)})
                found = Client(waiting) if waiting is not None else start(dict(variables))
                _special[variables] = found
            return found
        if _current is None or not _current.alive:
            if _current is not None and _current.owner == os.getpid():
                _current.close()
            waiting = warming.connect()
            _current = Client(waiting) if waiting is not None else start()
        return _current


def has_special() -> bool:
    """Whether this process has a nursery with other variables than its own."""
    return bool(_special)


def get_shared(environment: Mapping[str, str]) -> Client:
    """The nursery that the processes of this machine share."""
    with _lock:
        key = warming.key(environment)
        if key not in _shared:
            _shared[key] = Client(warming.join(environment))
        return _shared[key]


def leave_shared() -> None:
    """Let go of the nurseries that this process shares; those that nobody else uses end."""
    with _lock:
        for found in _shared.values():
            found.close()
        _shared.clear()


def drop(lost: Client) -> None:
    """Forget a nursery that does not answer any more."""
    global _current
    with _lock:
        if _current is lost:
            _current = None
        for variables in [variables for variables, found in _special.items() if found is lost]:
            del _special[variables]
        for key in [key for key, found in _shared.items() if found is lost]:
            del _shared[key]
    with contextlib.suppress(OSError):
        lost.close()


def inherit(handle: int) -> None:
    """In a worker: use the connection that the nursery gave us."""
    global _current
    _current = Client(socket.socket(fileno=handle))


def inherit_again() -> None:
    """In a child of a worker: use the worker's connection."""
    if _current is not None:
        _current.owner = os.getpid()


def environment(base: Mapping[str, str] | None = None) -> dict[str, str]:
    """A nursery's own environment: the caller's, with one thread for everything, so that a fork is safe."""
    found = dict(os.environ if base is None else base)
    found.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    found.setdefault("PYTHONHASHSEED", "0")  # sets of strings are iterated alike in every worker of every run
    found.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")  # pyarrow, which scikit-learn finds by pandas
    return found


def command(code: str) -> list[str]:
    """A fresh interpreter with this one's flags that runs `code` and nothing from the current folder."""
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return [sys.executable, *flags, "-P", "-c", code]


def start(variables: Mapping[str, str] | None = None) -> Client:
    """A new nursery that belongs to this process."""
    ours, theirs = socket.socketpair()
    life_theirs, life_ours = os.pipe()
    log = tempfile.TemporaryFile(prefix="tenfold-nursery-")  # noqa: SIM115  # lives as long as the nursery
    try:
        process = subprocess.Popen(
            command(_CODE.format(path=sys.path, first=theirs.fileno(), life=life_theirs)),
            pass_fds=(theirs.fileno(), life_theirs),
            env={**environment(), **(variables or {})},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    except OSError as error:
        ours.close()
        os.close(life_ours)
        log.close()
        raise WorkersUnavailable(f"the nursery process cannot be started with {sys.executable}: {error}") from error
    finally:
        theirs.close()
        os.close(life_theirs)
    found = Client(ours, process)
    found.life, found.log = life_ours, log
    return found


@atexit.register
def _close_at_exit() -> None:
    for found in (_current, *_special.values()):
        if found is not None and found.owner == os.getpid():
            found.close()
