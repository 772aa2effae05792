"""The nursery itself: imports frameworks, forks workers, and takes everything with it when its caller is gone.

Runs in a process of its own, single-threaded, in a session of its own (so that Ctrl-C does not reach it). It never
runs the user's code and never creates a tensor.

    in   preload [modules]          import them ahead, one by one, while there is no call; what fails is remembered
         session [modules] + socket when these are imported, open a session: a caller's call, or a worker that maps
         state                      import all that is left, then say how this nursery is
         listen path + socket       serve whoever connects there, too
         scratch path               remove this folder when the session ends
         fork id + 4 descriptors    fork a worker: its wire, its stdout and stderr, its slate
         kill id                    kill that worker and everything that it started
    out  nursery {...}              how this nursery is: what it imported, what failed, why it must not fork
         forked id pid | refused id why | exited id status
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import os
import selectors
import shutil
import signal
import socket
import sys
import time
import traceback
from collections import deque
from collections.abc import Iterable
from typing import Any

from tenfold.nursery import alone, child, groups
from tenfold.nursery.wire import Closed, Wire
from tenfold.work.arrivals import uncollected


class Session:
    """One caller, its workers and its scratch folders."""

    def __init__(self, wire: Wire, *, is_call: bool = False) -> None:
        self.wire = wire
        self.is_call = is_call  # otherwise it is somebody who may open sessions
        self.workers: dict[int, int] = {}  # pid -> the caller's id of the worker
        self.scratch: list[str] = []
        self.listeners: dict[str, socket.socket] = {}  # by their path


class Nursery:
    """The loop."""

    def __init__(self, *, idle_limit: float | None = None) -> None:
        self._selector = selectors.DefaultSelector()
        self._sessions: dict[int, Session] = {}
        self._state: dict[str, Any] = {"imported": {}, "failed": {}, "unsafe": None, "pid": os.getpid()}
        self._ahead: deque[str] = deque()  # modules that somebody may need
        self._ending: set[int] = set()  # workers whose session is over, and that are not reaped yet
        self._life: int | None = None
        self._listeners: list[socket.socket] = []
        self._idle_limit = idle_limit
        self._last_used = time.monotonic()
        self._alarm, alarm_end = socket.socketpair()
        self._alarm_end = alarm_end
        for end in (self._alarm, alarm_end):
            end.setblocking(False)

    # -- the loop -----------------------------------------------------------------------------------------------

    def serve(self, first: socket.socket | None, life: int | None, listener: socket.socket | None = None) -> None:
        """Serve until the caller is gone (`life` is the end of a pipe whose other end it holds), or until idle."""
        groups.adopt_orphans()
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._alarm_end.fileno(), warn_on_full_buffer=False)
        self._selector.register(self._alarm, selectors.EVENT_READ, self._reap)
        if life is not None:
            self._life = life
            self._watch_life(life)
            self._selector.register(life, selectors.EVENT_READ, self._leave)
        if first is not None:
            self._add(first)
        if listener is not None:
            self._listen(listener)
        tick = None if self._idle_limit is None else min(1.0, self._idle_limit)
        try:
            while not self._is_idle():
                ready = self._selector.select(timeout=0 if self._imports_ahead() else tick)
                for key, _ in ready:
                    key.data()
                if not ready and self._imports_ahead():
                    self._import_all([self._ahead.popleft()])
        except SystemExit:
            pass
        finally:
            for session in list(self._sessions.values()):
                self._end(session)

    def _leave(self) -> None:
        raise SystemExit

    def _is_idle(self) -> bool:
        if self._idle_limit is None:
            return False
        if self._sessions or self._ahead:
            self._last_used = time.monotonic()
        return time.monotonic() - self._last_used > self._idle_limit

    @staticmethod
    def _watch_life(life: int) -> None:
        """Have the kernel send SIGIO when the caller is gone; see `_import_all` for when that counts."""
        signal.signal(signal.SIGIO, signal.SIG_IGN)
        if hasattr(os, "O_ASYNC"):
            fcntl.fcntl(life, fcntl.F_SETOWN, os.getpid())
            fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC)

    # -- sessions -----------------------------------------------------------------------------------------------

    def _listen(self, listener: socket.socket) -> socket.socket:
        self._listeners.append(listener)
        self._selector.register(listener, selectors.EVENT_READ, lambda: self._add(listener.accept()[0]))
        return listener

    def _add(self, end: socket.socket, *, is_call: bool = False) -> Session:
        session = Session(Wire(end), is_call=is_call)
        end.setblocking(False)
        self._sessions[end.fileno()] = session
        self._selector.register(end, selectors.EVENT_READ, lambda: self._hear(session))
        return session

    def _hear(self, session: Session) -> None:
        for message, handles in session.wire.arrived():
            self._obey(session, message, handles)
        if session.wire.ended:
            self._end(session)

    def _obey(self, session: Session, message: tuple[Any, ...], handles: list[int]) -> None:
        order, *rest = message
        if order == "preload":
            self._ahead.extend(rest[0])
        elif order == "session":
            self._import_all(rest[0])
            self._tell(self._add(socket.socket(fileno=handles[0]), is_call=True), "nursery", self._state)
        elif order == "state":
            self._import_all(self._ahead)
            self._ahead.clear()
            self._tell(session, "nursery", self._state)
        elif order == "listen":
            session.listeners[rest[0]] = self._listen(socket.socket(fileno=handles[0]))
        elif order == "scratch":
            session.scratch.append(rest[0])
        elif order == "fork":
            self._fork(session, rest[0], handles)
        elif order == "kill":
            for pid, name in session.workers.items():
                if name == rest[0]:
                    groups.kill(pid)

    def _tell(self, session: Session, *message: Any) -> None:
        with contextlib.suppress(Closed):  # its end is noticed by the next read
            session.wire.send(message)

    def _end(self, session: Session) -> None:
        """The session's caller is gone: nothing of it may stay."""
        if self._sessions.pop(session.wire.fileno(), None) is None:
            return
        self._selector.unregister(session.wire.socket)
        session.wire.close()
        self._ending.update(session.workers)
        for pid in session.workers:
            groups.kill(pid)
        for path in session.scratch:
            shutil.rmtree(path, ignore_errors=True)
        for path, listener in session.listeners.items():
            self._selector.unregister(listener)
            self._listeners.remove(listener)
            listener.close()
            with contextlib.suppress(OSError):
                os.unlink(path)

    # -- importing ----------------------------------------------------------------------------------------------

    def _imports_ahead(self) -> bool:
        """Whether there is something to import that nobody waits for: not while it would take a core from workers."""
        return bool(self._ahead) and not any(session.is_call for session in self._sessions.values())

    def _import_all(self, modules: Iterable[str]) -> None:
        known = {*self._state["imported"], *self._state["failed"]}
        wanted = [module for module in modules if module not in known]
        if not wanted:
            return
        # An import may take seconds in C code where no loop can notice that the caller is gone: then SIGIO kills us.
        if self._life is not None:
            signal.signal(signal.SIGIO, signal.SIG_DFL)
            if select_now(self._life):
                raise SystemExit
        # A collection in a child must not write to, and so copy, the pages that it shares with us.
        with uncollected():
            for module in wanted:
                self._import(module)
        if self._life is not None:
            signal.signal(signal.SIGIO, signal.SIG_IGN)
        self._state["unsafe"] = alone.unsafe()

    def _import(self, module: str) -> None:
        began = time.perf_counter()
        try:
            importlib.import_module(module)
        except BaseException:
            self._state["failed"][module] = traceback.format_exc()
        else:
            self._state["imported"][module] = time.perf_counter() - began

    # -- workers ------------------------------------------------------------------------------------------------

    def _fork(self, session: Session, name: int, handles: list[int]) -> None:
        if self._state["unsafe"]:
            self._tell(session, "refused", name, self._state["unsafe"])
            for handle in handles:
                os.close(handle)
            return
        ours, theirs = socket.socketpair()
        nursery = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                ours.close()
                self._forget()
                child.live_forked(*handles, nursery_handle=theirs.detach(), nursery=nursery)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(alone.BROKEN)
        theirs.close()
        for handle in handles:
            os.close(handle)
        session.workers[pid] = name
        self._add(ours)
        self._tell(session, "forked", name, pid)

    def _forget(self) -> None:
        """In a child: close what belongs to the nursery, and hear no signals for it."""
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGIO):
            signal.signal(number, signal.SIG_DFL)
        self._selector.close()
        self._alarm.close()
        self._alarm_end.close()
        for listener in self._listeners:
            listener.close()
        if self._life is not None:
            os.close(self._life)
        for session in self._sessions.values():
            session.wire.close()

    def _kill_orphans(self) -> None:
        """A child of ours that is no worker was started by one that is gone."""
        workers = {pid for session in self._sessions.values() for pid in session.workers} | self._ending
        for pid in groups.children():
            if pid not in workers:
                groups.kill(pid)

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._alarm.recv(4096):
                pass
        while True:
            try:
                # WNOWAIT keeps the process id taken until its group has been killed, so that no other can have it.
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None:
                return
            groups.kill(found.si_pid)
            _, status = os.waitpid(found.si_pid, 0)
            self._kill_orphans()
            self._ending.discard(found.si_pid)
            for session in self._sessions.values():
                if found.si_pid in session.workers:
                    self._tell(session, "exited", session.workers.pop(found.si_pid), os.waitstatus_to_exitcode(status))
                    break


def select_now(handle: int) -> bool:
    """Whether `handle` can be read, or has ended, at this moment."""
    with selectors.DefaultSelector() as selector:
        selector.register(handle, selectors.EVENT_READ)
        return bool(selector.select(timeout=0))


def main(first: int, life: int) -> None:
    """The whole life of a nursery that belongs to one caller."""
    os.set_inheritable(first, False)
    os.set_inheritable(life, False)
    Nursery().serve(socket.socket(fileno=first), life)
    sys.stdout.flush()
    os._exit(0)  # frameworks' own exit handlers have nothing to tidy up: nothing was ever started
