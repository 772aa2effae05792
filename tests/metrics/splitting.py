"""Rows cut into blocks in any way, and states merged in any order: what no score may depend on."""

from __future__ import annotations

import itertools
import pickle
from dataclasses import dataclass
from typing import Any

import numpy
from hypothesis import strategies as st

from tenfold.metrics.port import Family


@dataclass(frozen=True)
class Split:
    """How rows are cut, and which states are merged with which."""

    cuts: list[float]
    seed: int

    def blocks(self, rows: int) -> list[slice]:
        ends = sorted({0, rows, *(int(cut * rows) for cut in self.cuts)})
        blocks = [slice(start, stop) for start, stop in itertools.pairwise(ends)]
        return [*blocks, slice(rows, rows)]  # a block without rows is a block too

    def merged(self, metric: Any, states: list[Any], **options: Any) -> Any:
        rng = numpy.random.default_rng(self.seed)
        states = [pickle.loads(pickle.dumps(state)) for state in states]
        while len(states) > 1:
            one, other = states.pop(rng.integers(len(states))), states.pop(rng.integers(len(states)))
            states.append(metric.merge(one, other, **options))
        return states[0]


SPLITS = st.builds(Split, st.lists(st.floats(0, 1), max_size=6), st.integers(0, 1000))


def scored(metric: Family, split: Split, truth: Any, predicted: Any, weight: Any = None) -> Any:
    """The result of a metric, from blocks."""
    states = [
        metric.update(metric.init(), truth[rows], predicted[rows], None if weight is None else weight[rows])
        for rows in split.blocks(len(truth))
    ]
    return metric.result(split.merged(metric, states))


def near(found: Any, expected: Any) -> None:
    """Equal to 1e-9."""
    numpy.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
