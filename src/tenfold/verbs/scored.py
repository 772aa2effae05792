"""In a worker: a part of a source through all models, and what the metrics keep of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from tenfold.data.roles import Roles
from tenfold.data.source import Part, Rows, Source, count
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


class Scored:
    """The task of `tenfold.evaluate`: called with the name of a data set and a part of it."""

    notes_spent = True

    def __init__(
        self,
        predicting: dict[str, Predicting],
        scorings: dict[str, Scoring],
        sources: dict[str, Source],
        roles: Roles,
        parts: dict[str, Any],
    ) -> None:
        """`parts`: what else identifies the scores."""
        self._predicting = predicting
        self._scorings = scorings
        self._sources = sources
        self._roles = roles
        self._own = parts

    def __tenfold_parts__(self) -> dict[str, Any]:
        models = {f"{key} of {name}": part for name, p in self._predicting.items() for key, part in _parts(p).items()}
        return {
            **models,
            "metrics": [each.name for scoring in self._scorings.values() for each in scoring.metrics],
            "roles": self._roles,
            **self._own,
        }

    def __tenfold_modules__(self, named: set[str]) -> list[str]:
        return [module for p in self._predicting.values() for module in p.__tenfold_modules__(named)]

    @property
    def __name__(self) -> str:
        return "evaluate"

    def __call__(self, item: tuple[str, Part]) -> Tallied:
        name, part = item
        began = time.monotonic()
        rows = self._read(name, part) if part.rows is None else part.rows
        spent = {"input": time.monotonic() - began}
        roles = self._roles
        inputs, truth = roles.x(rows), roles.truth(rows)
        found = {}
        for model, predicting in self._predicting.items():
            predicted = predicting.outputs(inputs)
            if isinstance(predicted, tuple | dict):
                known = ", ".join(map(str, predicted)) if isinstance(predicted, dict) else f"{len(predicted)} of them"
                raise BadCall(f"the model has several outputs ({known}); name one with output=")
            found[model] = self._scorings[model].update(
                truth, predicted, roles.weights(rows), roles.groups(rows), part.start
            )
        assert count(rows) == part.stop - part.start
        return Tallied(name, found, spent)

    def _read(self, name: str, part: Part) -> Rows:
        harmless = all(predicting.changes_nothing for predicting in self._predicting.values())
        source = self._sources[name]
        return (source.view if harmless else source.read)(part.start, part.stop)


def _parts(predicting: Predicting) -> dict[str, Any]:
    return predicting.__tenfold_parts__()
