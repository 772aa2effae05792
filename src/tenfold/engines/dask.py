"""Dask: a local cluster of its own, one at an address, or a client that the user has.

    engine="dask"                  starts a cluster on this machine, which ends with this process
    engine="dask://host:8786"      joins one (also "tcp://..." and, with certificates, "tls://...")
    tenfold.use(client)            uses the client's

A node is a Dask worker: its threads are the cores that we may use there, its `GPU` resource the devices. A foreman is
a Dask actor. GPUs, and CPUs where they are declared, are held with a task that waits, so that Dask gives them to
nobody else in the meantime.
"""

from __future__ import annotations

import atexit
import contextlib
import copyreg
import socket
import threading
import types
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from tenfold import errors, machine
from tenfold.engines.cluster import Node, content, dask_holding, facts, way
from tenfold.engines.cluster.content import Notice
from tenfold.engines.cluster.crew import ClusterCrew
from tenfold.engines.cluster.dask_process import DaskProcess
from tenfold.engines.cluster.facts import Facts
from tenfold.engines.cluster.foreman import Foreman
from tenfold.engines.cluster.shares import Share, Shares
from tenfold.errors import BadCall, ClusterLost, WorkersUnavailable
from tenfold.machine import Gpu, Machine, installed
from tenfold.plan.choose import Abilities, Plan
from tenfold.plan.seats import Seat
from tenfold.work.run import Job

if TYPE_CHECKING:
    from distributed import Client, Security

ADOPTS = ("distributed", "dask")
"""Modules whose objects `tenfold.use` takes to be this engine's."""
SCHEMES = ("dask", "tcp", "tls")
"""What its addresses begin with."""

CONNECT_LIMIT = 8.0  # seconds until an address counts as unreachable
NODE_LIMIT = 10.0  # seconds to wait for the first worker
HIRE_LIMIT = 60.0
CALL_LIMIT = 30.0
CLOSE_LIMIT = 2.0  # a worker that is gone never answers; one that lives has been told, and ends by itself
GREETING_LIMIT = 1 << 20  # bytes


def ahead() -> None:
    """Begin what takes long, for a call that is going to come."""
    if installed.version("distributed") is not None:
        with _lock:
            _begin(machine.look())


def engine(address: str, *, security: Security | None = None) -> DaskEngine:
    """`security` is a `distributed.Security`, for "tls://..."; Dask's own configuration counts otherwise."""
    if installed.version("distributed") is None:
        raise installed.missing("Dask", "dask")
    return DaskEngine(address, security)


def adopt(found: object) -> DaskEngine:
    """The engine for a `distributed.Client`, or a cluster object, that the user has."""
    from distributed import Client

    is_cluster = not isinstance(found, Client | types.ModuleType)
    client = getattr(found, "get_client", lambda: None)() if is_cluster else found
    if not isinstance(client, Client) or client.asynchronous:
        raise BadCall(f"engine={found!r}: expected a distributed.Client that is not asynchronous")
    return DaskEngine(str(client.scheduler.address) if client.scheduler else "dask", None, client)


class DaskEngine:
    """Tasks on the workers of a Dask cluster."""

    abilities = Abilities(
        parallel=True,
        processes=True,
        stops="there",
        limits_memory=True,
        isolates=True,
        leases_gpus=True,
        seconds_per_batch=0.002,  # until it is measured
        gpus_are='declared by the workers: dask worker --resources "GPU=1" tcp://...',
    )

    def __init__(self, address: str, security: Security | None, client: Client | None = None) -> None:
        self._address = address
        self._security = security
        self._client = client
        self._cluster: DaskCluster | None = None
        self._nodes: list[Node] = []

    def machines(self) -> list[Machine]:
        client = self._client or connected(self._address, self._security)
        for kind in errors.every():  # Dask has all exceptions pickled with their cause, which may not travel
            copyreg.dispatch_table.pop(kind, None)
        self._cluster = _known.setdefault(client, DaskCluster(client))
        self._nodes = self._cluster.wait_for_nodes(NODE_LIMIT)
        self.abilities = way.measured(self.abilities, self._cluster, self._nodes)
        return [node.machine for node in self._nodes]

    def cluster(self) -> DaskCluster:
        assert self._cluster is not None, "machines() comes first"
        return self._cluster

    def open(self, function: Callable[[Any], Any], job: Job, plan: Plan) -> ClusterCrew:
        return ClusterCrew(self.cluster(), self._nodes, function, job, plan)


