"""scikit-learn estimators, and all that keep its conventions: XGBoost's, LightGBM's, tenfold's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy

from tenfold.errors import BadCall
from tenfold.models import nesting
from tenfold.models.model import Model, Predict, packed
from tenfold.models.nesting import Outputs, Rows
from tenfold.work import parcel
from tenfold.work.outcome import shorten

METHODS = ("predict", "predict_proba", "decision_function", "transform")
"""What `output` may be; the first where it is not given. Several, joined by a +, come as a dict."""


class EstimatorModel(Model):
    """Holds a parcel of the estimator."""

    modules = ("sklearn",)

    def load(self) -> Predict:
        # Its own copy: code of some estimators refuses arrays that cannot be written to.
        return _Running(parcel.unpack(bytearray(self.content)), _methods(self.output))

    def describe(self) -> str:
        return f"a scikit-learn estimator ({self.output or METHODS[0]})"


def is_estimator(value: Any) -> bool:
    """Whether it keeps the conventions; found without importing scikit-learn."""
    return not isinstance(value, type) and hasattr(value, "fit") and any(hasattr(value, name) for name in METHODS)


def of_live(estimator: Any, output: str | None) -> EstimatorModel:
    faults = []
    has = [name for name in METHODS if hasattr(estimator, name)]
    if not set(_methods(output)) <= set(has):
        told = repr(output or METHODS[0])
        faults.append(f"output={told}: {type(estimator).__name__} has {', '.join(map(repr, has))}; give one of them")
    if not _is_fitted(estimator):
        faults.append(f"model={shorten(estimator)}: not fitted yet; call its fit first")
    if faults:
        raise BadCall("; ".join(faults))
    made = EstimatorModel(packed(estimator, "an estimator"), output).known_by(model=estimator, kind=type(estimator))
    is_by_name = hasattr(estimator, "feature_names_in_")
    return made.taking(None if is_by_name else getattr(estimator, "n_features_in_", None))


def _methods(output: str | None) -> list[str]:
    return (output or METHODS[0]).split("+")


def _is_fitted(estimator: Any) -> bool:
    """What scikit-learn says of its own; others, which it cannot judge, are believed to be."""
    if not any(kind.__module__ == "sklearn.base" for kind in type(estimator).__mro__):
        return True
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


class _Running:
    """One of its methods, or several."""

    fixed = False

    def __init__(self, estimator: Any, methods: list[str]) -> None:
        self._methods = {name: getattr(estimator, name) for name in methods}
        self._texts = _text_type(getattr(estimator, "classes_", None))
        self._columns = getattr(estimator, "feature_names_in_", None)
        # It was fitted with a table, whose columns may have another order.
        self.by_name: bool | None = self._columns is not None

    def __call__(self, rows: Rows) -> Outputs:
        if isinstance(rows, Mapping):
            rows = _frame(rows, self._columns)
        found = {name: self._settled(method(rows)) for name, method in self._methods.items()}
        return found if len(found) > 1 else next(iter(found.values()))

    def _settled(self, found: Any) -> Outputs:
        if self._texts is not None and found.dtype.kind == "O":
            found = found.astype(self._texts)
        return nesting.settled(found.toarray() if hasattr(found, "toarray") else found)


def _text_type(classes: Any) -> Any:
    """The type of NumPy's own that holds all labels, where they are Python's texts; so it is one for all batches."""
    labels = classes.tolist() if isinstance(classes, numpy.ndarray) else [None]
    return numpy.array(labels).dtype if all(isinstance(label, str) for label in labels) else None


def _frame(rows: Mapping[str, Any], names: Any) -> Any:
    if names is None:
        raise BadCall(
            f"model: it was fitted with an array, and the rows that it is given have the columns {', '.join(rows)}, "
            "which are not all numbers, one a row each. Say which go in: inputs=[...]"
        )
    import pandas

    missing = [name for name in names if name not in rows]
    if missing:
        raise BadCall(
            f"model: it was fitted with the columns {', '.join(names)}; of these, the rows that it is given have no "
            f"{', '.join(missing)}. Give them, or say which columns go in: inputs=[...]"
        )
    return pandas.DataFrame({name: rows[name] for name in names})
