"""From what a caller says to a metric: names, objects of this room, and metrics of others."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from typing import Any, get_args

import numpy

from tenfold.errors import BadCall
from tenfold.metrics import counts, probabilities, regression
from tenfold.metrics.foreign import adapted
from tenfold.metrics.labels import classes_array
from tenfold.metrics.port import Array, Family
from tenfold.metrics.ranking import Ranking

Make = Callable[[str, Array | None, bool], Family]

ELSEWHERE = {
    "accuracy_score": "accuracy",
    "acc": "accuracy",
    "balanced_accuracy_score": "balanced_accuracy",
    "top_k_accuracy_score": "top_5",
    "top_k": "top_5",
    "precision_score": "precision",
    "recall_score": "recall",
    "f1_score": "f1",
    "confusion_matrix": "confusion",
    "brier_score_loss": "brier",
    "brier_score": "brier",
    "crossentropy": "log_loss",
    "cross_entropy": "log_loss",
    "mean_squared_error": "mse",
    "root_mean_squared_error": "rmse",
    "mean_absolute_error": "mae",
    "mean_absolute_percentage_error": "mape",
    "r2_score": "r2",
    "explained_variance_score": "explained_variance",
    "roc_auc_score": "roc_auc",
    "auc": "roc_auc",
    "roc_auc_ovr": "roc_auc",
    "average_precision_score": "average_precision",
    "calibration_curve": "calibration",
}
"""What others call them, for messages."""


def _share(share: counts.Share, average: counts.Average) -> Make:
    return lambda name, classes, _: counts.Shares(name, share, average, classes)


def _shares() -> dict[str, Make]:
    return {
        share if average == "binary" else f"{share}_{average}": _share(share, average)
        for share in get_args(counts.Share)
        for average in get_args(counts.Average)
    }


MAKERS: dict[str, Make] = {
    "accuracy": lambda name, classes, _: counts.Accuracy(name, classes),
    "balanced_accuracy": lambda name, classes, _: counts.BalancedAccuracy(name, classes),
    **_shares(),
    "confusion": lambda name, classes, _: counts.Confusion(name, classes),
    "log_loss": lambda name, classes, _: probabilities.LogLoss(name, classes),
    "brier": lambda name, classes, _: probabilities.Brier(name, classes),
    "calibration": lambda name, classes, _: probabilities.Calibration(name, 5, classes),
    "roc_auc": lambda name, classes, approximate: Ranking("roc_auc", classes, approximate),
    "average_precision": lambda name, classes, approximate: Ranking("average_precision", classes, approximate),
    "mse": lambda name, *_: regression.MeanError(name, regression.squared),
    "rmse": lambda name, *_: regression.MeanError(name, regression.squared, numpy.sqrt),
    "mae": lambda name, *_: regression.MeanError(name, regression.absolute),
    "mape": lambda name, *_: regression.MeanError(name, regression.relative),
    "r2": lambda name, *_: regression.Explained(name, centred=False),
    "explained_variance": lambda name, *_: regression.Explained(name, centred=True),
}
"""Name -> how it is made, from its name, the classes of the columns, and whether it may be approximate."""

NUMBERED: dict[str, Callable[[str, int, Array | None], Family]] = {
    "top": probabilities.TopK,
    "calibration": probabilities.Calibration,
}
"""The same for names with a number after them: top_5, calibration_10."""


def names() -> list[str]:
    """Every name that is accepted; top_5 and calibration_10 with any number."""
    return [*MAKERS, "top_5", "calibration_10"]


def metric(
    what: Any, *, name: str | None = None, classes: Sequence[Any] | Array | None = None, approximate: bool = False
) -> Family:
    """The metric that a name stands for, or an object that is one, made ready for scoring.

    name         what its score is called, instead of its own name
    classes      the label of each predicted column, where the labels in the truth do not say that
    approximate  round scores for roc_auc and average_precision, which then need little memory and have a bound
    """
    if isinstance(what, Family):
        return what
    if isinstance(what, str):
        made = _named(what, classes_array(classes), approximate)
        made.name = name or what
        return made
    name = name or str(getattr(what, "name", None) or getattr(what, "__name__", None) or type(what).__name__)
    if isinstance(what, type):
        raise BadCall(f"metric {what.__name__} is a class: give an object of it, {what.__name__}()")
    found = adapted(what, name)
    if found is None:
        raise BadCall(_refused(what, name))
    return found


def _named(name: str, classes: Array | None, approximate: bool) -> Family:
    if name in MAKERS:
        return MAKERS[name](name, classes, approximate)
    numbered = re.fullmatch(r"(top|calibration)_([1-9][0-9]*)", name)
    if numbered:
        return NUMBERED[numbered[1]](name, int(numbered[2]), classes)
    near = [ELSEWHERE[name]] if name in ELSEWHERE else difflib.get_close_matches(name, names(), 3)
    meant = f"; did you mean {' or '.join(repr(each) for each in near)}?" if near else "."
    raise BadCall(f"metric {name!r} is not known{meant} Accepted are {', '.join(names())}, and objects that merge")


def _refused(what: Any, name: str) -> str:
    known = getattr(what, "_score_func", what)  # of a scikit-learn scorer
    ours = ELSEWHERE.get(getattr(known, "__name__", ""), getattr(known, "__name__", ""))
    if ours in names():
        return f"metric {name}: a function has no state to merge, so it cannot be scored in parts; use {ours!r} instead"
    return (
        f"metric {what!r} has no state to merge, so it cannot be scored in parts; accepted are "
        f"the names {', '.join(names())}, an object with init, update, merge and result, "
        f"a Keras metric, or one with update, compute and merge_state"
    )
