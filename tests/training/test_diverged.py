"""A loss that is not a number ends a training of any kind, with the step and the batch named."""

from __future__ import annotations

import re
from typing import Any

import nets
import numpy
import pytest

import tenfold
from tenfold.errors import Diverged, TasksFailed

BAD = 75
"""A row of the third batch of 32."""
X = nets.X.copy()
X[BAD, 4] = numpy.nan


@pytest.mark.parametrize(
    "how",
    [
        {"how": "synchronous"},
        {"how": "asynchronous", "average_every": 2},
        {"how": "sharded"},
        {"how": "sharded", "mesh": (1, 2), "layout": {"0.weight": ("model", None)}},
        {"how": "sharded", "stages": 2},
    ],
    ids=str,
)
def test_the_step_and_the_batch_are_named(how: dict[str, Any]) -> None:
    said = train(how)
    assert re.search(r"Diverged: the loss is nan at step 2 \(epoch 0, batch 2, rows 64, 65, 66", said), said


def test_asynchronous_names_the_batch() -> None:
    """How many steps were added before it is a matter of time."""
    said = train({"how": "asynchronous"})
    assert re.search(r"Diverged: the loss is nan at step \d \(epoch 0, batch 2, rows 64, 65, 66", said), said


def train(how: dict[str, Any]) -> str:
    """In the order of rows; what is said."""
    fit = tenfold.Fit(nets.build, (X, nets.Y), epochs=2, batch_size=32, shuffle=False)
    with pytest.raises(TasksFailed, match=r"^worker [01] of 2 failed first: Diverged: ") as caught:
        tenfold.train(fit, {"seed": 3}, workers=2, retries=0, progress=False, **how)
    assert isinstance(caught.value.__cause__, Diverged), "not that the other one was abandoned"
    said = str(caught.value)
    assert said.count("Traceback in the worker") == 1
    return said


def test_so_do_weights_after_the_last_step() -> None:
    fit = nets.fit(epochs=1, batch_size=nets.ROWS, validation=None)
    with pytest.raises(TasksFailed, match="weights are not finite after the last of 1 steps"):
        tenfold.train(fit, {"seed": 3, "lr": float("inf")}, workers=1, progress=False)
