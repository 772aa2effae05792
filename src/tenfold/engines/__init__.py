"""How tasks reach workers: the port, and the way from a name to an engine. One file per engine.

An engine's file has a function `engine(address, **options)` that returns an `Engine`; a new engine is one new file. It
may say in `SCHEMES` what its addresses begin with, and in `ADOPTS` whose objects its function `adopt` takes.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from tenfold.errors import BadCall
from tenfold.machine import Machine
from tenfold.plan.choose import Abilities, Plan
from tenfold.work.outcome import Failure, Report
from tenfold.work.parcel import Buffer, Sealed
from tenfold.work.run import Job, unsendable


@dataclass(frozen=True, slots=True)
class Batch:
    """Tasks that travel together and run one after the other."""

    id: int
    """Counted from 1."""
    attempt: int
    """Which attempt this is, counted from 1: the same for all of them."""
    indices: Sequence[int]
    """Places of the items."""
    items: list[Any]
    """The items; empty where they are sealed."""
    sealed: Sealed | None = None
    """The items in a parcel that must not be opened here, because they come from another machine."""
    trials: Sequence[int] = ()
    """Of a study: whose seeds and folders they have. Others have their own, by their places."""

    @property
    def folders(self) -> Sequence[int]:
        """Numbers of the folders that they use."""
        return self.trials or self.indices


@dataclass(frozen=True, slots=True)
class Finished:
    """The next tasks of a batch, in its order, have returned small values."""

    batch: int
    """The batch's id."""
    seconds: list[float]
    """How long each ran."""
    bodies: list[bytes]
    """The pickle of each value."""
    peak: int
    """Most resident memory of the worker so far."""
    seat: int
    """Where they ran."""
    worker: str
    """Who ran them."""


@dataclass(frozen=True, slots=True)
class FinishedLarge:
    """The next task of a batch has returned a value that travels by itself."""

    batch: int
    """The batch's id."""
    seconds: float
    """How long it ran."""
    memory: Buffer
    """The value, as `tenfold.work.parcel` lays it out; shared memory where it is large."""
    peak: int
    """Most resident memory of the worker so far."""
    seat: int
    """Where it ran."""
    worker: str
    """Who ran it."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The next task of a batch has failed."""

    batch: int
    """The batch's id."""
    seconds: float
    """How long it ran."""
    failure: Failure
    """Why."""
    peak: int
    """Most resident memory of the worker so far."""
    seat: int
    """Where it ran."""
    worker: str
    """Who ran it."""
    lost: bool = False
    """Its process was killed by somebody else: the task is not to blame, and may be tried once more for nothing."""


@dataclass(frozen=True, slots=True)
class GivenBack:
    """The tasks of a batch that have not finished were not started either: send them again."""

    batch: int
    """The batch's id."""
    apart: bool = False
    """Send each of them by itself: one of them cannot be unpickled."""


@dataclass(frozen=True, slots=True)
class Reported:
    """Tasks have called `here().report`."""

    reports: list[Report]
    """In the order of the calls, for each task."""


@dataclass(frozen=True, slots=True)
class Printed:
    """Tasks have printed something."""

    text: str
    """What."""
    stream: str
    """Where: stdout or stderr."""


@dataclass(frozen=True, slots=True)
class Broken:
    """No task can run at all: the function cannot be loaded in a worker."""

    failure: Failure
    """Why."""


Event = Finished | FinishedLarge | Failed | GivenBack | Reported | Printed | Broken


def refuse(batch: Batch, seat: int, error: Exception) -> Event:
    """Items that cannot be pickled: found one by one where there are several."""
    if len(batch.indices) > 1:
        return GivenBack(batch.id, apart=True)
    return Failed(batch.id, 0.0, unsendable("its item", error), 0, seat, "")


class Crew(Protocol):
    """The workers of one call. Used by one thread; owns every process, socket and file that it makes.

    `send` takes a batch and never waits for it to run. `receive` waits at most `seconds` and returns what has
    happened; the tasks of a batch are told of in the batch's order, each exactly once. `running` says for how many
    seconds the task now running has been running, by batch. `stop` ends the running task of a batch with that
    failure; the rest of the batch is given back. `close` ends everything, at once, and may be called twice. When a
    worker dies, `receive` first tells what it had finished, then one `Failed` for the task it was running, then
    `GivenBack` for what it had not begun.
    """

    @property
    def capacity(self) -> int: ...

    def send(self, batch: Batch) -> None: ...

    def receive(self, seconds: float) -> list[Event]: ...

    def running(self) -> dict[int, float]: ...

    def stop(self, batch: int, failure: Failure) -> None: ...

    def close(self) -> None: ...


def stop_overdue(crew: Crew, limit: float | None) -> None:
    """Stop each task that has been running for longer than `limit` seconds."""
    if limit is None:
        return
    for batch, seconds in crew.running().items():
        if seconds > limit:
            crew.stop(batch, Failure("timeout", f"it ran longer than timeout={limit:g} s and was stopped"))


class Engine(Protocol):
    """A way to run tasks. Making one is cheap and starts nothing."""

    abilities: Abilities

    def machines(self) -> list[Machine]:
        """What a plan may divide: at least one."""
        ...

    def open(self, function: Callable[[Any], Any], job: Job, plan: Plan) -> Crew:
        """Start a crew for one call."""
        ...


VARIABLE = "TENFOLD_ENGINE"
DEFAULT = "local"


def names() -> list[str]:
    """Every engine there is."""
    return [module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg]


def name_of(engine: Engine) -> str:
    """What a person would type for it; for records only, never to decide by."""
    return type(engine).__module__.rpartition(".")[2]


def find(wanted: object = None, **options: Any) -> Engine:
    """The engine that a caller means: an object, a name, or nothing (then TENFOLD_ENGINE, then "local")."""
    if wanted is not None and not isinstance(wanted, str):
        return _adopted(wanted)
    source = f"{VARIABLE}={os.environ.get(VARIABLE)!r}" if wanted is None else f"engine={wanted!r}"
    address = wanted if wanted is not None else os.environ.get(VARIABLE) or DEFAULT
    scheme, _, rest = address.partition("://")
    for name in [address] if address in names() else names() if rest else []:
        member = importlib.import_module(f"{__name__}.{name}")
        if name == address or scheme in getattr(member, "SCHEMES", ()):
            found: Engine = member.engine(address, **options)
            return found
    raise BadCall(f"{source}: there is no such engine; there are {', '.join(names())}")


def ahead() -> None:
    """Begin what takes the engine of TENFOLD_ENGINE long: somebody has imports to do meanwhile."""
    name = os.environ.get(VARIABLE)
    if name in names():
        member = importlib.import_module(f"{__name__}.{name}")
        getattr(member, "ahead", lambda: None)()


def expect(engine: Engine, modules: Iterable[str]) -> None:
    """Say which modules the workers of a call will want that is about to be made; some engines can do with that."""
    getattr(engine, "expect", lambda _: None)(modules)


def _adopted(wanted: Any) -> Engine:
    if all(hasattr(wanted, needed) for needed in ("abilities", "machines", "open")):
        return cast("Engine", wanted)
    home = wanted.__name__ if isinstance(wanted, types.ModuleType) else type(wanted).__module__
    for name in names():
        member = importlib.import_module(f"{__name__}.{name}")
        if home.partition(".")[0] in getattr(member, "ADOPTS", ()):
            return cast("Engine", member.adopt(wanted))
    raise BadCall(
        f"engine={wanted!r}: expected a name, an engine, or a client of a cluster; names are {', '.join(names())}"
    )
