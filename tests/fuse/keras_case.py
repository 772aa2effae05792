"""What Keras models are made of, one feature a case: a model, its data, how it is trained, and who is in the group.

The tests read the names only; the models are built by `keras_parity.py`, in processes of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

ROWS = 80
"""60 to train and 20 to validate: neither is a whole number of batches of 16."""
BATCH = 16
EPOCHS = 3
CROSSENTROPY = "sparse_categorical_crossentropy"
RATES = (3e-3, 1e-2, 2e-2)

Params = dict[str, Any]


class _Keras:
    """Keras, imported when a model is built: pytest's own process does without."""

    def __getattr__(self, name: str) -> Any:
        import keras

        return getattr(keras, name)


keras: Any = _Keras()


@dataclass(frozen=True, slots=True)
class Case:
    """One comparison."""

    build: Callable[..., Any]
    """Makes a model from parameters."""
    items: Sequence[Params]
    """The models of the group."""
    data: Callable[[], tuple[Any, ...]]
    """(x, y) or (x, y, sample_weight)."""
    options: Callable[[], dict[str, Any]]
    """For `Fit`, beside epochs and batch size."""
    groups: int = 1
    """How many programs the models are."""
    at_a_time: int | None = None
    """Models in a chunk; None for as many as there are."""
    every: bool = False
    """Whether each model is compared; otherwise the first and the last, because alone each one is compiled again."""
    hand: Callable[..., Any] | None = None
    """Builds the same model for training by hand, where `build` leaves something to `Fit`."""
    atol: float = 1e-5
    """Absolute tolerance of weights and histories."""


CASES: dict[str, Case] = {}


def items(**lists: Sequence[Any]) -> list[Params]:
    """Three models with different seeds and rates; `lists` have a value for each."""
    own = [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)] or [{}] * len(RATES)
    return [{"seed": 11 + n, "lr": rate, **more} for n, (rate, more) in enumerate(zip(RATES, own, strict=True))]


def case(
    name: str,
    data: Callable[[], tuple[Any, ...]] | None = None,
    who: Sequence[Params] | None = None,
    options: Callable[[], dict[str, Any]] | None = None,
    **settings: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add a case for the function that builds its model; a function may have several."""

    def add(build: Callable[..., Any]) -> Callable[..., Any]:
        assert name not in CASES
        chosen = options or (lambda: {"validation": 0.25})
        settings.setdefault("every", name.startswith(("how", "rows", "stopping")))
        CASES[name] = Case(build, who or items(), data or table, chosen, **settings)
        return build

    return add


# -- data -------------------------------------------------------------------------------------------------------------


def draws() -> numpy.random.Generator:
    return numpy.random.default_rng(5)


def columns(rows: int = ROWS) -> numpy.ndarray:
    return draws().normal(size=(rows, 6)).astype("float32")


def classes(x: numpy.ndarray) -> numpy.ndarray:
    """Three classes that can be learned, with some noise."""
    flat = x.reshape(len(x), -1)
    noise = numpy.random.default_rng(6).normal(size=len(x), scale=0.3)
    return numpy.digitize(flat[:, 0] + flat[:, 1] + noise, (-0.7, 0.7))


def table() -> tuple[Any, ...]:
    """Numbers and a class."""
    return columns(), classes(columns())


def one_hot() -> tuple[Any, ...]:
    """Numbers and a class, as three columns."""
    return columns(), numpy.eye(3, dtype="float32")[classes(columns())]


def yes_or_no() -> tuple[Any, ...]:
    return columns(), (classes(columns()) > 0).astype("float32")[:, None]


def amounts() -> tuple[Any, ...]:
    """Numbers and a number, in float64 as users often have them."""
    x = columns()
    return x.astype("float64"), (x[:, 0] - 0.5 * x[:, 1] * x[:, 2] + 0.1 * draws().normal(size=ROWS))[:, None]


def few_amounts() -> tuple[Any, ...]:
    """Whole batches, for training alone."""
    return tuple(array[:48] for array in amounts())


def weighted() -> tuple[Any, ...]:
    return *table(), draws().uniform(0.2, 3.0, ROWS)


def images() -> tuple[Any, ...]:
    x = draws().normal(size=(ROWS, 6, 6, 1)).astype("float32")
    return x, classes(x)


def series() -> tuple[Any, ...]:
    x = draws().normal(size=(ROWS, 5, 3)).astype("float32")
    return x, classes(x)


def words() -> tuple[Any, ...]:
    """Sentences of whole numbers; 0 fills up the short ones."""
    x = draws().integers(1, 12, size=(ROWS, 5))
    x[numpy.arange(5) >= draws().integers(2, 6, size=(ROWS, 1))] = 0
    return x, (x[:, 0] > 6).astype(int)


def tags() -> tuple[Any, ...]:
    """A class for every word."""
    x, _ = words()
    return x, x % 3


def two_inputs() -> tuple[Any, ...]:
    x, y = table()
    return {"left": x[:, :4], "right": x[:, 4:].astype("float64")}, y


def two_outputs() -> tuple[Any, ...]:
    x, y = table()
    return x, {"kind": y, "amount": x[:, :1] * 2}


def whole(data: Callable[[], tuple[Any, ...]]) -> Callable[[], tuple[Any, ...]]:
    """The same in whole batches, 48 rows and 16: for what has nothing to do with their sizes. Half the compilations."""
    return lambda: tuple(
        {name: array[:64] for name, array in part.items()} if isinstance(part, dict) else part[:64] for part in data()
    )


# -- models -----------------------------------------------------------------------------------------------------------


def sequential(
    *layers: Any,
    lr: Any = 0.01,
    shape: tuple[int, ...] | None = (6,),
    optimizer: Any = None,
    loss: Any = CROSSENTROPY,
    metrics: Sequence[Any] = (),
) -> Any:
    """A compiled stack of layers; three classes come out unless the layers say otherwise."""
    model = keras.Sequential([*([] if shape is None else [keras.Input(shape)]), *layers])
    model.compile(optimizer or keras.optimizers.Adam(lr), loss, metrics=list(metrics))
    return model


def dense(units: int = 5, activation: Any = "tanh", **settings: Any) -> Any:
    return keras.layers.Dense(units, activation=activation, **settings)


def softmax() -> Any:
    return dense(3, "softmax")
