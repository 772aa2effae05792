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
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from tenfold.engines.cluster import Node, ray_joining, way
from tenfold.engines.cluster.content import Notice
from tenfold.engines.cluster.crew import ClusterCrew
from tenfold.engines.cluster.facts import Facts
from tenfold.engines.cluster.ray_actors import Keeper, RayForeman
from tenfold.engines.cluster.ray_idle import Idle, Shape, joined, kill
from tenfold.engines.cluster.shares import Share, Shares
from tenfold.errors import BadCall, ClusterLost, WorkersUnavailable
from tenfold.machine import Gpu, Machine
from tenfold.machine.installed import missing, version
from tenfold.plan.choose import Abilities, Plan
from tenfold.plan.seats import Seat
from tenfold.work.run import Job

ADOPTS = ("ray",)
"""Modules whose objects `tenfold.use` takes to be this engine's."""
SCHEMES = ("ray",)
"""What its addresses begin with."""

CALL_LIMIT = 30.0
IDLE_LIMIT = 2.0  # seconds that an actor waits for the next call, and keeps its CPUs
IDLE_AT_HOME = 5.0  # the same in a cluster of our own, where only this process could want them
LOOK_LIMIT = 60.0  # seconds for the first answer of a node: a Ray worker process has to start there
_LEFT_BEHIND = "RAY_CLIENT_MODE"  # the variable that `import ray` sets in an environment that is the caller's


def ahead() -> None:
    """Begin what takes long, for a call that is going to come."""
    if version("ray") is not None:
        ray_joining.begin()
        atexit.register(close)


def engine(address: str) -> RayEngine:
    if version("ray") is None:
        raise missing("Ray", "ray")
    if address == "ray":
        ray_joining.begin()
    had = _LEFT_BEHIND in os.environ
    import ray  # noqa: F401

    atexit.unregister(close)
    atexit.register(close)  # before Ray's own end, which sleeps for half a second
    if not had:
        os.environ.pop(_LEFT_BEHIND, None)
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
        seconds_per_batch=0.002,  # until it is measured
        gpus_are="those that Ray counts: ray start --num-gpus=1, or ray.init(num_gpus=1)",
    )

    def __init__(self, address: str) -> None:
        self._address = address
        self._cluster: RayCluster | None = None
        self._nodes: list[Node] = []

    def machines(self) -> list[Machine]:
        self._cluster = _joined(self._address)
        self._nodes = self._cluster.nodes()
        if not self._nodes:
            raise WorkersUnavailable(f"the Ray cluster at {self._address} has no node; add one with: ray start")
        self.abilities = way.measured(self.abilities, self._cluster, self._nodes)
        return [node.machine for node in self._nodes]

    def cluster(self) -> RayCluster:
        assert self._cluster is not None, "machines() comes first"
        return self._cluster

    def open(self, function: Callable[[Any], Any], job: Job, plan: Plan) -> ClusterCrew:
        return ClusterCrew(self.cluster(), self._nodes, function, job, plan)


