"""From calls of a search to lessons: one candidate on one fold each, with everything that training it needs.

A pipeline that ends with one of our estimators is a lesson of that estimator, on what its other steps make of X. They
are fitted here, once for each fold and each choice of their own parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from sklearn.base import clone
from sklearn.metrics._scorer import _BaseScorer, _MultimetricScorer, _PassthroughScorer
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils._indexing import _safe_assign
from sklearn.utils.metaestimators import _safe_split

from tenfold.sklearn.estimator import SETTINGS, Estimator
from tenfold.sklearn.foreseen import Foreseen
from tenfold.sklearn.gathering import Call
from tenfold.sklearn.training import Data, Training

APART = (*(name for name in SETTINGS if name not in ("class_weight", "verbose")), "build", "fit_kwargs")
"""Parameters by which models are trained by different `Fit`s. The others differ from item to item."""
_KNOWN_SCORERS = (_BaseScorer, _MultimetricScorer, _PassthroughScorer)
"""They see an estimator's predictions only, so that it makes no difference whether a pipeline is around it."""


@dataclass(slots=True)
class Lesson:
    """One candidate on one fold."""

    call: Call
    """What scikit-learn would do."""
    subject: Any
    """What is fitted and scored: the estimator, or the pipeline that it is in."""
    estimator: Estimator
    """Ours."""
    x: Any
    """What the subject is fitted and scored on."""
    training: Training | None = None
    """What is to be trained; None where only `fit` itself can say what is wrong."""
    y: numpy.ndarray | None = None
    """Labels or numbers, as the caller has them."""
    settings: Hashable = None
    """Equal for those that one `Fit` can train."""
    table: Hashable = None
    """Equal for those whose data are the same."""
    foreseen: Foreseen | None = None
    """What was trained."""

    @property
    def place(self) -> tuple[int, int]:
        """Which candidate of those that are evaluated now, and which fold."""
        return self.call.kwargs["candidate_progress"][0], self.call.kwargs["split_progress"][0]

    @property
    def train(self) -> numpy.ndarray:
        return _rows(self.call.kwargs["train"])

    @property
    def test(self) -> numpy.ndarray:
        return _rows(self.call.kwargs["test"])


def takes(calls: Sequence[Call]) -> bool:
    """Whether these are fits of our estimators, of a kind that can be foreseen."""
    return all(map(_is_ours, calls))


def _is_ours(call: Call) -> bool:
    function = getattr(call.function, "function", call.function)
    if getattr(function, "__name__", "") != "_fit_and_score":
        return False
    estimator, params = call.args[0], call.kwargs.get("parameters") or {}
    fit_params = set(call.kwargs.get("fit_params") or ())
    if not isinstance(estimator, Pipeline):
        return isinstance(estimator, Estimator) and fit_params <= {"sample_weight"}
    name, last = estimator.steps[-1]
    is_plain = "steps" not in params and "memory" not in params and estimator.memory is None
    return is_plain and not fit_params and isinstance(params.get(name, last), Estimator)


