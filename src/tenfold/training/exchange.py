"""In a worker: which way its vectors meet those of others, and the slots of each muster.

Memory that is shared, on one machine; sockets in a ring, between several; through PyTorch's own groups where gradients
are on GPUs, or where the caller says so.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tenfold.errors import BadCall
from tenfold.training.adding import Alone, Ask, Shared, Slots
from tenfold.training.attendance import Attending
from tenfold.training.muster import Muster
from tenfold.training.port import Learner
from tenfold.training.ring import Ring
from tenfold.training.terms import Terms
from tenfold.training.wires import of_call
from tenfold.work.here import here

if TYPE_CHECKING:
    from tenfold.training.collective import Meeting

OF_TORCH = ("gloo", "nccl")


class Exchange:
    """One worker's, from one muster to the next."""

    def __init__(self, terms: Terms, learner: Learner, attendance: Attending) -> None:
        self._given = terms.exchange
        self._size = learner.size
        self._attendance = attendance
        self._device = device = learner.device
        self._meeting: Meeting | None = None
        self.gpu = ""
        """This worker's own, where gradients can be added up on it."""
        if self._given in OF_TORCH and device is None:
            raise BadCall(f"exchange={self._given!r}: {only_torch()}")
        if self._given in OF_TORCH or (device is not None and device.type == "cuda" and terms.how == "synchronous"):
            from tenfold.training import collective

            assert attendance.listener is not None  # who meets somebody has one
            self._meeting = collective.Meeting(attendance.listener, attendance.key)
            self.gpu = collective.gpu(device)
        if self._given == "nccl" and not self.gpu:
            raise BadCall(
                f"exchange='nccl': the model is on {device}, and not on a GPU that NCCL reaches; `build` puts it on "
                "tenfold.here().device"
            )

    def slots(self, muster: Muster, ask: Ask) -> Slots:
        """In this muster; the first turn is over then."""
        rank, count = muster.rank(self._attendance.index), len(muster.arrivals)
        way = self._way(muster)
        if way == "none":
            return Alone(self._size)
        if way == "memory":
            name = f"muster-{of_call(self._attendance.key)}-{muster.number}"
            return _in_memory(here().shared / name, rank, count, self._size, ask)
        if way == "ring":
            assert self._attendance.listener is not None
            return Ring(muster, rank, self._size, self._attendance.listener, self._attendance.key, ask)
        assert self._meeting is not None
        return self._meeting.slots(muster, rank, self._size, self._device if way == "nccl" else None, ask)

    def close(self) -> None:
        """No more musters."""
        if self._meeting is not None:
            self._meeting.close()

    def _way(self, muster: Muster) -> str:
        """The same for all, because all know the muster."""
        if len(muster.arrivals) == 1:
            return "none"
        if self._given is not None:
            return self._given
        if muster.has_gpus:
            return "nccl"
        return "memory" if muster.is_one_machine else "ring"


def only_torch() -> str:
    """Why PyTorch's groups are refused for others."""
    return 'only PyTorch adds up gradients so; "ring" is for all frameworks, and without exchange= the best is taken'


def _in_memory(path: Path, rank: int, count: int, size: int, ask: Ask) -> Shared:
    shared = Shared(path, rank, count, size)
    shared.add(1, ask)  # when all have mapped it, it needs no name any more
    path.unlink(missing_ok=True)
    return shared
