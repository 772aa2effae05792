"""What a model is here: made and checked by the caller, pickled to workers, loaded there once.

    opening.model(value) -> Model ──pickled──> loaded(model) -> Predict ──> batching.batched(predict, rows, size)
          the caller                           once in a process            any number of times, from any thread

A `Model` holds bytes, never the framework's own object, so that whoever passes it on needs no framework.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, Self

import numpy

from tenfold.errors import BadCall
from tenfold.models.nesting import Outputs, Rows
from tenfold.work import parcel
from tenfold.work.outcome import shorten

KEPT = 4
"""How many models a process keeps loaded, unless a task takes turns with more: a worker is used again by later calls,
whose models are others."""


class Predict(Protocol):
    """A model that is ready, in this process.

    Called from any thread, at any time. What it gives for a row does not depend on the rows beside it, nor on how many
    they are, beyond the rounding of floats: a library may add in another order for another size of batch.
    """

    fixed: bool
    """It is compiled for a size of batch, so that all batches are to have one size."""
    by_name: bool | None
    """Whether it takes columns of a table as a dict, or as one array; None where it may take either."""

    def __call__(self, rows: Rows) -> Outputs:
        """Outputs in the order of the rows. They may point into memory of the framework: copy what is to be changed."""


@dataclass(frozen=True)
class Model(ABC):
    """The contract of a kind of model."""

    content: parcel.Buffer = field(repr=False, compare=False)
    """The model in a format of its own. In a worker it may lie in memory that all workers of a machine share."""
    output: str | None = None
    """Which of its outputs, or which of its methods, is asked for."""
    digest: str = field(default="", kw_only=True)
    """Of its kind, its content and its output; made here. Models of one digest are the same. The same model may have
    another one in another interpreter, where its classes come from a script: what identifies it there are its parts."""

    modules: ClassVar[tuple[str, ...]] = ()
    """What a worker imports for it: a nursery may do so ahead."""
    one_form: ClassVar[bool] = False
    """What it gives has one type and shape, whatever the rows: nobody has to wait for what comes of the first ones."""

    def __post_init__(self) -> None:
        if not self.digest:
            found = hashlib.blake2b(repr((type(self).__name__, self.output)).encode(), digest_size=16)
            found.update(self.content)
            object.__setattr__(self, "digest", found.hexdigest())

    @property
    def changes_nothing(self) -> bool:
        """It never writes into the rows that it is given, so that they may be where they lie in a file."""
        return False

    @abstractmethod
    def load(self) -> Predict:
        """Make it ready; called in a worker, by `loaded` alone."""

    @abstractmethod
    def describe(self) -> str:
        """For people: "a Keras model"."""

    def known_by(self, **parts: Any) -> Self:
        """Remember, in the caller only, what identifies it in every interpreter."""
        object.__setattr__(self, "_parts", parts)
        return self

    def taking(self, width: int | None) -> Self:
        """Remember, in the caller only, how many numbers a row of its input has; None where it takes no such rows."""
        object.__setattr__(self, "_width", width)
        return self

    def check(self, inputs: Any) -> None:
        """BadCall for rows that it does not take, as far as that is known before it is loaded."""
        width = vars(self).get("_width")
        if width is not None and isinstance(inputs, numpy.ndarray) and inputs.ndim == 2 and inputs.shape[1] != width:
            raise BadCall(
                f"model: {self.describe()} that takes rows of {width} numbers, and the source has rows of "
                f"{inputs.shape[1]}; say which columns of a table go in: inputs=[...]"
            )

    def __tenfold_parts__(self) -> dict[str, Any]:
        """What a run that continues compares."""
        return {"output": self.output, **vars(self).get("_parts", {"model": self.digest})}

    def __reduce_ex__(self, protocol: Any) -> Any:
        # As a buffer it travels beside the pickle, and is mapped by all workers of a machine instead of copied.
        content = pickle.PickleBuffer(self.content) if protocol >= 5 else bytes(self.content)
        return _again, (type(self), content, self.output, self.digest)


def _again(kind: type[Model], content: parcel.Buffer, output: str | None, digest: str) -> Model:
    return kind(content, output, digest=digest)


def packed(value: object, kind: str) -> bytes:
    """A pickle of a model; refuses what cannot travel."""
    try:
        return parcel.pack(value).to_bytes()
    except Exception as error:
        raise BadCall(
            f"model={shorten(value)}: {kind} that cannot be sent to a worker: {type(error).__name__}: {error}. Make "
            "what cannot travel (open files, locks, connections) inside the model when it is first called"
        ) from error


class _Loaded:
    """The models of this process. Two threads never load the same one; they may load two at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: OrderedDict[str, _Place] = OrderedDict()

    def get(self, model: Model, among: int) -> Predict:
        with self._lock:
            place = self._places.setdefault(model.digest, _Place())
            self._places.move_to_end(model.digest)
            while len(self._places) > max(KEPT, among):
                self._places.popitem(last=False)
        with place.lock:
            if place.predict is None:
                place.predict = model.load()
            return place.predict


class _Place:
    """Where a model is, or comes to be."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.predict: Predict | None = None


_process = _Loaded()


def loaded(model: Model, among: int = 1) -> Predict:
    """The model, ready; loaded at the first call in this process. `among`: of how many that a task takes turns with."""
    return _process.get(model, among)


def _forget() -> None:
    """A forked process has none of its parent's threads, so TensorFlow and JAX would wait for ever in it."""
    global _process
    _process = _Loaded()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
