"""What the models of a search go on from, when a pruner has them come again for more epochs; called by `placing`.

A model is known by its trial and fold. Its item is no name for it: that has the seed, which is drawn anew for each fit
without a `random_state`, and the epochs of this rung.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from tenfold.fuse.checkpoint import Saved
from tenfold.fuse.fit import Fit
from tenfold.fuse.result import FitResult
from tenfold.verbs.map import map  # noqa: A004
from tenfold.work.leg import Leg

Place = tuple[int, int]
"""A candidate's place among those that are evaluated now, and a fold."""


Key = tuple[int, int]
"""A trial and a fold: one model, at all of its rungs."""


class Rungs:
    """Of one search."""

    def __init__(self, epochs: int) -> None:
        """`epochs`: the most that a model may come to."""
        self.trials: Sequence[int] = ()
        """The trial of each candidate that is evaluated now."""
        self._epochs = epochs
        self._seeds: dict[Key, int] = {}
        self._saved: dict[Key, Saved] = {}
        self._ended: dict[Key, FitResult] = {}  # by early stopping: there is nothing more to train at later rungs

    def run(
        self, fit: Fit, items: Sequence[Mapping[str, Any]], places: Sequence[Place], where: Mapping[str, Any]
    ) -> list[tuple[Any, float]]:
        """Train each to the epochs of this `Fit`, and no further; what came of it, and how long that took."""
        stop = fit.epochs if fit.epochs < self._epochs else None
        keys = [(self.trials[candidate], fold) for candidate, fold in places]
        under_way = {key: item for key, item in zip(keys, items, strict=True) if key not in self._ended}
        found: dict[Key, tuple[Any, float]] = {key: (self._ended[key], 0.0) for key in keys if key not in under_way}
        if under_way:
            legs = [self._leg(number, key, item, stop) for number, (key, item) in enumerate(under_way.items())]
            whole = copy.copy(fit)
            whole.epochs = self._epochs
            results = map(whole, legs, on_error="collect", **where)
            seconds = [outcome.seconds for outcome in results.outcomes]
            found |= zip(under_way, zip(results, seconds, strict=True), strict=True)
        for key in under_way:
            self._keep(key, found[key][0], stop)
        return [found[key] for key in keys]

    def _leg(self, number: int, key: Key, item: Mapping[str, Any], stop: int | None) -> Leg:
        saved = self._saved.get(key)
        params = {**item, "seed": self._seeds.setdefault(key, item["seed"])}
        if "epochs" in item:  # `build` asks for them, for a schedule perhaps: it is the same one at every rung
            params["epochs"] = self._epochs
        return Leg(number, params, None, saved.epoch if saved else 0, stop, numbered=True, state=saved)

    def _keep(self, key: Key, found: Any, stop: int | None) -> None:
        """Of a failure nothing: it may be a model of another form, which is tried again from the same state."""
        if not isinstance(found, FitResult):
            return
        self._saved.pop(key, None)
        if found.saved is not None:
            self._saved[key] = found.saved
        elif stop is not None:
            self._ended[key] = found
