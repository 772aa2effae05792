"""All metrics of one evaluation: `update` in workers, `merge` and `scores` in the caller.

    block ─> update ─> Tally ─┐
    block ─> update ─> Tally ─┴─ merge ─> Tally ─> scores ─> Scores

A tally has one state for each kind of state, not for each metric; the same for every replicate of a bootstrap, and
all of that for every group. Scores do not depend on how rows are cut into blocks.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy

from tenfold.errors import BadCall
from tenfold.metrics.naming import metric
from tenfold.metrics.port import Array, Family, Readings, Reads, Value, weights
from tenfold.metrics.ranking import Ranking
from tenfold.metrics.resampling import drawn, keys
from tenfold.metrics.scores import Scores

LIMIT = 1_000_000
"""Above so many scores in memory, which are 20 MB and 100 while they are merged, those of `roc_auc` and
`average_precision` go to files."""
CELLS = 1 << 21
"""How many weights of replicates are made at once: rows times replicates, 16 MB."""
TAILS = (0.025, 0.975)
"""The interval holds 95 % of the replicates."""


@dataclass(slots=True)
class Tally:
    """The state of an evaluation."""

    rows: int
    """How many it has seen."""
    states: list[Any]
    """One for each kind."""
    replicates: list[Any]
    """The same for the replicates of a bootstrap; None for a kind that has no need of them."""
    groups: dict[Any, Tally] = field(default_factory=dict)
    """Value of the column -> the tally of its rows."""


class Scoring:
    """What is to be scored, and how.

    metrics      names and metric objects, or a dict of them by the names that scores shall have
    by           whether rows come in groups, each of which has scores of its own
    bootstrap    how many replicates there are, for 95 % intervals; 0 for none
    seed         of the bootstrap
    approximate  whether roc_auc and average_precision may be rounded
    classes      the label of each predicted column, where the labels in the truth do not say that
    columns      the same for the scores that come beside predictions
    limit        how many scores may be in memory when `merge` is given a folder
    """

    def __init__(
        self,
        metrics: Any,
        *,
        by: bool = False,
        bootstrap: int = 0,
        seed: int = 0,
        approximate: bool = False,
        classes: Any = None,
        columns: Any = None,
        limit: int = LIMIT,
    ) -> None:
        found, faults = _found(metrics, classes, columns, approximate)
        if not isinstance(bootstrap, int | numpy.integer) or isinstance(bootstrap, bool) or bootstrap < 0:
            faults.append(f"bootstrap={bootstrap!r}: expected how many replicates, such as 1000, or 0 for none")
        elif bootstrap:
            faults += [f"bootstrap={bootstrap}: {each.name} knows no weights" for each in found if not each.weighs]
        if faults:
            raise BadCall("; ".join(dict.fromkeys(faults)))  # each metric has what is wrong with the classes
        self.metrics = [each.for_bootstrap() for each in found] if bootstrap else found
        self.by = by
        self.limit = limit
        self._keys = keys(seed, int(bootstrap))
        kinds = {each.kin: each for each in reversed(self.metrics)}
        self._kinds: list[Family] = list(reversed(kinds.values()))
        places = {kind.kin: place for place, kind in enumerate(self._kinds)}
        self._place = [places[each.kin] for each in self.metrics]

    def init(self) -> Tally:
        """The tally of no rows."""
        return Tally(0, [None] * len(self._kinds), [None] * len(self._kinds))

    def update(
        self,
        truth: Any,
        predicted: Any,
        weight: Any = None,
        groups: Any = None,
        first_row: int = 0,
        *,
        scores: Any = None,
    ) -> Tally:
        """The tally of one block. `first_row` is the number of its first row among all rows.

        `scores`: how sure the model is of each class, where `predicted` does not say that.
        """
        scores = predicted if scores is None else scores
        given = [predicted if kind.reads == "predictions" else scores for kind in self._kinds]
        readings = [kind.read(truth, each, first_row) for kind, each in zip(self._kinds, given, strict=True)]
        rows = len(readings[0].columns[0])
        weight = weights(weight, rows)
        deaf = [each.name for each in self.metrics if not each.weighs]
        if weight is not None and deaf:
            raise BadCall(f"weight: {', '.join(deaf)} knows no weights")
        numbers = numpy.arange(first_row, first_row + rows)
        tally = self._tally(readings, weight, numbers)
        self._refuse(tally)
        for group, places in _grouped(groups, rows) if self.by else ():
            part = [each.take(places) for each in readings]
            tally.groups[group] = self._tally(part, None if weight is None else weight[places], numbers[places])
        return tally

    def merge(self, a: Tally, b: Tally, folder: str | os.PathLike[str] | None = None) -> Tally:
        """The tally of the rows of both; neither is to be used any more. With a folder, memory stays bounded."""
        tally = self._merged(a, b)
        self._refuse(tally)
        return tally if folder is None else self._shed(tally, folder)

    def scores(self, tally: Tally) -> Scores:
        """What it all comes to. Files that `merge` wrote are removed, so this can be asked once."""
        labels = [None if state is None else kind.labels(state) for kind, state in self._pairs(tally)]
        scores = self._scores(tally, labels)
        order = sorted(tally.groups, key=lambda group: (str(type(group)), group) if group is not None else ("", 0))
        scores.groups.update({group: self._scores(tally.groups[group], labels) for group in order})
        self.discard(tally)
        return scores

    def discard(self, tally: Tally) -> None:
        """Remove the files of a tally."""
        for one in (tally, *tally.groups.values()):
            for kind, state in self._pairs(one):
                if isinstance(kind, Ranking) and state is not None:
                    kind.remove(state)

    def _pairs(self, tally: Tally) -> Iterator[tuple[Family, Any]]:
        return zip(self._kinds, tally.states, strict=True)

    def _tally(self, readings: list[Readings], weight: Array | None, rows: Array) -> Tally:
        pairs = list(zip(self._kinds, readings, strict=True))
        replicates = [None] * len(pairs)
        if len(self._keys) and any(kind.sampled for kind in self._kinds):
            step = max(1, CELLS // len(self._keys))
            for start in range(0, len(rows), step):
                part = slice(start, start + step)
                times = drawn(rows[part, None], self._keys[None, :])
                times = times if weight is None else times * weight[part, None]
                drawn_ones = [kind.replicate(each.take(part), times) if kind.sampled else None for kind, each in pairs]
                replicates = self._joined_replicates(replicates, drawn_ones)
        return Tally(len(rows), [kind.gather(each, weight) for kind, each in pairs], replicates)

    def _merged(self, a: Tally, b: Tally) -> Tally:
        a.rows += b.rows
        a.states = self._joined(a.states, b.states)
        a.replicates = self._joined_replicates(a.replicates, b.replicates)
        for group, tally in b.groups.items():
            a.groups[group] = self._merged(a.groups[group], tally) if group in a.groups else tally
        return a

    def _joined(self, a: list[Any], b: list[Any]) -> list[Any]:
        return [kind.merge(one, other) for kind, one, other in zip(self._kinds, a, b, strict=True)]

    def _joined_replicates(self, a: list[Any], b: list[Any]) -> list[Any]:
        return [
            kind.join_replicates(one, other)
            if one is not None and other is not None
            else one
            if other is None
            else other
            for kind, one, other in zip(self._kinds, a, b, strict=True)
        ]

    def _refuse(self, tally: Tally) -> None:
        states = [tally.states[place] for place in self._place]
        reasons = [each.refuse(state) for each, state in zip(self.metrics, states, strict=True) if state is not None]
        faults = [reason for reason in reasons if reason is not None]
        if faults:
            raise BadCall("; ".join(faults))

    def _shed(self, tally: Tally, folder: str | os.PathLike[str]) -> Tally:
        """Put the longer ones of what is in memory in files, where it is too much."""
        held = []
        for one in (tally, *tally.groups.values()):
            for place, (kind, state) in enumerate(self._pairs(one)):
                if isinstance(kind, Ranking) and state is not None and not kind.approximate:
                    held.append((kind.held(state), one, place, kind))
        total = sum(entries for entries, *_ in held)
        for entries, one, place, kind in held:
            if total > self.limit and entries * len(held) >= total:
                one.states[place] = kind.shed(one.states[place], folder)
        return tally

    def _scores(self, tally: Tally, labels: list[Array | None]) -> Scores:
        scores = Scores(tally.rows, {})
        axes: tuple[Any, ...] = ()
        for each, place in zip(self.metrics, self._place, strict=True):
            state, every = tally.states[place], labels[place]
            value = scores.by_name[each.name] = each.result(state, every)
            if state is None:
                continue
            bound, found = each.bound(state, every), each.axes(state, every)
            axes = axes if found is None else tuple(found.tolist())
            if bound is not None:
                scores.bounds[each.name] = bound
            interval = _interval(value, self._values(each, tally, place, every)) if len(self._keys) else None
            if interval is not None:
                scores.intervals[each.name] = interval
        return Scores(scores.rows, scores.by_name, scores.intervals, scores.bounds, axes)

    def _values(self, each: Family, tally: Tally, place: int, labels: Array | None) -> list[Value]:
        if isinstance(each, Ranking) and not each.sampled:
            return list(each.replicates(tally.states[place], labels, self._keys))
        states = tally.replicates[place]
        if states is None:
            return []
        return [each.result(each.of_replicate(states, number), labels) for number in range(len(self._keys))]


def read_by(metrics: Any) -> set[Reads]:
    """What the metrics look at."""
    return {each.reads for each in _found(metrics)[0]}


def _found(
    metrics: Any, classes: Any = None, columns: Any = None, approximate: bool = False
) -> tuple[list[Family], list[str]]:
    """The metrics, and what is wrong with them."""
    asked: Iterable[tuple[str | None, Any]]
    if isinstance(metrics, Mapping):
        asked = metrics.items()
    elif isinstance(metrics, str) or not isinstance(metrics, Iterable):
        asked = [(None, metrics)]
    else:
        asked = [(None, each) for each in metrics]
    found: list[Family] = []
    faults = []
    for name, each in asked:
        try:
            made = metric(each, name=name, classes=classes, approximate=approximate)
            if columns is not None and made.reads != "predictions":
                made = metric(each, name=name, classes=columns, approximate=approximate)
            found.append(made)
        except BadCall as error:
            faults.append(str(error))
    names = [each.name for each in found]
    faults += [
        f"two metrics are called {name}; give a dict of metrics by name" for name in {*names} if names.count(name) > 1
    ]
    if not found and not faults:
        faults.append(f"metrics={metrics!r}: expected at least one")
    return found, faults


def _grouped(groups: Any, rows: int) -> Iterator[tuple[Any, Array]]:
    """Each group, and the places of its rows."""
    found = numpy.asarray([] if groups is None else groups)
    values = (found.astype("M8[us]") if found.dtype == "M8[ns]" else found).tolist()  # Python has no finer dates
    if len(values) != rows:
        raise BadCall(f"groups has {len(values)} values: expected one for each of {rows} rows")
    places: dict[Any, list[int]] = {}
    for place, value in enumerate(values):
        missing = isinstance(value, float) and math.isnan(value)
        places.setdefault(None if missing else value, []).append(place)
    for group, rows_of in places.items():
        yield group, numpy.array(rows_of)


def _interval(value: Value, replicates: list[Value]) -> Any:
    """The percentiles of a number, or of each number of a dict; None for anything else."""
    if isinstance(value, dict):
        if not all(isinstance(each, float | int) for each in value.values()):
            return None
        parts = {key: _interval(each, [one.get(key, math.nan) for one in replicates]) for key, each in value.items()}
        return parts
    if not isinstance(value, float | int):
        return None
    numbers = numpy.array([each for each in replicates if math.isfinite(each)])
    if len(numbers) == 0:
        return math.nan, math.nan
    low, high = numpy.quantile(numbers, TAILS)
    return float(low), float(high)