class RayCluster:
    """What `ray.init()` has joined, as `tenfold.engines.cluster` wants it."""

    def __init__(self, address: str, session: str) -> None:
        self.address = address
        self.session = session
        self._keepers: dict[str, Any] = {}
        self._facts: dict[str, Facts] = {}
        self.seconds_per_batch: float | None = None
        self._shares: Shares[Any] = Shares()
        self.idle = Idle(IDLE_AT_HOME if ray_joining.is_ours() else IDLE_LIMIT)
        self._lock = threading.Lock()

    # -- nodes --------------------------------------------------------------------------------------------------

    def nodes(self) -> list[Node]:
        ray = joined()
        with self._lock:
            if not ray_joining.has_head():
                close()  # where we have joined it: Ray would end this process
                raise ClusterLost(f"the Ray cluster at {self.address} is gone: its head does not answer")
            try:
                alive = {found["NodeID"]: found for found in ray.nodes() if found["Alive"]}
            except Exception as error:
                raise ClusterLost(f"the Ray cluster at {self.address} is gone: {error}") from error
            for name in (self._facts.keys() - alive.keys()) | self._killed():
                del self._facts[name], self._keepers[name]
            self._look([name for name in alive if name not in self._facts])
            free = self._available()
            while self.idle.just_freed() and _lacks_gpus(alive, free):
                time.sleep(0.05)
                free = self._available()
        nodes = []
        for name, there in self._facts.items():
            resources = alive[name]["Resources"]
            unused = dict(free.get(name, resources))
            unused["CPU"] = unused.get("CPU", 0) + (self.idle.cpus(name) if name in free else 0)
            # Where everything is in use, tasks wait until Ray has room for them.
            counted = dict(unused)
            for kind, least in (("CPU", 1.0), ("GPU", 1e-9)):
                if unused.get(kind, 0) < min(least, resources.get(kind, 0)):
                    counted[kind] = resources[kind]
            nodes.append(_node(name, there, counted, float(resources.get("CPU", 0))))
        return nodes

    def _killed(self) -> set[str]:
        """Nodes whose keeper is gone, though the node is not."""
        ray = joined()
        asked = {name: keeper.ping.remote() for name, keeper in self._keepers.items()}
        gone = set()
        for name, answer in asked.items():
            try:
                ray.get(answer, timeout=CALL_LIMIT)
            except ray.exceptions.RayActorError:
                gone.add(name)
            except Exception:  # slow: it may answer the next time
                continue
        return gone

    def _look(self, names: Sequence[str]) -> None:
        ray = joined()
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
        ray = joined()
        for keeper in self._keepers.values():
            with contextlib.suppress(Exception):  # its node may just be lost; private to Ray, so it may change
                return dict(ray.get(keeper.available.remote(), timeout=CALL_LIMIT))
        return {}

    # -- content ------------------------------------------------------------------------------------------------

    def has(self, name: str, notice: Notice) -> bool:
        ray = joined()
        return bool(ray.get(self._keepers[name].has.remote(notice), timeout=CALL_LIMIT))

    def deliver(self, name: str, notice: Notice, place: int, chunk: bytes) -> None:
        ray = joined()
        ray.get(self._keepers[name].add.remote(notice, place, chunk))

    def echo(self, name: str, data: bytes) -> bytes:
        ray = joined()
        return bytes(ray.get(self._keepers[name].echo.remote(data), timeout=CALL_LIMIT))

    # -- foremen ------------------------------------------------------------------------------------------------

    def hire(self, node: Node, seats: Sequence[Seat], contract: bytes, call: int) -> RayPost:
        ray = joined()
        cpus = min(sum(seat.cpus for seat in seats), node.machine.cpus)
        wanted = sum(gpu.share for seat in seats for gpu in seat.gpus)
        gpus = wanted if wanted < 1 else math.ceil(wanted - 1e-9)
        self._keepers[node.name].keep_warm.remote(contract)
        shape = (node.name, cpus, gpus)
        share = self._shares.take((node.name, call), lambda: self._actor(shape))
        try:
            number = ray.get(share.held[0].begin.remote(contract), timeout=CALL_LIMIT)
        except BaseException:
            self._shares.forget(share)  # it has died since: whoever asks again has another one
            self._give_back(share, shape, well=False)
            raise
        return RayPost(share.held[0], number, lambda well: self._give_back(share, shape, well=well))

    def _actor(self, shape: Shape) -> Any:
        """One that was kept, or a new one, once Ray has room for it."""
        ray = joined()
        name, cpus, gpus = shape
        actor = self.idle.take(shape)
        if actor is not None:
            with contextlib.suppress(ray.exceptions.RayError):  # it has died since
                ray.get(actor.ping.remote(), timeout=CALL_LIMIT)
                return actor
        with self.idle.wanted(name):
            actor = ray.remote(RayForeman).options(**_on(name), num_cpus=cpus, num_gpus=gpus).remote()
            ray.get(actor.ping.remote())
        return actor

    def _give_back(self, share: Share[Any], shape: Shape, *, well: bool) -> None:
        if not self._shares.give_back(share):
            return
        if well and not shape[2]:  # GPUs are too dear to be kept
            self.idle.put(shape, share.held[0])
            return
        kill(share.held[0])
        if shape[2]:
            self.idle.freed = time.monotonic()


class RayPost:
    """A foreman in a Ray actor."""

    def __init__(self, actor: Any, number: int, give_back: Callable[[bool], None]) -> None:
        """`give_back(well)` is called once, with whether the actor can be used again."""
        self._actor = actor
        self._number = number
        self._give_back = give_back
        self._open = threading.Lock()
        self._told: deque[Any] = deque()

    def tell(self, orders: Sequence[tuple[Any, ...]]) -> None:
        self._told.append(self._actor.tell.remote(self._number, orders))

    def hear(self) -> list[Any]:
        ray = joined()
        while self._told and ray.wait([self._told[0]], timeout=0)[0]:
            ray.get(self._told.popleft())  # raises where the orders have not arrived
        return list(ray.get(self._actor.hear.remote(self._number)))

    def close(self) -> None:
        if not self._open.acquire(blocking=False):
            return  # somebody else does, or has
        well = False
        try:
            joined().get(self._actor.close.remote(self._number), timeout=CALL_LIMIT)
            well = True
        finally:
            self._give_back(well)


def _lacks_gpus(alive: dict[str, Any], free: dict[str, dict[str, float]]) -> bool:
    return any(free.get(name, {}).get("GPU", 0) < there["Resources"].get("GPU", 0) for name, there in alive.items())


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


_cluster: RayCluster | None = None
_lock = threading.Lock()


def _joined(address: str) -> RayCluster:
    """The cluster at `address`, with what is known of it from earlier calls."""
    global _cluster
    with _lock:
        session = ray_joining.join(address)
        if _cluster is None or _cluster.session != session:  # the user may have left one and joined another
            if _cluster is not None:
                _cluster.idle.clear()
            _cluster = RayCluster(address, session)
        return _cluster


def close() -> None:
    """Leave the cluster that was joined here; one that was started here ends."""
    global _cluster
    with _lock:
        if _cluster is not None:
            _cluster.idle.clear()
            _cluster = None
        ray_joining.leave()
