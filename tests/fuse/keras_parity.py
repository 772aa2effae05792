"""Trains the models of `keras_cases` together, one at a time, and by hand, and writes down how far apart they are.

Started by `test_keras_parity.py`, in two processes on the same folder, with Keras on JAX: each takes the next name that
no other has taken, and leaves its answer in the folder, as JSON.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy
from keras_cases import BATCH, CASES, EPOCHS, Case, Params

from tenfold.fuse import keras as workshops
from tenfold.fuse import order, together
from tenfold.fuse.building import RESERVED
from tenfold.fuse.columns import leaves, mapped
from tenfold.fuse.fit import Fit
from tenfold.fuse.result import FitResult
from tenfold.plan.seats import Seat
from tenfold.work.here import Here

RTOL = 1e-4


# -- together ---------------------------------------------------------------------------------------------------------


def fit_of(case: Case, **others: Any) -> Fit:
    settings = {"epochs": EPOCHS, "batch_size": BATCH, "how": "fused"} | case.options() | others
    return Fit(case.build, case.data(), **settings)


def here(index: int, folder: Path) -> Here:
    return Here(index, 1, 0, Seat(0, 1, (0,), (), None), str(folder), None)


def train(fit: Fit, items: Sequence[Params], folder: Path) -> list[Any]:
    """As a worker trains a batch of tasks."""
    return together.train(fit, [(here(n, folder), params) for n, params in enumerate(items)])


@contextlib.contextmanager
def sizes_of_groups(at_a_time: int | None) -> Iterator[list[int]]:
    """Of the groups that are made meanwhile; `at_a_time` is for chunks."""
    sizes: list[int] = []
    make = together.groups

    def groups(*arguments: Any) -> list[list[int]]:
        found = make(*arguments)
        sizes.extend(map(len, found))
        return found

    chunk = at_a_time or workshops.AT_A_TIME
    with mock.patch.object(together, "groups", groups), mock.patch.object(workshops, "AT_A_TIME", chunk):
        yield sizes


# -- by hand ----------------------------------------------------------------------------------------------------------


def by_hand(case: Case, params: Params) -> FitResult:
    """What a user of Keras alone would write, but for the order of rows; trained by `model.fit`."""
    import keras

    options = {"epochs": EPOCHS, "batch_size": BATCH, "shuffle": True, "callbacks": []} | case.options()
    training, scored = _split(case.data(), params, options.get("validation"))
    keras.utils.set_random_seed(params["seed"])
    model = (case.hand or case.build)(**{name: value for name, value in params.items() if name not in RESERVED})
    settings = {
        "batch_size": options["batch_size"],
        "class_weight": options.get("class_weight"),
        "validation_data": scored,
        "validation_batch_size": options["batch_size"],
        "callbacks": options["callbacks"],
    }
    history: dict[str, list[float]] = {}
    for first, last in _calls(options["epochs"], options["shuffle"]):
        rows = order.rows(_length(training), params["seed"], first, 0, shuffle=options["shuffle"])
        x, y, *weight = _take(training, rows)
        weights = {"sample_weight": weight[0]} if weight else {}
        fitted = model.fit(x, y, initial_epoch=first, epochs=last, shuffle=False, verbose=0, **weights, **settings)
        for name, values in fitted.history.items():
            history.setdefault(name, []).extend(values)
    best = [callback.best_epoch for callback in options["callbacks"] if callback.best_weights is not None]
    return FitResult(params, history, model.get_weights(), "by hand", best[0] if best else None)


def _calls(epochs: int, shuffle: bool) -> list[tuple[int, int]]:
    """Rows in another order need another call of `fit`; where they stay, one is enough."""
    return [(epoch, epoch + 1) for epoch in range(epochs)] if shuffle else [(0, epochs)]


def _split(data: tuple[Any, ...], params: Params, validation: Any) -> tuple[Any, Any]:
    """The columns to train on and those to validate on, or None."""
    rows = numpy.arange(_length(data)) if params.get("rows") is None else numpy.asarray(params["rows"])
    if params.get("validation_rows") is not None:
        return _take(data, rows), _take(data, numpy.asarray(params["validation_rows"]))
    if not isinstance(validation, float):
        return _take(data, rows), validation
    cut = int(len(rows) * (1 - validation))
    return _take(data, rows[:cut]), _take(data, rows[cut:])


def _length(data: Any) -> int:
    return len(leaves(data)[0])


def _take(data: tuple[Any, ...], rows: numpy.ndarray) -> Any:
    return mapped(lambda array: array[rows], data)


# -- comparisons ------------------------------------------------------------------------------------------------------


def apart(one: FitResult, other: FitResult, names: Sequence[str], atol: float) -> dict[str, Any]:
    """How far two results are from each other, in weights and in histories."""
    weights = zip(names, one.weights, other.weights, strict=True)
    shared = one.history.keys() & other.history.keys()
    histories = [(name, numpy.array(one.history[name]), numpy.array(other.history[name])) for name in sorted(shared)]
    return {
        "weights": _farthest(weights, atol),
        "history": _farthest(histories, atol),
        "names": sorted(one.history.keys() ^ other.history.keys()),
        "epochs": [one.epochs, other.epochs],
        "best_epoch": [one.best_epoch, other.best_epoch],
    }


def _farthest(pairs: Any, atol: float) -> tuple[float, float, str]:
    """(share of what is tolerated, difference, where) of the pair that is farthest apart; NaN is equal to NaN."""
    found = [(0.0, 0.0, "")]
    for name, a, b in pairs:
        if a.shape != b.shape or a.dtype != b.dtype:
            found.append((float("inf"), float("inf"), f"{name}: {a.dtype}{a.shape} and {b.dtype}{b.shape}"))
            continue
        broken = numpy.isfinite(a) != numpy.isfinite(b)
        difference = numpy.where(broken, numpy.inf, numpy.nan_to_num(numpy.abs(a - b), nan=0.0))
        share = difference / (atol + RTOL * numpy.nan_to_num(numpy.abs(b)))
        found.append((float(share.max(initial=0)), float(difference.max(initial=0)), name))
    return max(found)


def names_of(case: Case, count: int) -> list[str]:
    """Of the weights, as far as they are known before the data is."""
    model = case.build(**{name: value for name, value in case.items[0].items() if name not in RESERVED})
    found = [variable.path for variable in model.weights]
    return found if len(found) == count else [f"weight {place}" for place in range(count)]


@contextlib.contextmanager
def kept_compilations() -> Iterator[None]:
    """Models that differ by their seeds are compiled once: without this, most of the time is spent on repetitions."""
    import jax

    name = "jax_persistent_cache_min_compile_time_secs"
    before = getattr(jax.config, name)
    jax.config.update(name, 0)
    yield
    jax.config.update(name, before)


def compare(case: Case, folder: Path) -> dict[str, Any]:
    """Everything there is to say about one case."""
    fit = fit_of(case)
    with sizes_of_groups(case.at_a_time) as sizes:
        fused = train(fit, case.items, folder)
    for result in fused:
        if isinstance(result, BaseException):
            raise result
    places = range(len(fused)) if case.every else (0, len(fused) - 1)
    with kept_compilations():
        alone = {place: fit(case.items[place]) for place in places}
        hand = by_hand(case, case.items[-1])
    names = names_of(case, len(hand.weights))
    return {
        "how": [result.how for result in fused],
        "groups": sizes,
        "fused": {place: apart(fused[place], alone[place], names, case.atol) for place in places},
        "by hand": apart(alone[places[-1]], hand, names, case.atol),
        "all differ": all(not same(one, other) for one, other in itertools.combinations(fused, 2)),
    }


def same(one: FitResult, other: FitResult) -> bool:
    """Bit for bit, NaN included."""
    return all(a.tobytes() == b.tobytes() for a, b in zip(one.weights, other.weights, strict=True)) and (
        repr(one.history) == repr(other.history)
    )


# -- the process ------------------------------------------------------------------------------------------------------


def _is_mine(folder: Path, name: str) -> bool:
    with contextlib.suppress(FileExistsError):
        os.close(os.open(folder / f"{name}.taken", os.O_CREAT | os.O_EXCL))
        return True
    return False


def _share_compilations(own: Path, folder: Path) -> None:
    """Cases have their own folders, but many have the same model."""
    (own / "shared").mkdir(parents=True)
    (folder / "compiled").mkdir(exist_ok=True)
    (own / "shared" / "compiled").symlink_to(folder / "compiled")


def main(folder: Path, wanted: Sequence[str]) -> None:
    """Answer what nobody else does; a case that fails leaves its traceback."""
    import keras  # before the first model is built: tasks have it imported and seeded, too
    import keras_questions
    from keras.src.utils.module_utils import tensorflow

    tensorflow._available = False  # keras.utils.set_random_seed would import it: 4 s

    for number, name in enumerate(wanted):
        own = folder / f"{number}"
        if not _is_mine(folder, str(number)):
            continue
        began = time.perf_counter()
        try:
            _share_compilations(own, folder)
            answer = compare(CASES[name], own) if name in CASES else keras_questions.QUESTIONS[name](own)
        except Exception:
            answer = {"error": traceback.format_exc()}
        answer |= {"name": name, "seconds": round(time.perf_counter() - began, 2)}
        (folder / f"{number}.part").write_text(json.dumps(answer))
        os.replace(folder / f"{number}.part", folder / f"{number}.json")
        if number % 8 == 0:  # it takes 0.2 s
            keras.utils.clear_session()
