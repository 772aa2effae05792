"""Ray: a local cluster of its own, one at an address, or the one that this process has joined already.

    engine="ray"                   starts a cluster on this machine, which ends with this process
    engine="ray://auto"            joins the one that runs on this machine (`ray start`)
    engine="ray://host:10001"      joins another, through its Ray Client port
    tenfold.use(ray)               uses what `ray.init()` has joined

A node is a Ray node. A foreman is an actor there that holds the CPUs and GPUs of its seats; Ray says which GPUs those
are. A keeper is an actor that holds nothing: it says what is on its node, and keeps content and the nursery between
calls.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Sequence
from typing import Any

from tenfold import machine
from tenfold.engines.cluster import Node, content, facts
from tenfold.engines.cluster.content import Notice
from tenfold.engines.cluster.crew import ClusterCrew
from tenfold.engines.cluster.facts import Facts
from tenfold.engines.cluster.foreman import Foreman, nursery_environment
from tenfold.errors import BadCall, ClusterLost, WorkersUnavailable
from tenfold.machine import Gpu, Machine
from tenfold.machine.installed import missing
from tenfold.nursery import client
from tenfold.plan.choose import Abilities, Plan
from tenfold.plan.seats import Seat
from tenfold.work.run import Job

ADOPTS = ("ray",)
"""Modules whose objects `tenfold.use` takes to be this engine's."""
SCHEMES = ("ray",)
"""What its addresses begin with."""

CONNECT_LIMIT = 8.0  # seconds until an address counts as unreachable
CALL_LIMIT = 30.0
LOOK_LIMIT = 60.0  # seconds for the first answer of a node: a Ray worker process has to start there


def engine(address: str) -> RayEngine:
    try:
        import ray  # noqa: F401
    except ImportError as error:
        raise missing("Ray", "ray") from error
    return RayEngine(address)


def adopt(found: object) -> RayEngine:
    """The engine for the cluster that the user's `ray.init()` has joined."""
    import ray

    if not ray.is_initialized():
        raise BadCall(f"engine={found!r}: Ray has joined no cluster in this process; call ray.init() first")
    return RayEngine("ray")


class RayEngine:
    """Tasks on the nodes of a Ray cluster."""

    abilities = Abilities(
        parallel=True,
        processes=True,
        stops="there",
        limits_memory=True,
        isolates=True,
        leases_gpus=True,
        seconds_per_batch=0.004,
        gpus_are="those that Ray counts: ray start --num-gpus=1, or ray.init(num_gpus=1)",
    )

    def __init__(self, address: str) -> None:
        self._address = address
        self._cluster: RayCluster | None = None
        self._nodes: list[Node] = []

    def machines(self) -> list[Machine]:
        _join(self._address)
        self._cluster = self._cluster or RayCluster(self._address)
        self._nodes = self._cluster.nodes()
        if not self._nodes:
            raise WorkersUnavailable(f"the Ray cluster at {self._address} has no node; add one with: ray start")
        return [node.machine for node in self._nodes]

    def open(self, function: Callable[[Any], Any], job: Job, plan: Plan) -> ClusterCrew:
        assert self._cluster is not None, "machines() comes first"
        return ClusterCrew(self._cluster, self._nodes, function, job, plan)


class Keeper:
    """On a node, for as long as the caller lives."""

    def look(self) -> Facts:
        return facts.look()

    def available(self) -> dict[str, dict[str, float]]:
        """What nobody uses now, on every node of the cluster."""
        from ray._private import state

        return dict(state.available_resources_per_node())

    def has(self, notice: Notice) -> bool:
        return content.has(notice)

    def add(self, notice: Notice, place: int, chunk: bytes) -> None:
        content.add(notice, place, chunk)

    def keep_warm(self, contract: bytes) -> None:
        client.get(nursery_environment(contract))


class RayForeman(Foreman):
    """A foreman that asks Ray which GPUs it has."""

    def __init__(self, contract: bytes) -> None:
        import ray

        super().__init__(contract, [str(number) for number in ray.get_gpu_ids()])


