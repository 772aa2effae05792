"""What can be measured: a `Fit`, a call of a verb with some arguments missing, or a function of (workers, size)."""

from __future__ import annotations

import contextlib
import functools
import inspect
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, get_args

import numpy

from tenfold.data.beginning import Beginning
from tenfold.data.opening import source as open_source
from tenfold.dispatch.using import use
from tenfold.errors import BadCall
from tenfold.fuse import fit as fits
from tenfold.fuse.columns import leaves
from tenfold.fuse.fit import Fit
from tenfold.journal.fingerprint import name_of
from tenfold.scaling.cells import Setting
from tenfold.verbs import train as training
from tenfold.verbs.evaluate import evaluate
from tenfold.verbs.map import map as map_
from tenfold.verbs.predict import predict
from tenfold.verbs.prepare import prepare
from tenfold.verbs.train import train

KINDS = (
    "a tenfold.Fit, a functools.partial of map, train, prepare, predict or evaluate, or a function of (workers, size)"
)
_OURS = {
    "workers": "measure varies them by its own workers=",
    "engine": "measure varies it by its own engines=",
    "run": "a call that is made again would find its results there, and take no time",
    "fresh": "every call that is measured begins anew",
}
"""What a partial may not say, and why."""


@dataclass(frozen=True, slots=True)
class Done:
    """What one call has done."""

    items: float
    """Samples or items that went through."""
    steps: int | None = None
    """Updates of the weights, where one model was trained."""
    parameters: int | None = None
    """Numbers that are learned, where one model was trained."""


class Measurable(ABC):
    """A task that can be run in any setting."""

    name: str
    """What a person calls it."""
    length: int | None = None
    """The largest size; None where it is not known."""
    hows: tuple[str, ...] = ()
    """Ways that it can be done."""
    how: str | None = None
    """The one that it is done in where none is asked for, if it says so itself."""
    batch: int | None = None
    """Rows of a step, where one model is trained."""
    is_seated: bool = True
    """Its workers have seats of tenfold's, with so many cores each."""

    @abstractmethod
    def run(self, setting: Setting, **options: Any) -> Done:
        """Do it; `options` are those of all verbs: engine, cpus, progress."""


def measurable(task: Any) -> Measurable:
    """The kind of it; BadCall where it is none."""
    if isinstance(task, Fit):
        return Training({"fit": task})
    if isinstance(task, functools.partial) and task.func in _VERBS:
        given = inspect.signature(task.func).bind_partial(*task.args, **task.keywords).arguments
        faults = [f"{name}= in the partial: {why}; leave it out" for name, why in _OURS.items() if name in given]
        if faults:
            raise BadCall(f"task: {'; '.join(faults)}")
        return _VERBS[task.func](given)
    if isinstance(task, functools.partial) and getattr(task.func, "__module__", "").startswith("tenfold.verbs."):
        raise BadCall(f"task: a partial of {name_of(task.func)} cannot be measured; expected {KINDS}")
    if callable(task):
        return Function(task)
    raise BadCall(f"task={task!r}: expected {KINDS}")


class Function(Measurable):
    """Of the caller's own."""

    is_seated = False

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.name = name_of(function)
        try:
            inspect.signature(function).bind(1, 1)
        except TypeError as error:
            raise BadCall(f"task={function!r}: {error}; expected {KINDS}") from error

    def run(self, setting: Setting, **options: Any) -> Done:
        """A number that it returns is how many items went through; the size, where it returns something else.

        What it calls runs on the engine of the setting. How many cores its workers have is its own affair.
        """
        engine = options.get("engine")
        with contextlib.nullcontext() if engine is None else use(engine):
            found = self._function(setting.workers, setting.size)
        is_number = isinstance(found, int | float | numpy.number) and not isinstance(found, bool)
        return Done(float(found) if is_number else setting.size or 1)


class Training(Measurable):
    """One model on many workers."""

    hows = get_args(training.How)

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = dict(given)
        fit = self._fit = _wanted(self._given, "fit", "a tenfold.Fit")
        if not isinstance(fit, Fit):
            raise BadCall(f"fit={fit!r}: expected a tenfold.Fit")
        self.name = f"train of {name_of(fit)}"
        self.length = len(fit.data)
        self.batch = fit.batch_size
        self.how = self._given.get("how")

    def run(self, setting: Setting, **options: Any) -> Done:
        fit = self._fit if setting.size is None else beginning(self._fit, setting.size)
        how = {} if setting.how is None else {"how": setting.how}
        found = train(**{**options, **self._given, "fit": fit, "workers": setting.workers, **how})
        weights = found.weights.values() if isinstance(found.weights, Mapping) else found.weights
        rows = fit.rows_of(None)[0] * found.result.epochs
        return Done(rows, found.updates, sum(int(numpy.size(array)) for array in leaves(tuple(weights))))


class Mapped(Measurable):
    """A function, or many models, over items."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = dict(given)
        self._items: Sequence[Any] = _wanted(self._given, "items", "a list of items")
        self._task = _wanted(self._given, "task", "a function of one item")
        if not isinstance(self._items, Sequence | range | numpy.ndarray):
            raise BadCall(f"items={type(self._items).__name__}: expected a list, of which a part can be taken")
        self.name = f"map of {name_of(self._task)}"
        self.length = len(self._items)
        self.hows = get_args(fits.How) if isinstance(self._task, Fit) else ()

    def run(self, setting: Setting, **options: Any) -> Done:
        items = self._items[: setting.size]
        task = self._task
        if setting.how is not None:
            task = copy(task)
            task.how = setting.how
        map_(**{**options, **self._given, "task": task, "items": items, "workers": setting.workers})
        return Done(len(items))


class Reading(Measurable):
    """A source through a function or a model."""

    def __init__(self, given: Mapping[str, Any], verb: Callable[..., Any]) -> None:
        self._given = dict(given)
        self._verb = verb
        through = _wanted(self._given, "fn" if verb is prepare else "model", "what the samples go through")
        self.name = f"{name_of(verb)} of {name_of(through)}"
        self._source = open_source(_wanted(self._given, "source", "samples"), columns=self._given.pop("columns", None))
        self.length = self._source.length
        if self.length is None:
            kind = type(given["source"]).__name__
            raise BadCall(f"source={kind}: a stream; expected what can be read again: an array, files or a list")

    def run(self, setting: Setting, **options: Any) -> Done:
        source = self._source if setting.size is None else Beginning(self._source, setting.size)
        call = {**options, **self._given, "source": source, "workers": setting.workers}
        if self._verb is evaluate:
            self._verb(**call)
        else:
            with tempfile.TemporaryDirectory(prefix="tenfold-") as folder:
                self._verb(**{**call, "to": folder, "fresh": True})
        return Done(source.length or 0)


_VERBS: dict[Callable[..., Any], Callable[[Mapping[str, Any]], Measurable]] = {
    train: Training,
    map_: Mapped,
    prepare: functools.partial(Reading, verb=prepare),
    predict: functools.partial(Reading, verb=predict),
    evaluate: functools.partial(Reading, verb=evaluate),
}


def beginning(fit: Fit, rows: int) -> Fit:
    """The same job on the first rows."""
    found = copy(fit)
    found.data, found.training = fit.data.take(slice(0, rows)), fit.training.take(slice(0, rows))
    return found


def _wanted(given: Mapping[str, Any], name: str, what: str) -> Any:
    if name not in given:
        raise BadCall(f"task: the partial lacks {name}= ({what})")
    return given[name]
