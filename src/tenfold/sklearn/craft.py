"""What differs between the frameworks, in one value: how forms are told, and how a model is used in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy

from tenfold.fuse.result import Weights
from tenfold.sklearn.forms import Form, Problem
from tenfold.sklearn.making import FormOf, Maker

Build = Callable[..., Any]
"""The user's function: parameters -> a model."""
Columns = tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray | None]
"""x, y and weights, as the model takes them."""


class Model(Protocol):
    """One model in this process."""

    model: Any
    """What the framework calls one."""

    def __init__(self, maker: Maker, params: Mapping[str, Any]) -> None:
        """Build it, seeded by its parameters."""

    def put(self, weights: Weights) -> None:
        """Give it these weights."""

    def weights(self) -> Weights:
        """Those that it has now."""

    def outputs(self, x: numpy.ndarray) -> numpy.ndarray:
        """What it gives, with nothing dropped out."""

    def train(self, data: Columns, order: numpy.ndarray, batch_size: int) -> dict[str, float]:
        """One epoch, the rows in this order; returns its loss and metrics."""

    def state(self) -> Any:
        """What training goes on from, beside weights: of the optimizer, and random numbers. Can be pickled."""

    def restore(self, state: Any) -> None:
        """Go on from a state, with the weights of that time."""


@dataclass(frozen=True, slots=True)
class Craft:
    """What one framework needs."""

    framework: str
    """Its name, as it is imported."""
    form_of: FormOf
    """Tells the form of a model that was built."""
    guess: Callable[[set[str], Problem], Form]
    """The likely form, from words in the code of `build`."""
    model: type[Model]
    """How one is used in this process."""
    floats: bool
    """Integers in x have to be made floats for it."""
