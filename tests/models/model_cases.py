"""What must be true of every kind of model. Run by test_models_contract.py, in an interpreter of its own."""

from __future__ import annotations

import json
import os
import pickle
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
from tenfold.journal import fingerprint
from tenfold.models import nesting
from tenfold.models.batching import batched
from tenfold.models.model import Model, loaded
from tenfold.models.opening import model
from tenfold.models.sizing import ANY, COMPILED, best_size


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
    for size in (7, ROWS, ROWS + 10):
        watched = Watched(loaded(made))
        same(batched(watched, kind.rows, size), kind.expected, kind.close)
        assert not kind.fixed or set(watched.sizes) == {size}
        assert len(watched.sizes) == -(-ROWS // size)
    one = nesting.cut(kind.rows, ROWS - 1, ROWS)
    same(batched(loaded(made), one, 7), nesting.cut(kind.expected, ROWS - 1, ROWS), kind.close)


def case_pickled_and_known_again(kind: Kind, made: Model) -> None:
    again = pickle.loads(pickle.dumps(made))
    assert again == made
    assert again.digest == made.digest
    assert pickle.loads(pickle.dumps(again, 5)).digest == made.digest
    same(batched(again.load(), kind.rows, 64), kind.expected, kind.close)
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


def case_a_size_by_measuring(kind: Kind, made: Model) -> None:
    predict = loaded(made)
    assert best_size(predict, nesting.cut(kind.rows, 0, 20), 1) == (COMPILED if kind.fixed else ANY)[0]
    if not kind.fixed:
        assert best_size(predict, kind.rows, 1 << 30) in ANY


class Task:
    """Predicts a part of the rows with every model of this process, in a worker."""

    def __init__(self, models: dict[str, tuple[Model, Any]]) -> None:
        self.models = models

    def __call__(self, name_and_place: tuple[str, int]) -> Any:
        name, place = name_and_place
        made, rows = self.models[name]
        found = batched(loaded(made), nesting.cut(rows, place * 75, place * 75 + 75), 64)
        return os.getpid(), id(loaded(made)), found


def in_workers(kinds: dict[str, tuple[Kind, Model]]) -> dict[str, str]:
    """All kinds in one call, each twice in the one worker."""
    task = Task({name: (made, kind.rows) for name, (kind, made) in kinds.items()})
    items = [(name, place) for name in kinds for place in range(2)]
    results = tenfold.map(task, items, workers=1, engine="local", on_error="collect", progress=False)
    told = {}
    for name, (kind, _) in kinds.items():
        parts = [results[items.index((name, place))] for place in range(2)]
        told[f"{name}: in a worker"] = _trouble(_compare, parts, kind)
    return told


def _compare(parts: list[Any], kind: Kind) -> None:
    for place, part in enumerate(parts):
        if isinstance(part, BaseException):
            raise part
        pid, _, found = part
        assert pid != os.getpid()
        same(found, nesting.cut(kind.expected, place * 75, place * 75 + 75), kind.close)
    assert parts[0][:2] == parts[1][:2], "the second part must find the model that the first has loaded"


def _trouble(case: Any, *given: Any) -> str:
    try:
        case(*given)
    except BaseException:
        return traceback.format_exc()
    return ""


CASES = [case for name, case in vars().copy().items() if name.startswith("case_")]


def main(group: str, path: str) -> None:
    told: dict[str, str] = {}
    kinds: dict[str, tuple[Kind, Model]] = {}
    for make in model_kinds.KINDS[group]:
        kind = make()
        try:
            kinds[make.__name__] = kind, model(kind.value, output=kind.output)
        except Exception:
            told[make.__name__] = traceback.format_exc()
    told |= in_workers(kinds)
    for name, (kind, made) in kinds.items():
        for case in CASES:
            told[f"{name}: {case.__name__}"] = _trouble(case, kind, made)
    Path(path).write_text(json.dumps(told))