class RayCluster:
    """What `ray.init()` has joined, as `tenfold.engines.cluster` wants it."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._keepers: dict[str, Any] = {}
        self._facts: dict[str, Facts] = {}
        self._lock = threading.Lock()

    # -- nodes --------------------------------------------------------------------------------------------------

    def nodes(self) -> list[Node]:
        import ray

        with self._lock:
            try:
                alive = {found["NodeID"]: found for found in ray.nodes() if found["Alive"]}
            except Exception as error:
                raise ClusterLost(f"the Ray cluster at {self.address} is gone: {error}") from error
            for name in self._facts.keys() - alive.keys():
                del self._facts[name], self._keepers[name]
            self._look([name for name in alive if name not in self._facts])
            free = self._available()
        nodes = []
        for name, there in self._facts.items():
            resources = alive[name]["Resources"]
            unused = free.get(name, resources)
            # Where everything is in use, tasks wait until Ray has room for them.
            counted = unused if unused.get("CPU", 0) >= 1 else resources
            nodes.append(_node(name, there, counted, float(resources.get("CPU", 0))))
        return nodes

    def _look(self, names: Sequence[str]) -> None:
        import ray

        asked = {}
        for name in names:
            keeper = ray.remote(Keeper).options(**_on(name), num_cpus=0, max_concurrency=4).remote()
            asked[name] = (keeper, keeper.look.remote())
        for name, (keeper, answer) in asked.items():
            try:
                self._facts[name] = ray.get(answer, timeout=LOOK_LIMIT)
                self._keepers[name] = keeper
            except ray.exceptions.RayActorError as error:
                if "No module named" in str(error) or "ModuleNotFound" in str(error):
                    raise WorkersUnavailable(
                        f"{name} cannot work for tenfold: {error}. It needs the Python, tenfold and frameworks of "
                        "this process"
                    ) from error
            except ray.exceptions.GetTimeoutError:
                continue  # it is asked again the next time

    def _available(self) -> dict[str, dict[str, float]]:
        import ray

        for keeper in self._keepers.values():
            with contextlib.suppress(Exception):  # its node may just be lost; private to Ray, so it may change
                return dict(ray.get(keeper.available.remote(), timeout=CALL_LIMIT))
        return {}

    # -- content ------------------------------------------------------------------------------------------------

    def has(self, name: str, notice: Notice) -> bool:
        import ray

        return bool(ray.get(self._keepers[name].has.remote(notice), timeout=CALL_LIMIT))

    def deliver(self, name: str, notice: Notice, place: int, chunk: bytes) -> None:
        import ray

        ray.get(self._keepers[name].add.remote(notice, place, chunk))

    # -- foremen ------------------------------------------------------------------------------------------------

    def hire(self, node: Node, seats: Sequence[Seat], contract: bytes) -> RayPost:
        import ray

        cpus = min(sum(seat.cpus for seat in seats), node.machine.cpus)
        share = sum(gpu.share for seat in seats for gpu in seat.gpus)
        gpus = share if share < 1 else math.ceil(share - 1e-9)
        actor = ray.remote(RayForeman).options(**_on(node.name), num_cpus=cpus, num_gpus=gpus).remote(contract)
        self._keepers[node.name].keep_warm.remote(contract)
        return RayPost(actor)


class RayPost:
    """A foreman that is a Ray actor."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def tell(self, orders: Sequence[tuple[Any, ...]]) -> None:
        self._actor.tell.remote(orders)

    def hear(self) -> list[Any]:
        import ray

        return list(ray.get(self._actor.hear.remote()))

    def close(self) -> None:
        import ray

        try:
            ray.get(self._actor.close.remote(), timeout=CALL_LIMIT)
        finally:
            ray.kill(self._actor)


def _on(name: str) -> dict[str, Any]:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return {"scheduling_strategy": NodeAffinitySchedulingStrategy(name, soft=False)}


def _node(name: str, there: Facts, resources: dict[str, float], whole: float) -> Node:
    cpus = float(resources.get("CPU", 0))
    count = float(resources.get("GPU", 0))
    # Ray numbers the devices when a foreman starts; until then they are only counted.
    gpus = [Gpu(f"ray{n}", "counted by Ray", 0) for n in range(int(count))]
    if count % 1 > 1e-9:
        gpus.append(Gpu(f"ray{len(gpus)}", "counted by Ray", 0, count % 1))
    memory = min(int(resources.get("memory", there.machine.memory)), there.machine.memory)
    # Pinned only where all cores are ours to divide: otherwise others work on some of them.
    cores = there.machine.cores if cpus == whole == len(there.machine.cores) else ()
    return Node(name, Machine(cores, cpus, memory, tuple(gpus), name), there)


# -- connections ------------------------------------------------------------------------------------------------------

_lock = threading.Lock()
_joined = ""
_folder = ""


def _join(address: str) -> None:
    """Have this process in the cluster at `address`; it can be in one only."""
    global _joined
    import ray

    with _lock:
        if ray.is_initialized():
            if address in ("ray", _joined) or not _joined:
                return
            raise BadCall(
                f"engine={address!r}: this process has joined another Ray cluster ({_joined}), and Ray allows only one"
            )
        if address == "ray":
            _start()
        else:
            _connect(address)
        _joined = address


def _start() -> None:
    global _folder
    import ray

    # Ray never removes its folder, and the names of its sockets must be short.
    _folder = tempfile.mkdtemp(prefix="tfr-", dir="/tmp")
    options: dict[str, Any] = {
        "include_dashboard": False,
        "log_to_driver": False,
        "configure_logging": False,
        "_temp_dir": _folder,
    }
    ray.init(address="local", num_cpus=max(1, int(machine.look().cpus)), **options)


def _connect(address: str) -> None:
    import ray

    where = address.removeprefix("ray://")
    options: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
    if where != "auto":
        host, _, port = where.rpartition(":")
        if not host or not port.isdigit():
            raise BadCall(f'engine={address!r}: expected "ray", "ray://auto" or "ray://host:port"')
        try:
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_LIMIT / 2).close()
        except OSError as error:
            raise ClusterLost(f"no Ray cluster answers at {address}: {error}") from error
    try:
        ray.init(address=where if where == "auto" else address, **options)
    except Exception as error:
        raise ClusterLost(f"no Ray cluster answers at {address}: {type(error).__name__}: {error}") from error


@atexit.register
def close() -> None:
    """Leave the cluster that was joined here; one that was started here ends."""
    global _joined, _folder
    with _lock:
        if not _joined:
            return
        import ray

        with contextlib.suppress(Exception):
            ray.shutdown()
        if _folder:
            shutil.rmtree(_folder, ignore_errors=True)
        _joined = _folder = ""
