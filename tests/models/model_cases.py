"""What must be true of every kind of model. Run by test_models_contract.py, in an interpreter of its own."""

from __future__ import annotations

import json
import os
import pickle
import sys
import tempfile
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import model_kinds
import numpy
from model_kinds import ROWS, Kind

import tenfold
from tenfold.data.roles import together
from tenfold.errors import BadCall
from tenfold.journal import fingerprint
from tenfold.models import model as keeping
from tenfold.models import nesting
from tenfold.models.batching import batched
from tenfold.models.model import Model, loaded
from tenfold.models.opening import model
from tenfold.models.predicting import Predicting
from tenfold.models.sizing import ANY, COMPILED, best_size, even


def same(found: Any, expected: Any, close: float) -> None:
    """The same nesting, shapes, kinds of numbers, and numbers."""
    assert type(found) is type(expected), (type(found), type(expected))
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        for name in expected:
            same(found[name], expected[name], close)
    elif isinstance(expected, tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            same(one, other, close)
    elif expected.dtype.kind in "fc":
        assert found.dtype == expected.dtype, (found.dtype, expected.dtype)
        numpy.testing.assert_allclose(found, expected, rtol=close, atol=close)
    else:
        assert found.dtype.kind == expected.dtype.kind
        numpy.testing.assert_array_equal(found, expected)


class Watched:
    """A model that remembers how many rows it was asked for."""

    def __init__(self, predict: Any) -> None:
        self._predict = predict
        self.fixed = predict.fixed
        self.sizes: list[int] = []

    def __call__(self, rows: Any) -> Any:
        self.sizes.append(nesting.count(rows))
        return self._predict(rows)


def case_the_numbers_of_its_framework(kind: Kind, made: Model) -> None:
    predict = loaded(made)
    assert predict.fixed is kind.fixed
    same(batched(predict, kind.rows, 64), kind.expected, kind.close)


def case_any_size_of_batch(kind: Kind, made: Model) -> None:
    """Smaller than the rows, as many, more; a model that compiles sees one size."""
    for size in (7, 64, ROWS + 10) if kind.fixed else (1, 7, 64, ROWS, ROWS + 10):
        watched = Watched(loaded(made))
        same(batched(watched, kind.rows, size), kind.expected, kind.close)
        assert not kind.fixed or set(watched.sizes) == {size}
        assert len(watched.sizes) == -(-ROWS // size)
    one = nesting.cut(kind.rows, ROWS - 1, ROWS)
    same(batched(loaded(made), one, 7), nesting.cut(kind.expected, ROWS - 1, ROWS), kind.close)


def case_the_only_column_of_a_table(kind: Kind, made: Model) -> None:
    """It goes in as it is; a model that may take either as well, unless nobody said what goes in."""
    if isinstance(kind.rows, numpy.ndarray):
        as_table = loaded(made).by_name is not None
        columns = together({"x": kind.rows}, as_table=as_table)
        same(Predicting(made, lambda rows: rows, 64).outputs(columns), kind.expected, kind.close)


def case_pickled_and_known_again(kind: Kind, made: Model) -> None:
    again = pickle.loads(pickle.dumps(made))
    assert again == made
    assert again.digest == made.digest
    assert pickle.loads(pickle.dumps(again, 5)).digest == made.digest
    assert loaded(again) is loaded(made)
    opened = model(kind.value, output=kind.output)
    assert fingerprint.of_function(opened) == fingerprint.of_function(made)  # type: ignore[arg-type]
    other = model(lambda rows: rows, output=kind.output)
    assert fingerprint.of_function(other) != fingerprint.of_function(made)  # type: ignore[arg-type]
    assert made.describe()


def case_loaded_once_by_threads(kind: Kind, made: Model) -> None:
    loads = []

    class Counted(type(made)):  # type: ignore[misc]
        def load(self) -> Any:
            loads.append(threading.get_ident())
            return super().load()

    counted = Counted(made.content, made.output, digest=f"counted {made.digest}")
    start = threading.Barrier(4)

    def work(_: int) -> Any:
        start.wait()
        return [batched(loaded(counted), kind.rows, 64) for _ in range(3)]

    with ThreadPoolExecutor(4) as pool:
        for several in pool.map(work, range(4)):
            for found in several:
                same(found, kind.expected, kind.close)
    assert len(loads) == 1


def case_rows_that_cannot_be_written_to(kind: Kind, made: Model) -> None:
    def mapped(array: Any) -> Any:
        if isinstance(array, list):
            return array
        with tempfile.NamedTemporaryFile(suffix=".npy") as file:
            numpy.save(file.name, array)
            return numpy.load(file.name, mmap_mode="r")

    same(batched(loaded(made), nesting.each(mapped, kind.rows), 64), kind.expected, kind.close)


def case_rows_anywhere_in_memory(kind: Kind, made: Model) -> None:
    """At an address that suits a processor, and at others; not one after the other; and none of them is changed."""

    def placed(array: Any, offset: int) -> Any:
        if isinstance(array, list):
            return array
        raw = numpy.empty(array.nbytes + 128, numpy.uint8)
        start = -raw.ctypes.data % 64 + offset
        found = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
        found[...] = array
        return found

    def spread(array: Any) -> Any:
        return array if isinstance(array, list) else numpy.repeat(array, 2, axis=0)[::2]

    for form in (lambda a: placed(a, 0), lambda a: placed(a, 8), spread):
        rows = nesting.each(form, kind.rows)
        same(batched(loaded(made), rows, 64), kind.expected, kind.close)
        for given, before in zip(nesting.flat(rows), nesting.flat(kind.rows), strict=True):
            numpy.testing.assert_array_equal(given, before)


def case_a_size_by_measuring(kind: Kind, made: Model) -> None:
    predict = loaded(made)
    sizes = COMPILED if kind.fixed else ANY
    some = nesting.cut(kind.rows, 0, 20)
    assert best_size(predict, some, 1) == 20
    assert best_size(predict, some, 1 << 40) == sizes[-1]
    assert best_size(predict, kind.rows, 1 << 40) in {even(nesting.count(kind.rows), size) for size in sizes} | {*sizes}


class Task:
    """Predicts a part of a model's rows, in a worker."""

    def __init__(self, kinds: dict[str, tuple[Kind, Model]]) -> None:
        self.models = {name: (made, kind.rows) for name, (kind, made) in kinds.items()}

    def __call__(self, which: tuple[str, int]) -> Any:
        keeping.KEPT = len(self.models)  # instead of 4: behind a task that takes long, others change their order
        made, rows = self.models[which[0]]
        predict = loaded(made)
        return os.getpid(), id(predict), batched(predict, nesting.cut(rows, *_part(which[1])), 64)


def _part(place: int) -> tuple[int, int]:
    return place * 75, place * 75 + 75


def in_one_worker(kinds: dict[str, tuple[Kind, Model]]) -> dict[str, list[Any]]:
    """Two parts of each model's rows: all in one call, because a framework needs long to begin in a worker."""
    items = [(name, place) for name in kinds for place in range(2)]
    options: dict[str, Any] = {"workers": 1, "engine": "local", "on_error": "collect", "progress": False}
    found: dict[str, list[Any]] = {name: [] for name in kinds}
    for (name, _), part in zip(items, tenfold.map(Task(kinds), items, **options), strict=True):
        found[name].append(part)
    return found


def case_in_a_worker(kind: Kind, made: Model, parts: list[Any]) -> None:
    """Two tasks of one worker, of which the second finds what the first has loaded."""
    for place, part in enumerate(parts):
        if isinstance(part, BaseException):
            raise part
        pid, _, found = part
        assert pid != os.getpid()
        same(found, nesting.cut(kind.expected, *_part(place)), kind.close)
    assert parts[0][:2] == parts[1][:2]


def refused_without_a_fit() -> None:
    from sklearn.linear_model import LinearRegression

    message = _message(LinearRegression(), "predict_proba")
    assert "output='predict_proba': LinearRegression has 'predict'; give one of them" in message
    assert "not fitted yet; call its fit first" in message


def refused_because_it_cannot_be_pickled() -> None:
    import torch

    made = torch.nn.Linear(2, 2)
    made.lock = threading.Lock()
    assert "a PyTorch module that cannot be sent to a worker" in _message(made)


def refused_for_want_of_the_output() -> None:
    made = model_kinds.module_with_names()
    message = _message_of(lambda: loaded(model(made.value, output="third"))(made.rows))
    assert "output='third': the model has no output of that name; expected one of 'double', 'half'" in message


def refused_keras() -> None:
    import keras

    assert "has no weights yet" in _message(keras.Sequential([keras.layers.Dense(2)]))
    made = model_kinds.keras_dicts().value
    assert "expected one of 'sum', 'both'" in _message(made, "third")
    made.save("dicts.keras")
    assert "expected one of 'sum', 'both'" in _message_of(lambda: loaded(model("dicts.keras", output="third")))
    model_kinds.keras_own_classes().value.save("own.keras")
    assert "give the model itself" in _message_of(lambda: loaded(model("own.keras")))

    class Bare(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()

        def call(self, x: Any) -> Any:
            return x * 2

    bare = Bare()
    bare(numpy.zeros((2, 2)))
    assert "Bare again in a worker: its __init__ got an unexpected keyword argument 'trainable'" in _message(bare)


def keras_imports_no_other_framework() -> None:
    """Keras alone would import TensorFlow to save a model of another backend. The first case, before others do."""
    import keras

    assert loaded(model(keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)])))(numpy.zeros((3, 2))).any() == 0
    assert os.environ["KERAS_BACKEND"] == "tensorflow" or "tensorflow" not in sys.modules


