"""The caller's side: foremen on the nodes of a cluster, batches to them, and what they tell.

    recruiter ── every second ──> Cluster.nodes() ── a new one ──> attendant
    attendant ── one per node ──> supplies the node, hires a foreman, asks it what has happened ──> news

The news of all nodes come through one queue to the thread of the call. A node that is lost gives back what it had; a
node that comes later is given work.
"""

from __future__ import annotations

import os
import pickle
import queue
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from tenfold import machine
from tenfold.engines import Batch, Event, Failed, Finished, FinishedLarge, GivenBack, refuse
from tenfold.engines.cluster import Cluster, Node, Post, bundle, content, facts
from tenfold.engines.cluster.content import Notice
from tenfold.engines.cluster.errands import Filed, bring_home, gather
from tenfold.engines.cluster.foreman import HEARTBEAT, Contract
from tenfold.errors import ClusterLost, DoesNotFit, WorkersUnavailable
from tenfold.nursery import client, warming
from tenfold.nursery.load import load
from tenfold.plan.choose import Plan
from tenfold.plan.seats import Seat, cut
from tenfold.work import parcel
from tenfold.work.outcome import Failure
from tenfold.work.run import Job

SILENCE = 15 * HEARTBEAT  # after which a node counts as lost, though nobody says so
RECRUIT_EVERY = 1.0
DEPTH = 2  # batches for each seat that may be with a node
PATIENCE = 60.0  # seconds that a call waits for a node when it has lost the last one
CLOSE_LIMIT = 10.0  # seconds for all nodes to end their tasks, which would otherwise go on, and write their files
ROOM_LIMIT = 30.0  # seconds after which a call that waits for room says so
FULL = "others use its cores or GPUs"
LOST_IN_A_ROW = 4  # nodes that may be lost without a task being finished, before a task is suspected to kill them


@dataclass(slots=True)
class Place:
    """A node that works for this call."""

    node: Node
    """Which."""
    seats: tuple[Seat, ...]
    """The call's seats there."""
    post: Post | None = None
    """Its foreman, once it is hired."""
    batches: dict[int, list[Any]] = field(default_factory=dict)
    """What it has to do: each batch, and how many of its tasks we have heard of."""
    heard: float = field(default_factory=time.monotonic)
    """When it last said something."""


News = tuple[Place, Post | Sequence[Event | Filed] | BaseException | str] | tuple[None, Node]


