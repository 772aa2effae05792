"""Which Keras models can be divided among workers, and how their losses and metrics add up. Told before training."""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy

from tenfold.errors import BadCall
from tenfold.fuse.columns import Columns, leaves, mapped

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

COMPARING = ("circle", "cosine_similarity", "dice", "tversky")
"""Losses of Keras that may compare rows with each other, or be one number for all of them."""
ASKED = 16  # rows that other losses are asked about
NEAR = 1e-4  # of the loss
INSTEAD = "tenfold.map trains such a model in one process, tenfold.launch runs a loop of your own on several"


def check(fit: Fit, model: Any) -> None:
    """Refuse a model, already built, that several workers cannot train; all faults in one message."""
    faults = [*_own_code(model), *_losses(model), *_metrics(model)]
    if fit.callbacks:
        names = ", ".join(type(callback).__name__ for callback in fit.callbacks)
        faults.append(f"callbacks: {names} would see one worker's part; expected none but EarlyStopping")
    if faults:
        raise BadCall(f"{'; '.join(faults)}. {INSTEAD}")


def check_shares(model: Any, sample: Columns, compiled: Callable[[Any], Any] = lambda function: function) -> None:
    """Refuse losses that do not add up over shares of a batch; all faults in one message.

    What is computed for that is `compiled` first.
    """
    faults = [
        f"the loss {entry.loss.name} leaves out rows of ignore_class={entry.loss.ignore_class} and divides by how many "
        "are left; expected None"
        for entry in _entries(model)
        if getattr(entry.loss, "ignore_class", None) is not None
    ]
    if not faults and any(_is_unknown(entry.loss, model, sample) for entry in _entries(model)):
        faults = _asked(model, sample.take(slice(0, ASKED)), compiled)
    if faults:
        raise BadCall(f"{'; '.join(faults)}. A worker has only some rows of a batch; {INSTEAD}")


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


def _entries(model: Any) -> list[Any]:
    return list(getattr(model._compile_loss, "_flat_losses", None) or ())


def _reductions(model: Any) -> list[tuple[str, str | None]]:
    return [(entry.loss.name, getattr(entry.loss, "reduction", MEANS[0])) for entry in _entries(model)]


def _is_unknown(loss: Any, model: Any, sample: Columns) -> bool:
    """Whether it may be something else than its reduction of one number for each row."""
    from keras.src import backend

    function = getattr(loss, "fn", type(loss))
    if _is_own(function):
        return function.__name__ in COMPARING
    y, outputs = _symbols(sample.y), _outputs(model, sample)
    if len(leaves(y)) != 1 or len(leaves(outputs)) != 1:
        return True
    return not backend.compute_output_spec(loss.call, *leaves(y), *leaves(outputs)).shape


def _is_own(function: Any) -> bool:
    return str(getattr(function, "__module__", "")).startswith("keras.")


def _asked(model: Any, few: Columns, compiled: Callable[[Any], Any]) -> list[str]:
    """What is wrong with the losses of these rows and of both halves of them, where outputs are invented."""
    import keras

    half = len(few) // 2
    if not half:
        return []
    noise = numpy.random.default_rng(0)

    def invented(output: Any) -> Any:
        shape = (len(few), *output.shape[1:])
        numbers = noise.uniform(0.1, 0.3, shape)
        numbers[half:] *= 3.0  # so that the halves differ
        return numbers.astype(str(output.dtype))

    columns = (few.y, mapped(invented, _outputs(model, few)), few.weight)
    cuts = slice(2 * half), slice(half), slice(half, 2 * half)
    loss = compiled(functools.partial(_loss, model))
    whole, first, rest = (float(keras.ops.convert_to_numpy(loss(_rows(columns, rows)))) for rows in cuts)
    found = first + rest if sums_rows(model) else (first + rest) / 2
    near = NEAR * (abs(whole) + abs(first) + abs(rest))
    if abs(whole - found) <= near or not math.isfinite(near):
        return []
    names = ", ".join(entry.loss.name for entry in _entries(model))
    return [
        f"the loss {names} is {whole:.6g} where that of both halves of the rows makes {found:.6g}; expected a function "
        "that returns a number for each row"
    ]


def _rows(columns: Any, rows: slice) -> Any:
    return mapped(lambda array: None if array is None else array[rows], columns)


def _loss(model: Any, columns: Any) -> Any:
    import keras

    y, outputs, weight = mapped(lambda a: None if a is None else keras.ops.convert_to_tensor(a), columns)
    with keras.StatelessScope():  # some note what they are
        return model._compile_loss(y, outputs, weight)


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
    from keras.src import backend

    compiled = model._compile_metrics
    if compiled is None or not compiled.built:
        return []
    y, outputs = _symbols(sample.y), _outputs(model, sample)
    found = []
    for lists in (compiled._flat_metrics, compiled._flat_weighted_metrics):
        pairs = zip(lists, compiled._flatten_y(y), compiled._flatten_y(outputs), strict=False)
        for metrics, true, predicted in pairs:
            for metric in getattr(metrics, "metrics", ()):
                function = getattr(metric, "_fn", None)
                if function is None or _is_own(function):
                    continue
                spec = backend.compute_output_spec(function, true, predicted, **metric._fn_kwargs)
                found.append((metric, tuple(spec.shape)))
    return found


def _outputs(model: Any, sample: Columns) -> Any:
    """What they are like."""
    from keras.src import backend

    return backend.compute_output_spec(model, _symbols(sample.x), training=False)


def _symbols(tree: Any) -> Any:
    import keras
    from keras.src import backend

    def symbol(array: Any) -> Any:
        return None if array is None else keras.KerasTensor(array.shape, backend.standardize_dtype(array.dtype))

    return mapped(symbol, tree)
