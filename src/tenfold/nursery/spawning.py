"""Workers as fresh interpreters, where fork is not safe: macOS, or a nursery that an import has given threads.

Each imports its frameworks by itself, so it starts in seconds instead of milliseconds; otherwise it is the same worker.
`TENFOLD_START=spawn` asks for it everywhere.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable

from tenfold.nursery import client, groups
from tenfold.nursery.starter import Event, Exited, Started

_CODE = (
    "import sys; sys.path[:] = {path!r}; from tenfold.nursery.child import live_spawned; "
    "live_spawned({descriptors}, life={life})"
)


class Spawning:
    """A `Starter` that starts interpreters."""

    handle: int | None = None

    def __init__(self, modules: Iterable[str], scratch: str | None) -> None:
        # Modules are imported by each worker when its task needs them; scratch reaches it with its order.
        self._workers: dict[int, subprocess.Popen[bytes]] = {}
        self._life_theirs, self._life_ours = os.pipe()
        self._news: list[Event] = []

    def start(self, name: int, descriptors: tuple[int, ...]) -> None:
        _, out, err, _ = descriptors
        code = _CODE.format(path=sys.path, descriptors=", ".join(map(str, descriptors)), life=self._life_theirs)
        worker = subprocess.Popen(
            client.command(code),
            pass_fds=(*descriptors, self._life_theirs),
            env=client.environment(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
        )
        self._workers[name] = worker
        self._news.append(Started(name, worker.pid))

    def kill(self, name: int) -> None:
        worker = self._workers.get(name)
        if worker is not None and worker.poll() is None:
            groups.kill(worker.pid)

    def events(self) -> list[Event]:
        found, self._news = self._news, []
        for name, worker in list(self._workers.items()):
            status = worker.poll()
            if status is not None:
                del self._workers[name]
                groups.kill_rest(worker.pid)
                found.append(Exited(name, status))
        return found

    def close(self) -> None:
        for worker in self._workers.values():
            groups.kill(worker.pid)
            worker.wait()
        self._workers.clear()
        os.close(self._life_ours)
        os.close(self._life_theirs)
