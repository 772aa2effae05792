"""The caller's side of one session with a nursery: workers that are forked with everything imported."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from tenfold.nursery import client, warming
from tenfold.nursery.starter import Event, Exited, Refused, Started
from tenfold.nursery.surroundings import SHARED, Surroundings
from tenfold.nursery.wire import Closed, Wire


class NurseryLost(Exception):
    """The nursery process is gone, and its workers with it."""


class Forking:
    """A `Starter` that asks a nursery."""

    def __init__(self, modules: Sequence[str], scratch: str | None, around: Surroundings) -> None:
        self._client = self._find(around)
        try:
            end = self._client.session(modules)
        except Closed:  # it died since the last call; a new one is asked once
            client.drop(self._client)
            self._client = self._find(around)
            end = self._client.session(modules)
        end.setblocking(False)
        self._wire = Wire(end)
        self.handle: int | None = end.fileno()
        for folder in (*around.scratch, *([scratch] if scratch is not None else [])):
            self._wire.send(("scratch", folder))

    def start(self, name: int, descriptors: tuple[int, ...]) -> None:
        self._send(("fork", name), descriptors)

    def kill(self, name: int) -> None:
        self._send(("kill", name))

    def _send(self, message: tuple[object, ...], descriptors: tuple[int, ...] = ()) -> None:
        try:
            self._wire.send(message, descriptors)
        except Closed as error:
            raise NurseryLost(self._client.written()) from error

    def events(self) -> list[Event]:
        found: list[Event] = []
        for message, _ in self._wire.arrived():
            kind, *rest = message
            if kind == "forked":
                found.append(Started(*rest))
            elif kind == "refused":
                found.append(Refused(*rest))
            elif kind == "exited":
                found.append(Exited(*rest))
            elif kind == "nursery":
                _tell_failures(rest[0]["failed"])
        if self._wire.ended:
            written = self._client.written()
            client.drop(self._client)
            raise NurseryLost(written)
        return found

    def close(self) -> None:
        self._wire.close()
        if self._is_others:
            self._client.close()

    def _find(self, around: Surroundings) -> client.Client:
        end = None if around.nursery in (None, SHARED) else warming.reach(str(around.nursery))
        self._is_others = end is not None
        if end is not None:
            return client.Client(end)
        return client.get(around.variables) if around.nursery is None else client.get_shared(around.environment)


_told: set[str] = set()


def _tell_failures(failed: dict[str, str]) -> None:
    """Say once which imports failed: a silent one would cost every worker the time, or fail far from its cause."""
    for module, text in failed.items():
        if module not in _told:
            _told.add(module)
            warnings.warn(f"tenfold could not import {module} ahead of the workers:\n{text}", stacklevel=2)