def keras_layer_that_wants_to_know_its_batch() -> None:
    """Compiled for the size that comes, where it cannot be for any."""
    import keras

    class Counting(keras.layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            return x + float(x.shape[0]) if x.shape[0] != 1 else x

        def compute_output_shape(self, shape: Any) -> Any:
            return shape

    made = keras.Sequential([Counting()])
    made(numpy.zeros((2, 3), "float32"))
    opened = loaded(model(made))
    for size in (4, 8, 4):
        assert (numpy.asarray(opened(numpy.zeros((size, 3), "float32"))) == size).all()


REFUSALS: dict[str, tuple[Any, ...]] = {
    "plain": (refused_without_a_fit, refused_because_it_cannot_be_pickled, refused_for_want_of_the_output),
    "keras": (keras_imports_no_other_framework, refused_keras, keras_layer_that_wants_to_know_its_batch),
}


def _message(value: Any, output: str | None = None) -> str:
    return _message_of(lambda: model(value, output=output))


def _message_of(call: Any) -> str:
    try:
        call()
    except BadCall as error:
        return str(error)
    raise AssertionError("it was not refused")


def _trouble(case: Any, *given: Any) -> str:
    try:
        case(*given)
    except BaseException:
        return traceback.format_exc()
    return ""


CASES = [case for name, case in vars().copy().items() if name.startswith("case_")]


def main(group: str, path: str) -> None:
    told = {case.__name__: _trouble(case) for case in REFUSALS[group]}
    kinds: dict[str, tuple[Kind, Model]] = {}
    for make in model_kinds.KINDS[group]:
        kind = make()
        try:
            kinds[make.__name__] = kind, model(kind.value, output=kind.output)
        except Exception:
            told[make.__name__] = traceback.format_exc()
    parts = in_one_worker(kinds)
    for name, (kind, made) in kinds.items():
        for case in CASES:
            more = (parts[name],) if case is case_in_a_worker else ()
            told[f"{name}: {case.__name__}"] = _trouble(case, kind, made, *more)
    Path(path).write_text(json.dumps(told))