class Lessons:
    """Makes lessons of calls; what several of them share is made once."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Any] = {}
        self._kept: list[Any] = []  # so that no object gets the id of one that is gone

    def of(self, call: Call) -> Lesson:
        """The lesson of one call. The estimator in it, which scikit-learn has cloned for it, gets its parameters."""
        subject, x, y = call.args
        params = call.kwargs.get("parameters") or {}
        subject.set_params(**clone(params, safe=False))
        if not isinstance(subject, Pipeline):
            return self._prepared(Lesson(call, subject, subject, x), params, y, ())
        name, last = subject.steps[-1]
        own = {key.removeprefix(f"{name}__"): value for key, value in params.items() if key.startswith(f"{name}__")}
        own |= {"build": params[name]} if name in params else {}  # another estimator, whatever it builds
        others = {key: value for key, value in params.items() if key != name and not key.startswith(f"{name}__")}
        lesson = Lesson(call, subject, last, x)
        before = (id(call.kwargs["train"]), _key(others, tuple(others)))
        try:
            made = self._once(("steps", *before), lambda: _transformed(subject, x, y, call.kwargs["train"]), params)
        except Exception:  # scikit-learn's own way to it says what is wrong
            return lesson
        seen, as_scored = made
        is_same = as_scored or not call.kwargs.get("return_train_score")
        if is_same and isinstance(call.kwargs.get("scorer"), _KNOWN_SCORERS):
            lesson.subject, lesson.x = last, seen
        return self._prepared(lesson, own, y, before, seen)

    def _prepared(self, lesson: Lesson, params: dict[str, Any], y: Any, before: Hashable, seen: Any = None) -> Lesson:
        x = lesson.x if seen is None else seen
        weight = (lesson.call.kwargs.get("fit_params") or {}).get("sample_weight")
        estimator = lesson.estimator
        try:
            data = self._once(("data", id(x), id(y)), lambda: estimator._checked(x, y, weight, reset=True), (x, y))
            lesson.training, lesson.table = self._training(estimator, data, lesson.train, params, before)
        except Exception:  # its own fit raises it again, where scikit-learn expects that
            return lesson
        lesson.y = data[1]
        training = lesson.training
        classes = None if training.classes is None else tuple(training.classes.tolist())
        weighs = training.data[2] is not None
        lesson.settings = (type(estimator), _key(params, APART), training.problem, classes, weighs)
        return lesson

    def _training(
        self, estimator: Estimator, data: Data, rows: numpy.ndarray, params: dict[str, Any], before: Hashable
    ) -> tuple[Training, Hashable]:
        x, y, weight = data
        by_class = _key(params, ("class_weight", "fit_kwargs", "build"))
        key = ("answers", id(x), rows.tobytes(), by_class)
        answers = self._once(key, lambda: estimator._answers(y, weight, rows=rows), params)
        classes = None if answers.classes is None else tuple(answers.classes.tolist())
        weights = None if answers.weight is None else answers.weight.tobytes()
        return estimator._training(x, answers), (id(x), classes, weights)

    def _once(self, key: Hashable, make: Callable[[], Any], kept: Any) -> Any:
        if key not in self._made:
            self._made[key] = make()
            self._kept.append(kept)
        return self._made[key]


def _transformed(pipeline: Any, x: Any, y: Any, train: Any) -> tuple[Any, bool]:
    """All rows as the last step sees them, when the others were fitted on those of training.

    These are as `fit_transform` made them, which for some (TargetEncoder) is not how they are scored; second, whether
    it is.
    """
    if len(pipeline.steps) == 1:
        return x, True
    steps = clone(pipeline[:-1])
    trained = steps.fit_transform(*_safe_split(pipeline, x, y, train))
    seen = x
    for _, step in steps.steps:
        seen = seen if step in (None, "passthrough") else step.transform(seen)
    scored = _safe_indexing(seen, train)
    if numpy.array_equal(trained, scored):
        return seen, True
    is_table = hasattr(seen, "iloc")
    seen = seen.copy() if is_table else seen.astype(numpy.result_type(seen, trained))  # it may be the caller's own
    _safe_assign(seen, trained, row_indexer=train)
    return seen, numpy.allclose(trained, scored, equal_nan=True)


def _rows(given: Any) -> numpy.ndarray:
    found = numpy.asarray(given)
    return (numpy.flatnonzero(found) if found.dtype.kind == "b" else found).astype(numpy.int32)


def _key(params: dict[str, Any], names: Sequence[str]) -> Hashable:
    """Equal for the same values of these parameters; those that cannot be compared are told apart by what they are."""
    return tuple((name, _mark(params[name])) for name in sorted(names) if name in params)


def _mark(value: Any) -> Hashable:
    return value if isinstance(value, int | float | str | bool | None) else id(value)
