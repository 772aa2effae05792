"""`tenfold.Fit`: a training job that tenfold understands, so that it can choose how to run it."""

from __future__ import annotations

import copy
import functools
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy

from tenfold.errors import BadCall
from tenfold.fuse import checkpoint, settings
from tenfold.fuse.building import RESERVED, Member, Report, check_takes, member
from tenfold.fuse.columns import Columns, columns, leaves, mapped, split, weighted
from tenfold.fuse.result import FitResult
from tenfold.fuse.stopping import EarlyStopping, adopted
from tenfold.machine.installed import command, version
from tenfold.work import seeds
from tenfold.work.here import Here, here
from tenfold.work.leg import Leg

How = Literal["auto", "fused", "looped", "alone"]

BACKEND = {"KERAS_BACKEND": "jax"}
"""What a worker that trains groups has in its environment, whatever the caller has."""
ONLY_ON_JAX = "only on JAX can models be fused"
"""Ends the reason where a process has Keras on another backend, whose initial weights are other ones."""
SHOWN = 3  # faults, of parameter sets that are all wrong in the same way
MODULES = ("tenfold.fuse.preload",)
"""What its nursery imports."""


class Fit:
    """A model, its data, and how long it is trained. Map it over parameter sets, or call it with one."""

    def __init__(
        self,
        build: Callable[..., Any],
        data: Any,
        *,
        epochs: int,
        batch_size: int = 32,
        validation: Any = None,
        shuffle: bool = True,
        metrics: Sequence[Any] = (),
        callbacks: Sequence[Any] = (),
        class_weight: Mapping[int, float] | None = None,
        outputs: bool = False,
        how: How = "auto",
    ) -> None:
        """`build(**params)` returns a compiled Keras 3 model, or (module, loss, optimizer[, scheduler]) for PyTorch.

        data            (x, y) or (x, y, sample_weight): arrays, memmaps, names of .npy files, dicts of inputs; or a
                        folder with x.npy and y.npy. Files above 1 GiB are streamed
        validation      the share of the last rows to score after each epoch, or data of its own
        shuffle         each model sees the rows in an order of its own, from its seed
        metrics         for PyTorch: "accuracy", or functions of (outputs, targets); for Keras in addition to compile's
        callbacks       tenfold.EarlyStopping or Keras's; models with other callbacks of Keras are trained alone
        class_weight    how much rows count, by class
        outputs         results have what the trained model gives for its validation rows, or its `output_rows`
        how             "auto" chooses; "fused", "looped" and "alone" insist
        """
        self.build = build
        self.epochs: int = _whole(epochs)
        self.batch_size: int = _whole(batch_size)
        self.shuffle = shuffle
        self.metrics = tuple(metrics) if _is_list(metrics) else metrics
        self.outputs = outputs
        self.how: How = how
        self.settings = settings.chosen()
        self.brief = False  # True in a study that gives up most models early
        self.steady = False  # True in a study: the same program, and so the same numbers, however models are grouped
        self._check(validation, callbacks)
        self.data: Columns = columns(data, "data")
        self.training: Columns = weighted(self.data, class_weight)  # scores are not weighted by class, as in Keras
        self.validation = (validation or None) if isinstance(validation, int | float) else None
        self.validation_columns: Columns | None = None
        if validation is not None and not isinstance(validation, int | float):
            self.validation_columns = columns(validation, "validation")
        if self.validation and not all(self.rows_of(None)):
            raise BadCall(f"validation={validation!r}: of {len(self.data)} rows none would be left on one side")
        stoppings = [rule for rule in map(adopted, callbacks) if rule is not None]
        if len(stoppings) > 1:
            raise BadCall("callbacks: more than one EarlyStopping; give one")
        self.stopping: EarlyStopping | None = stoppings[0] if stoppings else None
        self.callbacks = tuple(callback for callback in callbacks if adopted(callback) is None)

    def _check(self, validation: Any, callbacks: Any) -> None:
        faults = []
        if not callable(self.build):
            faults.append(f"build={self.build!r}: expected a function that returns a model")
        for name, value in (("epochs", self.epochs), ("batch_size", self.batch_size)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                faults.append(f"{name}={value!r}: expected a whole number above 0")
        is_number = isinstance(validation, int | float)
        if is_number and (isinstance(validation, bool) or not 0 <= validation < 1):
            faults.append(f"validation={validation!r}: expected a share between 0 and 1, or (x, y)")
        if not isinstance(self.metrics, tuple):
            example = self.metrics if isinstance(self.metrics, str) else "accuracy"
            faults.append(f"metrics={self.metrics!r}: expected a list, such as [{example!r}]")
        if not _is_list(callbacks):
            faults.append(f"callbacks={callbacks!r}: expected a list of them")
        else:
            faults += [
                f"callbacks: {one!r} is none; expected tenfold.EarlyStopping(...) or callbacks of Keras"
                for one in callbacks
                if adopted(one) is None and not hasattr(one, "set_model")
            ]
        for name, value in (("shuffle", self.shuffle), ("outputs", self.outputs)):
            if not isinstance(value, bool | numpy.bool_):
                faults.append(f"{name}={value!r}: expected True or False")
        if self.how not in get_args(How):
            faults.append(f"how={self.how!r}: expected one of {', '.join(map(repr, get_args(How)))}")
        if faults:
            raise BadCall("; ".join(faults))

    # -- running ------------------------------------------------------------------------------------------------

    def __call__(self, params: Mapping[str, Any]) -> FitResult:
        """Train one model in this process, with the framework's own loop; its random numbers are given back."""
        with seeds.restored():
            return self.alone({})(params)

    def together(self, tasks: Sequence[tuple[Here, Any]]) -> list[Any]:
        """Train several at once, in this worker; a failure stands in its own model's place."""
        from tenfold.fuse.together import train

        return train(self, tasks)

    def member(self, item: Any, task: Here) -> Member:
        """One parameter set, or a leg of its training, checked."""
        return self._member(item, task.index, task.seed, lambda epoch, logs: task.report(epoch, **logs))

    def _member(self, item: Any, index: int, seed: int, report: Report) -> Member:
        params = item.params if isinstance(item, Leg) else item
        fault = check_takes(self.build, params) if isinstance(params, Mapping) else None
        if fault is None and isinstance(params, Mapping) and "output_rows" in params and not self.outputs:
            fault = "output_rows: results have outputs only with Fit(outputs=True)"
        if fault is not None:
            raise BadCall(fault)
        found = member(item, index, seed, len(self.data), report)
        if self.validation and not all(self.rows_of(found)):
            count = sum(self.rows_of(found))
            raise BadCall(f"rows: of {count}, validation={self.validation!r} would leave none on one side")
        watched = "" if self.stopping is None else self.stopping.monitor
        if watched.startswith("val_") and not self.rows_of(found)[1]:
            raise BadCall(f"EarlyStopping(monitor={watched!r}): nothing is scored; give validation=, or watch 'loss'")
        return found

    # -- rows ---------------------------------------------------------------------------------------------------

    def training_rows(self, member: Member) -> numpy.ndarray | None:
        """The rows that a model is trained on, where it has its own."""
        if member.rows is None:
            return None
        return member.rows[: self.rows_of(member)[0]]

    def validation_rows(self, member: Member) -> numpy.ndarray:
        """The rows of the data that a model is scored on, where it has its own."""
        if member.validation_rows is not None:
            return member.validation_rows
        rows = member.rows if member.rows is not None else numpy.arange(len(self.data), dtype=numpy.int32)
        return rows[self.rows_of(member)[0] :]

    def own_validation(self, member: Member) -> bool:
        """Whether a model is scored on rows of its own."""
        if member.validation_rows is not None:
            return True
        return member.rows is not None and self.validation is not None

    def rows_of(self, member: Member | None) -> tuple[int, int]:
        """How many rows of the data train a model, and how many score it; None for one without rows of its own."""
        own = None if member is None else member.rows
        count = len(self.data) if own is None else len(own)
        if member is not None and member.validation_rows is not None:
            return count, len(member.validation_rows)
        training, scored = split(count, self.validation or 0.0)
        return training, scored if self.validation_columns is None else len(self.validation_columns)

    def outputs_of(self, member: Member) -> int | None:
        """For how many rows of its own, beside those that score it, its result has outputs."""
        return None if member.output_rows is None else len(member.output_rows)

    # -- for the rest of tenfold ----------------------------------------------------------------------------------

    def __tenfold_parts__(self) -> dict[str, Any]:
        """What identifies it, part by part: for the run's fingerprint, and to find out which libraries it uses."""
        return {
            "build": self.build,
            "data": [_identity(array) for array in leaves(self.training.parts)],
            "validation": self.validation
            if self.validation_columns is None
            else [_identity(array) for array in leaves(self.validation_columns.parts)],
            "epochs": self.epochs,
            "batch_size": self.batch_size,
            "shuffle": self.shuffle,
            "metrics": self.metrics,
            "early stopping": self.stopping,
            "callbacks": [type(callback).__qualname__ for callback in self.callbacks],
            **_own(self.callbacks),
            "how": self.how,
            **({"outputs": True} if self.outputs else {}),  # runs of before there were any can be continued
            **({"settings of frameworks": self.settings} if self.settings else {}),
        }

    def __tenfold_modules__(self, named: set[str]) -> list[str]:
        """What a nursery imports ahead, given the frameworks that `build` names."""
        return _modules(named)

    def finished(self, folder: Path) -> None:
        """Everything is trained: checkpoints are not needed any more."""
        shutil.rmtree(folder / checkpoint.FOLDER, ignore_errors=True)

    def likeness(self, item: Any) -> Any:
        """Equal for models that are likely to be one program: numbers with a fraction seldom change a shape."""
        params = item.params if isinstance(item, Leg) else item
        if not isinstance(params, Mapping):
            return None
        return tuple((name, _likeness(name, params[name])) for name in sorted(map(str, params)) if name != "seed")

    def check(self, items: Sequence[Any]) -> None:
        """Refuse parameter sets that cannot work, all in one message."""
        faults = []
        for index, params in enumerate(items):
            try:
                self._member(params, index, 0, lambda *_: None)
            except BadCall as error:
                faults.append(f"item {index}: {error}" if len(items) > 1 else str(error))
        if faults:
            more = f"; and {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
            raise BadCall("; ".join(faults[:SHOWN]) + more)

    def with_params(self, params: Mapping[str, Any]) -> Fit:
        """The same job, with parameters that all models have."""
        found = copy.copy(self)
        found.build = functools.partial(self.build, **params)
        return found

    def refusal(self, frameworks: Sequence[str]) -> str | None:
        """Why no model can be trained with others, where that is known beforehand."""
        if self.how == "alone":
            return "as asked"
        if "keras" in frameworks and version("jax") is None:
            return f"Keras models are fused by JAX, which is not installed: {command('fuse')}"
        return None

    def variables(self, frameworks: Sequence[str]) -> dict[str, str]:
        """What workers have in their environment."""
        return {} if "torch" in frameworks and "keras" not in frameworks else dict(BACKEND)

    def alone(self, reasons: Mapping[int, str]) -> Alone:
        """The same job, one model at a time."""
        return Alone(self, reasons)

    def received(self, value: Any) -> Any:
        """A result that has come back: it can build its model again."""
        if isinstance(value, FitResult):
            value.build = self.build
            if isinstance(value.weights, list):  # of Keras
                value.example = mapped(lambda array: numpy.array(array[:1]), self.data.x)
        return value

    @property
    def __name__(self) -> str:
        return f"Fit({getattr(self.build, '__name__', type(self.build).__name__)})"

    def __repr__(self) -> str:
        return f"<{self.__name__}: {len(self.data)} rows, {self.epochs} epochs>"


class Alone:
    """A `Fit` whose models are trained one at a time, each by its framework's own loop, in the caller's backend."""

    def __init__(self, fit: Fit, reasons: Mapping[int, str]) -> None:
        self._fit = fit
        self._reasons = dict(reasons)

    def __call__(self, item: Any) -> FitResult:
        from tenfold.fuse import plain

        task = here()
        reason = item.alone if isinstance(item, Leg) else self._reasons.get(task.index)
        return plain.train(self._fit, self._fit.member(item, task), f"alone: {reason}" if reason else "alone")

    def __tenfold_parts__(self) -> dict[str, Any]:
        return self._fit.__tenfold_parts__()


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _whole(value: Any) -> Any:
    """Whole numbers of NumPy's are as good as Python's."""
    return int(value) if isinstance(value, numpy.integer) else value


def _own(callbacks: Sequence[Any]) -> dict[str, Any]:
    """What callbacks do, for the run's fingerprint: their settings, and the code of the user's own."""
    kinds = {f"the class of callback {place}": type(callback) for place, callback in enumerate(callbacks)}
    return {**kinds, **{f"callback {n}": getattr(callback, "__dict__", None) for n, callback in enumerate(callbacks)}}


def _likeness(name: str, value: Any) -> Any:
    if isinstance(value, float | numpy.floating):
        return "a number"
    is_rows = name in RESERVED and value is not None
    return len(value) if is_rows or isinstance(value, numpy.ndarray) else repr(value)


def _modules(named: set[str]) -> list[str]:
    """Not what the caller has imported: its backend is not that of the workers."""
    torch = ["torch", "tenfold.fuse.torch"] if "torch" in named else []
    return torch if torch and "keras" not in named else [*torch, *MODULES]


def _identity(array: Any) -> Any:
    """An array, or for a mapped file what tells that it is the same: reading it all could take minutes."""
    name = getattr(array, "filename", None)
    if array is None or name is None or not os.path.exists(name):
        return array
    found = os.stat(name)
    return str(name), found.st_size, found.st_mtime_ns, array.shape, str(array.dtype), int(array.offset)
