"""Early stopping, for each model by itself: the same rule as Keras's callback, for every framework."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any

from tenfold.errors import BadCall

MORE_IS_BETTER = frozenset({"acc", "accuracy", "auc", "precision", "recall", "f1", "iou", "r2"})
LESS_IS_BETTER = frozenset({"loss", "error"})


@dataclass(frozen=True, slots=True)
class EarlyStopping:
    """Stop a model that has not improved for `patience` epochs."""

    monitor: str = "val_loss"
    """What is watched: a name in the history."""
    patience: int = 3
    """Epochs without improvement that are waited for."""
    min_delta: float = 0.0
    """What counts as an improvement."""
    mode: str = "auto"
    """"min" where less is better, "max" where more is, "auto" to tell by the name."""
    restore_best: bool = True
    """Give back the weights of the best epoch rather than those of the last."""
    start_from_epoch: int = 0
    """Epochs at the beginning that do not count."""
    baseline: float | None = None
    """What must be reached within `patience` epochs."""

    def __post_init__(self) -> None:
        faults = []
        if self.mode not in ("auto", "min", "max"):
            faults.append(f'mode={self.mode!r}: expected "auto", "min" or "max"')
        if isinstance(self.patience, bool) or not isinstance(self.patience, int) or self.patience < 0:
            faults.append(f"patience={self.patience!r}: expected a whole number, 0 or above")
        if not isinstance(self.monitor, str) or not self.monitor:
            faults.append(f'monitor={self.monitor!r}: expected a name such as "val_loss"')
        if faults:
            raise BadCall("; ".join(faults))

    @property
    def sign(self) -> int:
        """-1 where more is better."""
        if self.mode != "auto":
            return 1 if self.mode == "min" else -1
        return sign_of(self.monitor)


def sign_of(name: str) -> int:
    """-1 where more of what is called so is better: of an accuracy, of a `neg_log_loss`; not of an `accuracy_loss`."""
    words = re.split("[^a-z0-9]+", name.lower().removeprefix("val_"))
    known = MORE_IS_BETTER.intersection([*words, *(word.rstrip("0123456789") for word in words)])
    sign = -1 if known and not LESS_IS_BETTER.intersection(words) else 1
    return -sign if words[0] == "neg" else sign


def adopted(callback: Any) -> EarlyStopping | None:
    """Ours, or what Keras's EarlyStopping says; None where it is something else."""
    if isinstance(callback, EarlyStopping):
        return callback
    kind = type(callback)
    if kind.__name__ != "EarlyStopping" or not kind.__module__.startswith("keras."):
        return None
    return EarlyStopping(
        callback.monitor,
        callback.patience,
        abs(callback.min_delta),
        callback.mode,
        callback.restore_best_weights,
        callback.start_from_epoch,
        callback.baseline,
    )


@dataclass(slots=True)
class Patience:
    """One model's progress towards being stopped."""

    rule: EarlyStopping
    """What is watched."""
    best: float = math.inf
    """The best value so far, less being better."""
    best_epoch: int = -1
    """When that was; -1 before the first."""
    waited: int = 0
    """Epochs since."""
    stopped: bool = field(default=False)
    """It is."""

    def look(self, epoch: int, logs: dict[str, float]) -> bool:
        """After an epoch: whether it is the best so far. May set `stopped`."""
        if self.rule.monitor not in logs:
            raise BadCall(f"EarlyStopping(monitor={self.rule.monitor!r}): an epoch has {', '.join(logs)}")
        if epoch < self.rule.start_from_epoch:
            return False
        value = self.rule.sign * logs[self.rule.monitor]
        self.waited += 1
        better = self.best_epoch < 0 or value < self.best - self.rule.min_delta  # the first, even if it is a NaN
        if better:
            self.best, self.best_epoch = value, epoch
            baseline = self.rule.baseline
            if baseline is None or value < self.rule.sign * baseline - self.rule.min_delta:
                self.waited = 0
        self.stopped = not better and self.waited >= self.rule.patience and epoch > 0
        return better