class ClusterCrew:
    """The workers of one call, on the nodes of a cluster."""

    def __init__(
        self, cluster: Cluster, nodes: Sequence[Node], function: Callable[[Any], Any], job: Job, plan: Plan
    ) -> None:
        self._cluster = cluster
        self._job = job
        self._plan = plan
        self._here = facts.look()
        self._refuse_differing(nodes)
        self._load = load(function, soon=True)
        self._own_modules = bundle.collect(function)
        self._nursery = self._open_nursery() if any(node.facts.host == self._here.host for node in nodes) else None
        self._notice: Notice | None = None
        self._supplied = threading.Lock()
        self._news: queue.SimpleQueue[News] = queue.SimpleQueue()
        self._places: dict[str, Place] = {}
        self._waiting: deque[Batch] = deque()
        self._events: list[Event] = []
        self._lost_in_a_row = 0
        self._alone_since: float | None = None
        self._fault: BaseException | None = None
        self._ignored: set[str] = set()  # nodes that cannot work for us
        self._known = {node.name for node in nodes}  # the plan has seen them: no word where one has no seat
        self._closing = threading.Event()
        if self._load.filling is not None:
            self._load.filling.add_done_callback(self._filled)
        for node in nodes:
            self._engage(node, tuple(seat for seat in plan.seats if seat.machine == node.name))
        threading.Thread(target=self._recruit, name="tenfold-recruiter", daemon=True).start()

    @property
    def capacity(self) -> int:
        """Seats of foremen that are ready: what is sent for others would wait behind a task of theirs.

        Never 0: while there is no node, a batch waits here for the next one.
        """
        return max(1, sum(len(place.seats) for place in self._places.values() if place.post is not None))

    # -- the port -----------------------------------------------------------------------------------------------

    def send(self, batch: Batch) -> None:
        try:
            sealed = parcel.Sealed(parcel.pack(batch.items).to_bytes())
        except Exception as error:
            self._events.append(refuse(batch, 0, error))
            return
        self._waiting.append(replace(batch, items=[], sealed=sealed))
        self._assign()

    def receive(self, seconds: float) -> list[Event]:
        if not self._events:
            self._collect(seconds)
        self._miss_silent_ones()
        self._assign()
        if self._fault is not None:
            raise self._fault
        events, self._events = self._events, []
        return events

    def running(self) -> dict[int, float]:
        return {}

    def stop(self, batch: int, failure: Failure) -> None:
        """Nothing to do: a foreman keeps the time itself."""

    def close(self) -> None:
        if self._closing.is_set():
            return
        self._closing.set()
        enders = [threading.Thread(target=_end, args=(place.post,), daemon=True) for place in self._places.values()]
        for ender in enders:
            ender.start()
        deadline = time.monotonic() + CLOSE_LIMIT
        for ender in enders:
            ender.join(max(0.0, deadline - time.monotonic()))
        self._load.close()

    # -- batches ------------------------------------------------------------------------------------------------

    def _assign(self) -> None:
        """Each waiting batch to the node that has the least to do for its size."""
        orders: dict[str, list[tuple[Any, ...]]] = {}
        # While a node is on its way, nothing waits behind a task elsewhere: it would wait there for as long as that.
        depth = DEPTH if all(place.post is not None for place in self._places.values()) else 1
        while self._waiting:
            ready = [place for place in self._places.values() if place.post is not None]
            free = [place for place in ready if len(place.batches) < depth * len(place.seats)]
            if not free:
                break
            place = min(free, key=lambda place: len(place.batches) / len(place.seats))
            batch = self._waiting.popleft()
            assert batch.sealed is not None
            place.batches[batch.id] = [batch, 0]
            files = self._files(place, batch)
            order = ("batch", batch.id, batch.attempt, batch.indices, batch.trials, batch.sealed.content, files)
            orders.setdefault(place.node.name, []).append(order)
        for name, told in orders.items():
            place = self._places[name]
            try:
                if place.post is not None:
                    place.post.tell(told)
            except Exception as error:
                self._lose(place, error)

    def _files(self, place: Place, batch: Batch) -> list[Filed]:
        """What earlier attempts at these tasks have left, for a node that does not see it."""
        if self._job.scratch or place.node.facts.host == self._here.host:
            return []
        return [filed for folder in dict.fromkeys(batch.folders) for filed in gather(self._job.folder, folder)]

    def _collect(self, seconds: float) -> None:
        try:
            self._take(*self._news.get(timeout=max(0.0, seconds)))
            while True:
                self._take(*self._news.get_nowait())
        except queue.Empty:
            return

    def _take(self, place: Place | None, news: Any) -> None:
        if place is None:
            self._welcome(news)
            return
        if self._places.get(place.node.name) is not place:
            return  # it was given up; what it says now has been given to others
        place.heard = time.monotonic()
        if news == FULL:
            warnings.warn(f"{place.node.name} has no room yet for this call, which waits for it: {FULL}", stacklevel=2)
        elif isinstance(news, BaseException):
            self._lose(place, news)
        elif isinstance(news, Sequence):
            for event in news:
                self._hear(place, event)
        else:
            place.post = news

    def _hear(self, place: Place, event: Event | Filed) -> None:
        if isinstance(event, Filed):
            bring_home(self._job, event)
            return
        if isinstance(event, Finished | FinishedLarge | Failed | GivenBack):
            if event.batch not in place.batches:
                return
            self._lost_in_a_row = 0
            self._advance(place, event)
        self._events.append(event)

    def _advance(self, place: Place, event: Finished | FinishedLarge | Failed | GivenBack) -> None:
        entry = place.batches[event.batch]
        entry[1] += len(event.seconds) if isinstance(event, Finished) else 1
        if isinstance(event, GivenBack) or entry[1] == len(entry[0].indices):
            del place.batches[event.batch]

    # -- nodes --------------------------------------------------------------------------------------------------

    def _engage(self, node: Node, seats: tuple[Seat, ...]) -> None:
        if seats:
            place = Place(node, seats)
            self._places[node.name] = place
            threading.Thread(target=self._attend, args=(place,), name=f"tenfold {node.name}", daemon=True).start()

    def _attend(self, place: Place) -> None:
        """In a thread of its own, for as long as the node works for us."""
        post = None
        try:
            contract = pickle.dumps(self._contract(place))
            post = self._hired(place, contract)
            self._news.put((place, post))
            while not self._closing.is_set() and self._places.get(place.node.name) is place:
                self._news.put((place, post.hear()))
        except BaseException as error:
            self._news.put((place, error))
        finally:
            _end(post)

    def _hired(self, place: Place, contract: bytes) -> Post:
        """The foreman, once there is room for it; crews with the same plan sit on the same seats."""
        late = threading.Timer(ROOM_LIMIT, self._news.put, ((place, FULL),))
        late.daemon = True
        late.start()
        try:
            return self._cluster.hire(place.node, place.seats, contract, id(self._plan))
        finally:
            late.cancel()

    def _contract(self, place: Place) -> Contract:
        is_here = place.node.facts.host == self._here.host
        environment = {**os.environ, **dict(self._job.variables)}
        return Contract(
            function=self._load.content if self._load.handle is None else self._supply(place.node, self._load.handle),
            modules=self._load.modules,
            own_modules=self._own_modules,
            job=self._job,
            seats=place.seats,
            isolate=self._plan.isolate,
            environment=environment if is_here else warming.import_variables(environment),
            folder=machine.current_folder(),
            arguments=list(sys.argv),
            host=self._here.host,
            nursery=self._nursery if is_here else None,
        )

    def _open_nursery(self) -> str | None:
        """The nursery of this process, which may have imported everything by now, for nodes on this machine."""
        if os.environ.get("TENFOLD_START") == "spawn" or sys.platform != "linux":
            return None
        nursery = client.get(self._job.variables)
        nursery.preload(self._load.modules)
        return nursery.listen()

    def _supply(self, node: Node, handle: int) -> Notice:
        """See to it that the node has the function, where that is large: once for all nodes of a machine."""
        with self._supplied:
            elsewhere = node.facts.host != self._here.host
            if elsewhere and self._load.filling is not None:
                self._load.filling.result()
            if self._notice is None or (elsewhere and not self._notice.travels):
                self._notice = content.announce(handle, travels=elsewhere)
            if not self._cluster.has(node.name, self._notice):
                for place, chunk in content.chunks(handle):
                    self._cluster.deliver(node.name, self._notice, place, chunk)
            return self._notice

    def _filled(self, filling: Future[None]) -> None:
        self._fault = filling.exception() or self._fault

    def _recruit(self) -> None:
        """In a thread of its own: look for nodes that have joined."""
        while not self._closing.wait(RECRUIT_EVERY):
            try:
                for node in self._cluster.nodes():
                    if node.name not in self._places and node.name not in self._ignored:
                        self._news.put((None, node))
            except ClusterLost as lost:
                self._fault = lost
                return
            except Exception:  # it may answer the next time
                continue

    def _welcome(self, node: Node) -> None:
        if node.name in self._places or node.name in self._ignored:
            return
        faults = facts.differences(self._here, node.facts, self._job.frameworks)
        taken = sum(len(place.seats) for place in self._places.values())
        room = None if self._plan.workers is None else self._plan.workers - taken
        try:
            seats = cut(node.machine, self._plan.needs, room) if room is None or room > 0 else ()
        except DoesNotFit as error:
            faults.append(str(error))
        if faults:
            self._ignored.add(node.name)
            if node.name in self._known:
                return
            warnings.warn(f"{node.name} has joined and is given no work: {'; '.join(faults)}", stacklevel=2)
        elif seats:
            self._engage(node, tuple(replace(seat, index=taken + n) for n, seat in enumerate(seats)))

    def _refuse_differing(self, nodes: Sequence[Node]) -> None:
        found = {node.name: facts.differences(self._here, node.facts, self._job.frameworks) for node in nodes}
        lines = [f"  {name}: {'; '.join(faults)}" for name, faults in found.items() if faults]
        if lines:
            text = "\n".join(lines)
            raise WorkersUnavailable(
                f"the cluster at {self._cluster.address} differs from this process:\n{text}\nInstall the same there"
            )

    # -- losses -------------------------------------------------------------------------------------------------

    def _miss_silent_ones(self) -> None:
        now = time.monotonic()
        for place in list(self._places.values()):
            if place.post is not None and now - place.heard > SILENCE:
                self._lose(place, TimeoutError(f"nothing was heard of it for {SILENCE:g} s"))
        if self._places:
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = now
        elif now - self._alone_since > PATIENCE:
            self._fault = WorkersUnavailable(
                f"the cluster at {self._cluster.address} has had no node for {PATIENCE:g} s; what is finished is kept"
            )

    def _lose(self, place: Place, error: BaseException) -> None:
        """What it had is given back; who comes next, or is left, gets it."""
        if self._places.get(place.node.name) is not place:
            return
        del self._places[place.node.name]
        self._events += [GivenBack(number) for number in place.batches]
        place.batches.clear()
        self._lost_in_a_row += 1
        if self._lost_in_a_row >= LOST_IN_A_ROW:
            self._fault = WorkersUnavailable(
                f"{self._lost_in_a_row} nodes were lost one after the other, and no task was finished in between; "
                f"the last one, {place.node.name}: {type(error).__name__}: {error}"
            )


def _end(post: Post | None) -> None:
    if post is not None:
        try:
            post.close()
        except Exception:  # gone already, which is what we want
            return
