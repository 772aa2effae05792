"""In a worker: a part of a source through all models, and what the metrics keep of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy

from tenfold.data import stacking
from tenfold.data.roles import Roles
from tenfold.data.source import Part, Source, count
from tenfold.errors import BadCall
from tenfold.metrics.scoring import Scoring, Tally
from tenfold.models.predicting import Predicting


class Tallied(NamedTuple):
    """What is kept of a part."""

    source: str
    """The name of its data set."""
    tallies: dict[str, Tally]
    """By the name of the model."""
    spent: Mapping[str, float]
    """Seconds of the task: "input" is how long its samples were read."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A model, and how it is scored."""

    predicting: Predicting
    """What it says of rows."""
    scoring: Scoring
    """What becomes of that."""
    labels: bool
    """It predicts labels, which are never probabilities, whatever their type."""
    scores: str | None
    """The output in which it says how sure it is, where it is asked for that beside its labels."""

    def tally(self, inputs: Any, truth: Any, weight: Any, groups: Any, first_row: int) -> Tally:
        """Of the rows of a part."""
        predicted, scores = self.predicting.outputs(inputs), None
        if self.scores is not None:
            predicted, scores = predicted["predict"], predicted[self.scores]
        if isinstance(predicted, tuple | dict):
            known = ", ".join(map(str, predicted)) if isinstance(predicted, dict) else f"{len(predicted)} of them"
            raise BadCall(f"the model has several outputs ({known}); name one with output=")
        if self.labels and predicted.dtype.kind == "f":  # a classifier that was fitted with 0.0, 1.0, 2.0
            predicted = predicted.astype(numpy.int64)
        if self.labels and predicted.ndim == 2 and ((predicted == 0) | (predicted == 1)).all():
            predicted = predicted.astype(bool)  # rows that say which classes it is, and may say none, or several
        return self.scoring.update(truth, predicted, weight, groups, first_row, scores=scores)


class Scored:
    """The task of `tenfold.evaluate`: called with the name of a data set and a part of it."""

    notes_spent = True

    def __init__(
        self, judged: dict[str, Judged], sources: dict[str, Source], roles: Roles, parts: dict[str, Any]
    ) -> None:
        """`parts`: what else identifies the scores."""
        self._judged = judged
        self._sources = sources
        self._roles = roles
        self._own = parts

    def __tenfold_parts__(self) -> dict[str, Any]:
        models = {f"{key} of {name}": part for name, j in self._judged.items() for key, part in _parts(j).items()}
        return {
            **models,
            "metrics": [each.name for judged in self._judged.values() for each in judged.scoring.metrics],
            "roles": self._roles,
            **self._own,
        }

    def __tenfold_modules__(self, named: set[str]) -> list[str]:
        return [module for judged in self._judged.values() for module in judged.predicting.__tenfold_modules__(named)]

    @property
    def __name__(self) -> str:
        return "evaluate"

    def __call__(self, item: tuple[str, Part]) -> Tallied:
        name, part = item
        began = time.monotonic()
        rows = self._sources[name].view(part.start, part.stop) if part.rows is None else part.rows
        spent = {"input": time.monotonic() - began}
        roles = self._roles
        beside = roles.truth(rows), roles.weights(rows), roles.groups(rows), part.start
        found = {
            model: judged.tally(roles.x(rows if judged.predicting.changes_nothing else stacking.own(rows)), *beside)
            for model, judged in self._judged.items()
        }  # each has its own rows to write to: the next model's, and the truth, may be among them
        assert count(rows) == part.stop - part.start
        return Tallied(name, found, spent)


def _parts(judged: Judged) -> dict[str, Any]:
    return judged.predicting.__tenfold_parts__()
