"""scikit-learn estimators, and all that keep its conventions: XGBoost's, LightGBM's, tenfold's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenfold.errors import BadCall
from tenfold.models import nesting
from tenfold.models.model import Model, Predict, packed
from tenfold.models.nesting import Outputs, Rows
from tenfold.work import parcel
from tenfold.work.outcome import shorten

METHODS = ("predict", "predict_proba", "decision_function", "transform")
"""What `output` may be; the first where it is not given."""


class EstimatorModel(Model):
    """Holds a parcel of the estimator."""

    modules = ("sklearn",)

    def load(self) -> Predict:
        # Its own copy: code of some estimators refuses arrays that cannot be written to.
        return _Running(parcel.unpack(bytearray(self.content)), self.output or METHODS[0])

    def describe(self) -> str:
        return f"a scikit-learn estimator ({self.output or METHODS[0]})"


def is_estimator(value: Any) -> bool:
    """Whether it keeps the conventions; found without importing scikit-learn."""
    return not isinstance(value, type) and hasattr(value, "fit") and any(hasattr(value, name) for name in METHODS)


def of_live(estimator: Any, output: str | None) -> EstimatorModel:
    faults = []
    has = [name for name in METHODS if hasattr(estimator, name)]
    wanted = output or METHODS[0]
    if wanted not in METHODS or not hasattr(estimator, wanted):
        faults.append(
            f"output={wanted!r}: {type(estimator).__name__} has {', '.join(map(repr, has))}; give one of them"
        )
    if not _is_fitted(estimator):
        faults.append(f"model={shorten(estimator)}: not fitted yet; call its fit first")
    if faults:
        raise BadCall("; ".join(faults))
    return EstimatorModel(packed(estimator, "an estimator"), output).known_by(model=estimator, kind=type(estimator))


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
    """One of its methods."""

    fixed = False

    def __init__(self, estimator: Any, method: str) -> None:
        self._method = getattr(estimator, method)
        self._columns = getattr(estimator, "feature_names_in_", None)
        self.by_name = self._columns is not None  # it was fitted with a table, whose columns may have another order

    def __call__(self, rows: Rows) -> Outputs:
        if isinstance(rows, Mapping) and self._columns is not None:
            rows = _frame(rows, self._columns)
        found = self._method(rows)
        return nesting.settled(found.toarray() if hasattr(found, "toarray") else found)


def _frame(rows: Mapping[str, Any], names: Any) -> Any:
    import pandas

    missing = [name for name in names if name not in rows]
    if missing:
        raise BadCall(
            f"model: it was fitted with the columns {', '.join(names)}; of these, the rows that it is given have no "
            f"{', '.join(missing)}. Give them, or say which columns go in: inputs=[...]"
        )
    return pandas.DataFrame({name: rows[name] for name in names})