class DaskCluster:
    """A client, as `tenfold.engines.cluster` wants one."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._facts: dict[str, Facts] = {}
        self._declared: dict[str, dict[str, float]] = {}
        self._shares: Shares[_Held] = Shares()
        self.seconds_per_batch: float | None = None
        self.address = str(client.scheduler.address) if client.scheduler else "?"

    # -- nodes --------------------------------------------------------------------------------------------------

    def wait_for_nodes(self, seconds: float) -> list[Node]:
        """The nodes there are; a cluster that grows with its work is given a task to grow for."""
        nodes = self.nodes()
        if nodes:
            return nodes
        bait = self._client.submit(int, pure=False)
        try:
            self._client.wait_for_workers(1, timeout=seconds)
        except TimeoutError as error:
            raise WorkersUnavailable(
                f"the Dask cluster at {self.address} has no worker, and none came within {seconds:g} s. "
                f"Start one with: dask worker {self.address}"
            ) from error
        finally:
            bait.release()
        return self.nodes()

    def nodes(self) -> list[Node]:
        workers = self._workers()
        for name in self._facts.keys() - workers.keys():
            del self._facts[name]
        self._declared = {name: dict(found.get("resources", {})) for name, found in workers.items()}
        new = [name for name in workers if name not in self._facts]
        if new:
            self._facts |= self._look(new)
        known = {name: found for name, found in workers.items() if name in self._facts}
        return nodes_of({name: (self._facts[name], _threads(found), found) for name, found in known.items()})

    def _workers(self) -> dict[str, dict[str, Any]]:
        if self._client.status not in ("running", "connecting"):
            raise ClusterLost(f"the Dask scheduler at {self.address} is gone; what is finished is kept")
        try:
            info = self._client.scheduler_info(n_workers=-1)
        except (OSError, TimeoutError) as error:
            raise ClusterLost(f"the Dask scheduler at {self.address} does not answer: {error}") from error
        if "workers" not in info:  # it is connecting again: the client gives up by itself, and then is closed
            raise TimeoutError(f"the Dask scheduler at {self.address} does not answer")
        return dict(info["workers"])

    def _look(self, names: list[str]) -> dict[str, Facts]:
        try:
            found = self._client.run(facts.look, workers=names, on_error="return")
        except OSError as error:
            raise ClusterLost(f"the Dask scheduler at {self.address} does not answer: {error}") from error
        good = {name: answer for name, answer in found.items() if isinstance(answer, Facts)}
        for name, answer in found.items():
            if name not in good and not isinstance(answer, OSError):  # OSError: it has just left
                raise WorkersUnavailable(
                    f"{name} cannot work for tenfold: {type(answer).__name__}: {answer}. "
                    "It needs the Python, tenfold and frameworks of this process"
                )
        return good

    # -- content ------------------------------------------------------------------------------------------------

    def has(self, name: str, notice: Notice) -> bool:
        return bool(self._run(name, content.has, notice))

    def deliver(self, name: str, notice: Notice, place: int, chunk: bytes) -> None:
        self._run(name, content.add, notice, place, chunk)

    def echo(self, name: str, data: bytes) -> bytes:
        return bytes(self._run(name, content.echo, data))

    def _run(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        return self._client.run(function, *arguments, workers=[name])[name]

    # -- foremen ------------------------------------------------------------------------------------------------

    def hire(self, node: Node, seats: Sequence[Seat], contract: bytes, call: int) -> DaskPost:
        wanted = {"GPU": sum(gpu.share for seat in seats for gpu in seat.gpus), "CPU": sum(seat.cpus for seat in seats)}
        declared = self._declared.get(node.name, {})
        amounts = {kind: min(amount, declared.get(kind, 0)) for kind, amount in wanted.items()}
        share = self._shares.take((node.name, call), lambda: _Held(self._client, node.name, amounts))
        options: dict[str, Any] = {"workers": [node.name], "allow_other_workers": False, "pure": False}
        hired = self._client.submit(Foreman, contract, actor=True, **options)
        try:
            with self._client.as_current():  # an actor talks through the client that is current when it is made
                return DaskPost(hired.result(timeout=HIRE_LIMIT), hired, lambda: self._give_back(share))
        except BaseException:
            self._give_back(share)
            raise

    def _give_back(self, share: Share[_Held]) -> None:
        if self._shares.give_back(share):
            share.held[0].give_back()


class DaskPost:
    """A foreman that is a Dask actor."""

    def __init__(self, actor: Any, future: Any, give_back: Callable[[], None]) -> None:
        self._actor = actor
        self._future = future  # the actor lives as long as this does
        self._give_back = give_back
        self._has = threading.Lock()  # what is held: taken by whoever gives it back, which is done once
        self._told: deque[Any] = deque()

    def tell(self, orders: Sequence[tuple[Any, ...]]) -> None:
        self._told.append(self._actor.tell(orders))

    def hear(self) -> list[Any]:
        while self._told and self._told[0].done():
            self._told.popleft().result()  # raises where the orders have not arrived
        return list(self._actor.hear().result(timeout=CALL_LIMIT))

    def close(self) -> None:
        try:
            self._actor.close().result(timeout=CLOSE_LIMIT)
        finally:
            if self._has.acquire(blocking=False):
                self._give_back()
            self._future.release()


class _Held:
    """What a worker has declared and Dask gives to nobody else: of a task that waits until it is let go."""

    def __init__(self, client: Client, name: str, amounts: dict[str, float]) -> None:
        self._future = None
        resources = {kind: amount for kind, amount in amounts.items() if amount}
        if resources:
            key = f"tenfold-holds-{name}-{id(self):x}"
            options: dict[str, Any] = {
                "workers": [name],
                "allow_other_workers": False,
                "resources": resources,
                "key": key,
            }
            self._future = client.submit(dask_holding.hold, key, **options)
            self._client, self._key, self._name = client, key, name
            try:
                while not client.run(dask_holding.is_held, key, HIRE_LIMIT, workers=[name])[name]:
                    continue  # until Dask has room for it
            except BaseException:
                self.give_back()
                raise

    def give_back(self) -> None:
        if self._future is not None:
            with contextlib.suppress(Exception):  # the worker is gone, and what it held with it
                self._client.run(dask_holding.let_go, self._key, workers=[self._name])
            self._future.release()
            self._future = None


# -- what a worker has ------------------------------------------------------------------------------------------------


def nodes_of(found: dict[str, tuple[Facts, int, dict[str, Any]]]) -> list[Node]:
    """Nodes from what each worker says: (facts, threads, what the scheduler knows of it).

    Workers of one machine are given different cores, and different GPUs where they see the same ones.
    """
    nodes = []
    cores_taken: dict[str, int] = {}
    gpus_taken: dict[str, set[str]] = {}
    for name, (there, threads, known) in sorted(found.items()):
        first = cores_taken.get(there.host, 0)
        cores_taken[there.host] = first + threads
        total = sum(count for other, count, _ in found.values() if other.host == there.host)
        # More threads than cores: whoever has started the workers so does not want them pinned.
        cores = there.machine.cores[first : first + threads] if total <= len(there.machine.cores) else ()
        declared = int(known.get("resources", {}).get("GPU", 0))
        taken = gpus_taken.setdefault(there.host, set())
        gpus = _devices(there.machine.gpus, declared, taken)
        taken |= {gpu.address for gpu in gpus}
        memory = int(known.get("memory_limit") or there.machine.memory)
        usable = Machine(cores, float(threads), min(memory, there.machine.memory), gpus, name)
        nodes.append(Node(name, usable, there))
    return nodes


def _devices(visible: Iterable[Gpu], declared: int, taken: set[str]) -> tuple[Gpu, ...]:
    """The devices of a worker that has declared so many; numbered where the driver was not asked."""
    free = [gpu for gpu in visible if gpu.address not in taken]
    numbers = (str(n) for n in range(1000) if str(n) not in taken and all(gpu.address != str(n) for gpu in free))
    while len(free) < declared:
        free.append(Gpu(next(numbers), "declared", 0))
    return tuple(free[:declared])


def _threads(known: dict[str, Any]) -> int:
    return int(known.get("resources", {}).get("CPU", 0)) or int(known["nthreads"])


# -- connections ------------------------------------------------------------------------------------------------------

_clients: dict[str, Client] = {}
_known: WeakKeyDictionary[Client, DaskCluster] = WeakKeyDictionary()
_processes: list[DaskProcess] = []
_begun: dict[int, DaskProcess] = {}
"""Those that nobody has joined yet, by their GPUs."""
_lock = threading.Lock()


def connected(address: str, security: Security | None) -> Client:
    """The client for an address, made once and kept until this process ends."""
    with _lock:
        # A cluster of our own has the GPUs that there were when it was started.
        here = machine.look() if address == "dask" else None
        # Who has given other certificates has not been let in yet.
        key = f"{address} {id(security)}" if here is None else f"dask with {len(here.gpus)} GPUs"
        known = _clients.get(key)
        if known is None or known.status != "running":
            _clients[key] = _join(address, security) if here is None else _start(here)
        return _clients[key]


def _start(here: Machine) -> Client:
    """A cluster in a process of its own, which ends when this one does."""
    process = _begin(here)
    del _begun[process.gpus]
    from distributed import Client  # half a second, while the process does the same

    return Client(process.address(), set_as_default=False, timeout=CONNECT_LIMIT)


def _begin(here: Machine) -> DaskProcess:
    """One that comes up meanwhile, and that nobody has joined yet."""
    gpus = len(here.gpus)
    if gpus not in _begun:
        _begun[gpus] = DaskProcess(max(1, int(here.cpus)), gpus)
        _processes.append(_begun[gpus])
    return _begun[gpus]


def _join(address: str, security: Security | None) -> Client:
    from distributed import Client, Security

    scheme, _, rest = address.partition("://")
    host, _, port = rest.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise BadCall(f'engine={address!r}: expected "dask", or an address such as "dask://host:8786"')
    # Dask would find out in a client that is half made, whose threads then stay.
    if scheme == "tls" and (security or Security()).get_connection_args("client").get("ssl_context") is None:
        raise BadCall(
            f"engine={address!r}: it needs certificates; give a distributed.Security with "
            "tenfold.use(..., security=...), or name them in Dask's configuration"
        )
    try:
        _probe(host.strip("[]"), int(port), speaks=scheme != "tls")
        where = f"{'tls' if scheme == 'tls' else 'tcp'}://{rest}"
        return Client(where, timeout=CONNECT_LIMIT / 2, set_as_default=False, security=security)
    except (OSError, TimeoutError) as error:
        hint = "; a scheduler with TLS needs a tls:// address" if scheme != "tls" else ""
        raise ClusterLost(f"no Dask scheduler answers at {address}: {error or type(error).__name__}{hint}") from error


def _probe(host: str, port: int, *, speaks: bool) -> None:
    """Raise OSError where no scheduler listens. One without TLS speaks first; Dask would wait for that for ever."""
    with socket.create_connection((host, port), CONNECT_LIMIT / 2) as end:
        # The size of its first message: a few hundred bytes.
        if speaks and not 0 < int.from_bytes(end.recv(8), "little") < GREETING_LIMIT:
            raise OSError("whoever listens there is no Dask scheduler")


@atexit.register
def close() -> None:
    """End the connections that were made here, and the clusters that were started."""
    with _lock:
        for client in _clients.values():
            with contextlib.suppress(Exception):
                client.close(timeout=2)
        _clients.clear()
        _begun.clear()
        while _processes:
            _processes.pop().close()
