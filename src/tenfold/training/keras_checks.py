"""Which Keras models can be divided among workers, and how their losses and metrics add up. Told before training."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tenfold.errors import BadCall
from tenfold.fuse.columns import Columns, mapped

if TYPE_CHECKING:
    from tenfold.fuse.fit import Fit

OWN_STEPS = ("train_step", "test_step", "compute_loss", "compute_metrics")
MEANS = ("sum_over_batch_size", "mean")
ADDITIVE = (
    "reduction_metrics.Mean",
    "reduction_metrics.Sum",
    "confusion_metrics._ConfusionMatrixConditionCount",
    "confusion_metrics.Precision",
    "confusion_metrics.Recall",
    "confusion_metrics.SensitivitySpecificityBase",
    "confusion_metrics.AUC",
    "f_score_metrics.FBetaScore",
    "iou_metrics._IoUBase",
    "regression_metrics.R2Score",
)
"""Classes of Keras whose state is a sum over rows, and so are those that inherit from them."""


def check(fit: Fit, model: Any) -> None:
    """Refuse a model, already built, that several workers cannot train; all faults in one message."""
    faults = [*_own_code(model), *_losses(model), *_metrics(model)]
    if fit.callbacks:
        names = ", ".join(type(callback).__name__ for callback in fit.callbacks)
        faults.append(f"callbacks: {names} would see one worker's part; expected none but EarlyStopping")
    if faults:
        raise BadCall(
            f"{'; '.join(faults)}. tenfold.map trains such a model in one process, tenfold.launch runs a loop of your "
            "own on several"
        )


def sums_rows(model: Any) -> bool:
    """Whether the loss is a sum over rows rather than a mean."""
    return any(reduction == "sum" for _, reduction in _reductions(model))


def by_share(model: Any, sample: Columns) -> list[Any]:
    """Metrics that are one number for a whole batch, a mean over its rows, and so count by the share of it."""
    return [metric for metric, shape in _shapes(model, sample) if shape == ()]


def _own_code(model: Any) -> list[str]:
    import keras

    kind = type(model)
    faults = [
        f"{kind.__name__} has a {name} of its own, which does not say how it is divided"
        for name in OWN_STEPS
        if getattr(kind, name) is not getattr(keras.Model, name)
    ]
    if model.run_eagerly:
        faults.append("the model is compiled with run_eagerly=True; expected False, because steps are compiled")
    return faults


def _reductions(model: Any) -> list[tuple[str, str | None]]:
    entries = getattr(model._compile_loss, "_flat_losses", None) or ()
    return [(entry.loss.name, getattr(entry.loss, "reduction", MEANS[0])) for entry in entries]


def _losses(model: Any) -> list[str]:
    found = _reductions(model)
    faults = [
        f"the loss {name} has reduction={reduction!r}, which divides by what one worker does not know; "
        'expected "sum_over_batch_size" or "sum"'
        for name, reduction in found
        if reduction not in (*MEANS, "sum")
    ]
    kinds = {reduction == "sum" for _, reduction in found}
    if not faults and len(kinds) > 1:
        faults.append("some of the losses are sums and some are means; expected the same reduction for all of them")
    return faults


def _metrics(model: Any) -> list[str]:
    additive = tuple(_class(name) for name in ADDITIVE)
    faults = []
    for metric in flat_metrics(model):
        along = getattr(metric, "_fn_kwargs", {}).get("axis", -1)
        if not isinstance(metric, additive):
            why = "has a state that does not add up over workers; expected a mean, a sum or counts of rows"
        elif along == 0:
            why = "compares rows with each other (axis=0), and a worker has only some of them"
        else:
            continue
        faults.append(f"the metric {metric.name} ({type(metric).__name__}) {why}")
    return faults


def flat_metrics(model: Any) -> list[Any]:
    """All metrics, in the order of the model's metric variables."""
    found: list[Any] = []
    for metric in model.metrics:
        found += metric.metrics if metric is model._compile_metrics else [metric]
    return found


def _class(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(f"keras.src.metrics.{module}"), attribute)


def _shapes(model: Any, sample: Columns) -> list[tuple[Any, tuple[Any, ...]]]:
    """What functions that are not Keras's own return, as metrics."""
    import keras
    from keras.src import backend

    compiled = model._compile_metrics
    if compiled is None or not compiled.built:
        return []

    def symbol(array: Any) -> Any:
        return None if array is None else keras.KerasTensor(array.shape, backend.standardize_dtype(array.dtype))

    x, y = mapped(symbol, (sample.x, sample.y))
    outputs = backend.compute_output_spec(model, x, training=False)
    found = []
    for lists in (compiled._flat_metrics, compiled._flat_weighted_metrics):
        pairs = zip(lists, compiled._flatten_y(y), compiled._flatten_y(outputs), strict=False)
        for metrics, true, predicted in pairs:
            for metric in getattr(metrics, "metrics", ()):
                function = getattr(metric, "_fn", None)
                if function is None or str(getattr(function, "__module__", "")).startswith("keras."):
                    continue
                spec = backend.compute_output_spec(function, true, predicted, **metric._fn_kwargs)
                found.append((metric, tuple(spec.shape)))
    return found
