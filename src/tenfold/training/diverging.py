"""In a worker: a loss that is not a number ends the training, with the step and the batch named, however it is done.

So do weights that are none after the last step.
"""

from __future__ import annotations

import math

import numpy

from tenfold.errors import Diverged

SHOWN = 8  # row numbers in a message


def check(loss: float, rows: numpy.ndarray, *, epoch: int, batch: int, step: int) -> None:
    """`rows` are those of the whole batch, as the data numbers them; `step` and `batch` count from 0."""
    if math.isfinite(loss):
        return
    shown = ", ".join(map(str, rows[:SHOWN])) + (", ..." if len(rows) > SHOWN else "")
    raise Diverged(
        f"the loss is {loss} at step {step} (epoch {epoch}, batch {batch}, rows {shown}); "
        "try a lower learning rate, or look at these rows"
    )


def check_weights(weights: numpy.ndarray, steps: int) -> None:
    """In the end: of the last step, no loss was seen."""
    if not numpy.isfinite(weights).all():
        raise Diverged(f"weights are not finite after the last of {steps} steps; try a lower learning rate")
