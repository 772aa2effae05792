"""Calls of a search as tasks of `tenfold.map`: for every estimator that is not one of ours.

X, y and whatever else several calls have in common are sent once, not with every task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from tenfold.errors import TaskError
from tenfold.sklearn.calls import Calls, Parts, Shared
from tenfold.sklearn.gathering import Call
from tenfold.sklearn.placing import Where
from tenfold.verbs.map import map  # noqa: A004

TOLD = ("parameters", "split_progress")
"""They stay with their call, to tell it by."""


def run(calls: Sequence[Call], where: Where) -> list[Any]:
    """Make the calls in workers."""
    shared, items = _apart(calls)
    results = map(Calls(shared, _libraries(calls[0])), items, on_error="collect", **where)
    return [_checked(found, call) for found, call in zip(results, calls, strict=True)]


def _apart(calls: Sequence[Call]) -> tuple[list[Any], list[Parts]]:
    """What is the same object in several calls, and the calls without it."""
    seen = Counter(id(value) for call in calls for value in _values(call))
    places: dict[int, Shared] = {}
    shared: list[Any] = []

    def split(value: Any) -> Any:
        if seen[id(value)] == 1 or isinstance(value, int | float | str | tuple | None):
            return value
        if id(value) not in places:
            places[id(value)] = Shared(len(shared))
            shared.append(value)
        return places[id(value)]

    def parts(call: Call) -> Parts:
        kwargs = {n: v if n in TOLD else split(v) for n, v in _kwargs(call).items()}
        return Parts(split(call.function), [split(value) for value in call.args], kwargs)

    return shared, [parts(call) for call in calls]


def _values(call: Call) -> Iterator[Any]:
    yield call.function
    yield from call.args
    yield from _kwargs(call).values()


def _kwargs(call: Call) -> dict[str, Any]:
    """Without the search itself: only callbacks of scikit-learn want it, and it may hold what cannot be sent."""
    with_callbacks = call.kwargs.get("callback_ctx") is not None
    return {name: value for name, value in call.kwargs.items() if name != "caller" or with_callbacks}


def _libraries(call: Call) -> list[Any]:
    """Objects of the libraries that a worker needs, to be imported ahead: estimators in estimators, too."""
    estimator = call.args[0]
    nested = estimator.get_params().values() if hasattr(estimator, "get_params") else ()
    return [getattr(call.function, "function", call.function), estimator, *(v for v in nested if hasattr(v, "fit"))]


def _checked(found: Any, call: Call) -> Any:
    """A call that raised raises here; one whose worker died is a fit that failed, as `error_score` has it."""
    if not isinstance(found, TaskError):
        return found
    if found.__cause__ is not None:
        raise found.__cause__
    error_score = call.kwargs.get("error_score", "raise")
    if error_score == "raise":
        raise found
    scorer = call.kwargs.get("scorer")
    names = getattr(scorer, "_scorers", None)
    scores = error_score if names is None else dict.fromkeys(names, error_score)
    failed = {"fit_error": str(found), "test_scores": scores, "fit_time": 0.0, "score_time": 0.0}
    failed["n_test_samples"] = len(call.kwargs["test"])
    return failed | ({"train_scores": scores} if call.kwargs.get("return_train_score") else {})
