"""Calls of a search over one of our estimators: all models are trained by as few `Fit`s as can be, then scored here.

    calls ──> lessons: one candidate on one fold each    ──> a Training: parameters, rows, settings
              the rows of all folds, in one table        ──> one Fit and one `map` for all with the same settings
              outputs for the held-out rows come back    ──> scikit-learn's own fit and score finds them ready

No model is built in this process. What cannot be foreseen here, because it would be an error for example, is left to
the estimator's own `fit`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy

from tenfold.errors import BadCall
from tenfold.fuse.result import FitResult
from tenfold.sklearn import placing
from tenfold.sklearn.foreseen import Foreseen
from tenfold.sklearn.forms import Form, OtherForm
from tenfold.sklearn.gathering import Call
from tenfold.sklearn.lessons import Lesson, Lessons
from tenfold.sklearn.placing import Where
from tenfold.sklearn.trained import Known, Trained
from tenfold.sklearn.training import Data, Training

Item = dict[str, Any]
"""Parameters of one model, and its rows."""


def run(calls: Sequence[Call], where: Where) -> list[Any]:
    """What the calls return."""
    lessons = Lessons()
    every = [lessons.of(call) for call in calls]
    alike: dict[tuple[Hashable, Form], list[Lesson]] = {}
    for lesson in every:
        if lesson.training is not None:
            alike.setdefault((lesson.settings, lesson.training.guess()), []).append(lesson)
    for (_, form), some in alike.items():
        _learn(some, form, where)
    return [_scored(lesson) for lesson in every]


def _learn(lessons: Sequence[Lesson], form: Form, where: Where, *, again: bool = True) -> None:
    """Train these, whose models are likely to have this form; those that have another once more."""
    others: dict[Form, list[Lesson]] = {}
    for lesson, (found, seconds) in zip(lessons, _results(lessons, form, where), strict=True):
        if isinstance(found, OtherForm) and again:
            others.setdefault(found.form, []).append(lesson)
        else:
            lesson.foreseen = _foreseen(lesson, found, form, seconds)
    for other, some in others.items():
        _learn(some, other, where, again=False)


def _results(lessons: Sequence[Lesson], form: Form, where: Where) -> list[tuple[FitResult | BaseException, float]]:
    """What became of each, and its share of the time."""
    data, items = _table(lessons)
    try:
        fit = _training(lessons[0]).fit(form, data, outputs=True)
    except BadCall as error:
        return [(error, 0.0)] * len(lessons)
    found: dict[int, tuple[FitResult | BaseException, float]] = {}
    for place, item in enumerate(items):
        try:
            fit.check([item])
        except BadCall as error:
            found[place] = (error, 0.0)
    good = [place for place in range(len(items)) if place not in found]
    if good:
        places = [lessons[place].place for place in good]
        found |= zip(good, placing.every(fit, [items[place] for place in good], where, places), strict=True)
    return [found[place] for place in range(len(items))]


def _table(lessons: Sequence[Lesson]) -> tuple[Data, list[Item]]:
    """The data of all lessons, one below the other where they differ, and each one's rows in it."""
    parts = {lesson.table: _training(lesson).data for lesson in lessons}
    starts = dict(zip(parts, numpy.cumsum([0, *(len(x) for x, _, _ in parts.values())]), strict=False))
    items = []
    for lesson in lessons:
        start = numpy.int32(starts[lesson.table])
        rows = {"rows": start + lesson.train, "output_rows": start + _shown(lesson)}
        items.append({**_training(lesson).params, **rows})
    if len(parts) == 1:
        return next(iter(parts.values())), items
    x, y, weight = zip(*parts.values(), strict=True)
    joined = None if weight[0] is None else numpy.concatenate([w for w in weight if w is not None])
    return (numpy.concatenate(x), numpy.concatenate(y), joined), items


def _shown(lesson: Lesson) -> numpy.ndarray:
    """Rows that a score may be asked for: held-out ones first."""
    if not lesson.call.kwargs.get("return_train_score"):
        return lesson.test
    return numpy.concatenate([lesson.test, lesson.train])


def _foreseen(lesson: Lesson, found: FitResult | BaseException, form: Form, seconds: float) -> Foreseen:
    training = _training(lesson)
    assert lesson.y is not None
    trained: Trained | BaseException
    if isinstance(found, FitResult):
        trained = Trained(found, training.maker(form), training.craft, form, _known(lesson, found.outputs))
    else:
        trained = found
    return Foreseen(training, trained, seconds, lesson.estimator.get_params(deep=False), lesson.y, lesson.train)


def _known(lesson: Lesson, outputs: numpy.ndarray) -> list[Known]:
    x, count = _training(lesson).data[0], len(lesson.test)
    found = [Known(x, lesson.test, outputs[:count])]
    return found if len(outputs) == count else [*found, Known(x, lesson.train, outputs[count:])]


def _training(lesson: Lesson) -> Training:
    assert lesson.training is not None
    return lesson.training


class Told(dict[str, Any]):
    """A candidate, for the lines of `verbose=` alone: scikit-learn sets what it has copied of it, which is nothing."""

    def __deepcopy__(self, memo: Any) -> dict[str, Any]:
        return {}


def _scored(lesson: Lesson) -> Any:
    """What scikit-learn makes of it; the estimator has its parameters already, and its model."""
    if lesson.foreseen is not None:
        lesson.estimator._foreseen = lesson.foreseen
    _, _, y = lesson.call.args
    kwargs: Mapping[str, Any] = {**lesson.call.kwargs, "parameters": Told(lesson.call.kwargs["parameters"])}
    found = lesson.call.function(lesson.subject, lesson.x, y, **kwargs)
    if lesson.foreseen is not None and "fit_time" in found:
        found["fit_time"] = lesson.foreseen.seconds
    return found
