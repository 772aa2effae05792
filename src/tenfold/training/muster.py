"""Who trains together, from one change to the next: what the caller's roll and each worker agree on.

worker to roll   begin number and place, arrive Arrival, at mark, beat, state bytes, save mark and bytes, late ranks,
                 timed Timing, result value, failed text
server to roll   serve Serving, beat
pulse to roll    pulse machine and process, beat
roll to worker   change, muster Muster, take bytes, end value, stop text, leave text
roll to pulse    KILL
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Arrival:
    """A worker introduces itself."""

    index: int
    """Its number; a second attempt has that of the first."""
    host: str
    """Its machine, as far as memory can be shared."""
    pid: int
    """Its process."""
    address: tuple[str, int]
    """Where others reach it, who cannot share its memory."""
    step: int
    """How far its copy of the model is."""
    size: int = 0
    """Numbers that its model and the sums of an epoch are: what asynchronous workers add to."""
    gpu: str = ""
    """Where PyTorch has its gradients, if NCCL reaches them there: a name that no other GPU has."""
    origin: bytes = b""
    """What its copy of the model began with: the same for equal ones, and for those that have the state of another."""


@dataclass(frozen=True, slots=True)
class Serving:
    """A parameter server introduces itself."""

    part: int
    """Which part of the weights it holds; a second attempt has that of the first."""
    host: str
    """Its machine, as far as memory can be shared."""
    pid: int
    """Its process."""
    address: tuple[str, int]
    """Where workers reach it."""


@dataclass(frozen=True, slots=True)
class Muster:
    """The workers that train together until one is lost or another comes."""

    number: int
    """Counted from 1."""
    arrivals: tuple[Arrival, ...]
    """In the order of their ranks."""
    step: int
    """How far they are when they go on."""
    source: int
    """The rank whose copy of the model is that far: workers that are not get it from there. -1 for the checkpoint."""
    servers: tuple[tuple[str, int], ...] = ()
    """Where the parts of the weights are that all add to, in their order; empty where memory holds them, or nobody."""

    def rank(self, index: int) -> int:
        """The place of a worker."""
        return [arrival.index for arrival in self.arrivals].index(index)

    @property
    def behind(self) -> tuple[int, ...]:
        """Indices of the workers that need the state."""
        return tuple(
            arrival.index
            for arrival in self.arrivals
            if self.source < 0 or arrival.step != self.step or self.differs(arrival)
        )

    def differs(self, arrival: Arrival) -> bool:
        """Whether its copy began otherwise than the one that is furthest: then it is another model."""
        return self.source >= 0 and arrival.origin != self.arrivals[self.source].origin

    @property
    def is_one_machine(self) -> bool:
        return len({arrival.host for arrival in self.arrivals}) == 1

    @property
    def has_gpus(self) -> bool:
        """Whether each worker has one of its own, for NCCL."""
        found = {arrival.gpu for arrival in self.arrivals}
        return "" not in found and len(found) == len(self.arrivals)
