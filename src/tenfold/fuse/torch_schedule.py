"""In a worker: a learning-rate scheduler of PyTorch, stepped after every epoch, wherever its model is trained.

What it goes on from is what its epochs were scored by, one number each: from these it is taken through the same steps
again. So its numbers are the same to the bit, and in a study that goes on with another learning rate, they are those
of that rate.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

ATTACHED = "initial_lr"  # what a scheduler leaves in the groups of its optimizer
WANTED = "expected one of torch.optim.lr_scheduler"


class Schedule:
    """The scheduler of one model, and the optimizer whose numbers it sets."""

    def __init__(self, scheduler: Any, optimizer: Any) -> None:
        self._scheduler = scheduler
        self._optimizer = optimizer
        self._values: list[float] = []
        settings = [{name: group[name] for name in group if name != "params"} for group in optimizer.param_groups]
        self._start = copy.deepcopy((scheduler.state_dict(), settings))

    def step(self, logs: Mapping[str, float]) -> None:
        """After an epoch, with its loss and metrics."""
        self._step(logs.get("val_loss", logs["loss"]))

    def _step(self, value: float) -> None:
        self._values.append(value)
        given = (value,) if isinstance(self._scheduler, ReduceLROnPlateau) else ()
        with warnings.catch_warnings():
            # A stack takes the steps of an optimizer in its place, and one that goes on has taken them before.
            warnings.filterwarnings("ignore", r"Detected call of `lr_scheduler\.step\(\)`", UserWarning)
            self._scheduler.step(*given)

    @property
    def state(self) -> list[float]:
        """What it goes on from."""
        return list(self._values)

    def put(self, state: Sequence[float]) -> None:
        """Go on from a `state`, from the settings that the optimizer was built with."""
        scheduler, settings = copy.deepcopy(self._start)
        self._scheduler.load_state_dict(scheduler)
        for group, own in zip(self._optimizer.param_groups, settings, strict=True):
            group.update(own)
        self._values = []
        for value in state:
            self._step(value)


def faults(scheduler: Any, optimizer: Any) -> list[str]:
    """What is wrong with the fourth of what `build` returned, None where it returned three; in words."""
    if scheduler is None:
        attached = any(ATTACHED in group for group in optimizer.param_groups)
        return ["optimizer has a learning-rate scheduler that nobody would step; return it as the fourth"] * attached
    if not isinstance(scheduler, LRScheduler):
        return [f"scheduler is of {type(scheduler).__name__}, {WANTED}"]
    if scheduler.optimizer is not optimizer:
        return ["scheduler is that of another optimizer"]
    if isinstance(scheduler, ReduceLROnPlateau) and scheduler.mode != "min":
        return [f"scheduler is ReduceLROnPlateau(mode={scheduler.mode!r}); it is given val_loss, or loss: a minimum"]
    return []
