"""`tenfold.predict`: what the plain framework gives, from every kind of source, kept or in memory; what is refused."""

from __future__ import annotations

import ast
import contextlib
import itertools
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
from sklearn.linear_model import LogisticRegression

import scripts
import tenfold
import waiting
from tenfold.journal.folder import Folder
from tenfold.journal.store import Journal

X = numpy.random.default_rng(0).random((2500, 4))
Y = (X[:, 0] > 0.5).astype(int)
MODEL = LogisticRegression().fit(X, Y)


def predict(*given: Any, **options: Any) -> tenfold.Prepared:
    return tenfold.predict(*given, progress=False, **options)


def counted(folder: Path) -> Callable[[Any], Any]:
    """Notes how many rows it was given, whoever calls it."""
    log = str(folder / "rows")

    def count_and_double(rows: Any) -> Any:
        with open(log, "a") as file:
            file.write(f"{len(rows)}\n")
        return rows * 2

    return count_and_double


def rows_seen(folder: Path) -> int:
    path = folder / "rows"
    found = sum(map(int, path.read_text().split())) if path.exists() else 0
    path.unlink(missing_ok=True)
    return found


# -- sources ----------------------------------------------------------------------------------------------------------


def _table(folder: Path) -> str:
    import pyarrow
    import pyarrow.parquet

    columns = {"other": Y, **{name: X[:, place] for place, name in enumerate("abcd")}}
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "table.parquet", row_group_size=700)
    return str(folder / "table.parquet")


def _npy(folder: Path) -> str:
    numpy.save(folder / "x.npy", X)
    return str(folder / "x.npy")


SOURCES: dict[str, Callable[[Path], tuple[Any, dict[str, Any]]]] = {
    "array": lambda folder: (X, {}),
    "memmap": lambda folder: (numpy.load(_npy(folder), mmap_mode="r"), {}),
    "npy": lambda folder: (_npy(folder), {}),
    "x and y": lambda folder: ((X, Y), {}),
    "prepared": lambda folder: (tenfold.prepare(lambda row: row, X, folder / "set", progress=False), {}),
    "table": lambda folder: (_table(folder), {"inputs": ["a", "b", "c", "d"]}),
    "stream": lambda folder: ((row for row in X), {}),
}


@pytest.mark.parametrize("kept", [False, True], ids=["in memory", "in a folder"])
@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_gives_what_the_model_gives(kind: str, kept: bool, tmp_path: Path) -> None:
    source, options = SOURCES[kind](tmp_path)
    to = tmp_path / "predictions" if kept else None
    found = predict(MODEL, source, to, output="predict_proba", **options)
    numpy.testing.assert_allclose(found.numpy(), MODEL.predict_proba(X), rtol=1e-12)
    assert len(found) == len(X)
    assert found.folder == to
    if kept:
        numpy.testing.assert_array_equal(numpy.load(tmp_path / "predictions" / "data.npy"), found.numpy())


def test_labels_and_a_torch_module() -> None:
    import torch

    assert numpy.array_equal(predict(MODEL, X).numpy(), MODEL.predict(X))
    module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
    x = X.astype("float32")
    with torch.no_grad():
        expected = module(torch.from_numpy(x)).numpy()
    numpy.testing.assert_allclose(predict(module, x).numpy(), expected, atol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own: TorchScript is deprecated
        scripted = torch.jit.trace(module, torch.from_numpy(x[:2]))
        numpy.testing.assert_allclose(predict(scripted, x).numpy(), expected, atol=1e-6)
    similar = torch.nn.CosineSimilarity()  # forward(x1, x2), as a Fit with a dict of inputs calls it
    numpy.testing.assert_allclose(predict(similar, {"x2": x, "x1": 3 * x}).numpy(), numpy.ones(len(x)), atol=1e-6)


def test_several_inputs_and_several_outputs(tmp_path: Path) -> None:
    def both(rows: Any) -> Any:
        a, b = rows["a"], rows["b"]
        return {"sum": a + b, "pair": numpy.stack([a, b], 1)}

    source = {"a": X[:, 0], "b": X[:, 1]}
    found = predict(both, source, tmp_path / "set").numpy()
    assert numpy.array_equal(found["sum"], X[:, 0] + X[:, 1])
    assert numpy.array_equal(found["pair"], X[:, :2])
    assert numpy.array_equal(predict(both, source, output="sum").numpy(), X[:, 0] + X[:, 1])
    nested = predict(lambda rows: (rows[0] * 2, rows[1] + 1), ((X, Y), Y)).numpy()
    assert sorted(nested) == ["output_0", "output_1"]
    assert numpy.array_equal(nested["output_0"], X * 2)
    assert numpy.array_equal(nested["output_1"], Y + 1)


def test_rows_in_another_order_of_bytes_are_turned(tmp_path: Path) -> None:
    """HDF5 files and FITS images often have them, and of the frameworks only NumPy takes them."""
    import torch

    numpy.save(tmp_path / "x.npy", numpy.arange(40, dtype=">i4").reshape(20, 2))

    def model(rows: Any) -> Any:
        return torch.from_numpy(rows).sum(1)

    assert predict(model, tmp_path / "x.npy").numpy().tolist() == list(range(1, 80, 4))


@pytest.mark.parametrize("batch_size", [1, 7, 5000])
def test_the_size_of_batches_is_kept_to(batch_size: int) -> None:
    found = predict(lambda rows: numpy.full(len(rows), len(rows)), X[:50], batch_size=batch_size).numpy()
    assert found.max() <= batch_size


@pytest.mark.parametrize("kind", ["array", "npy", "stream"])
@pytest.mark.parametrize("model", ["function", "module"])
def test_a_model_may_write_to_its_rows(model: str, kind: str, tmp_path: Path) -> None:
    """Sizes of batches are tried on rows that are predicted afterwards."""
    import torch

    class Doubling(torch.nn.Module):
        def forward(self, rows: Any) -> Any:
            return rows.mul_(2)

    def double(rows: Any) -> Any:
        rows *= 2
        return rows

    source, options = SOURCES[kind](tmp_path)
    found = predict(double if model == "function" else Doubling(), source, **options)
    numpy.testing.assert_array_equal(found.numpy(), X * 2)


def test_rows_are_in_the_form_of_the_first_and_another_is_named() -> None:
    def mixed(rows: Any) -> Any:
        return rows[:, 0] if rows[0, 0] == X[0, 0] else (rows[:, 0] > 0.5).astype("int32")

    found = predict(mixed, X, batch_size=1024).numpy()
    assert found.dtype == X.dtype
    assert numpy.array_equal(found[1024:], X[1024:, 0] > 0.5)

    def wider(rows: Any) -> Any:
        later = rows[0, 0] != X[0, 0]
        return {
            "n": rows[:, 0] if later else rows[:, 1].astype(int),
            "t": numpy.full(len(rows), "ab" if later else "a"),
        }

    both = predict(wider, X, batch_size=numpy.int64(1024)).numpy()
    assert numpy.array_equal(both["n"][1024:], X[1024:, 0])
    assert both["t"][-1] == "ab"
    with pytest.raises(tenfold.BadCall, match=r"for rows 1024 to 2048, data is 4 of float64, and of the first"):
        predict(lambda rows: rows if rows[0, 0] != X[0, 0] else rows[:, 0], X, batch_size=1024)


# -- what is kept -----------------------------------------------------------------------------------------------------


_COMPILED = """
    import pathlib
    import jax
    import numpy
    import tenfold

    @jax.jit
    def model(rows):
        with open("shapes", "a") as file:  # when it is traced, and not when it is called
            file.write(f"{len(rows)}\\n")
        return rows * 2

    X = numpy.arange(2500, dtype="float32")[:, None]
    for size in (1000, None):
        found = tenfold.predict(model, X, batch_size=size, workers=1, progress=False).numpy()
        assert (found == X * 2).all()
        print(pathlib.Path("shapes").read_text().split())
        pathlib.Path("shapes").unlink()
"""


def test_a_compiled_model_is_compiled_for_one_size_of_batch(tmp_path: Path) -> None:
    """The last part of these rows has 452, the others 1024: they are filled up, not compiled for."""
    insisted, measured = scripts.run(tmp_path, _COMPILED).out.splitlines()
    assert insisted == "['512']"
    tried = {"256", "1024", "4096"}
    assert set(ast.literal_eval(measured)) <= tried


def test_the_second_call_returns_at_once_and_another_model_does_not(tmp_path: Path) -> None:
    function, to = counted(tmp_path), tmp_path / "set"
    predict(function, X, to, batch_size=500)
    assert rows_seen(tmp_path) == len(X)
    assert numpy.array_equal(predict(function, X, to, batch_size=500).numpy(), X * 2)
    assert rows_seen(tmp_path) == 0
    predict(MODEL, X, to)
    assert numpy.array_equal(predict(MODEL, X, to).numpy(), MODEL.predict(X))
    assert sorted(path.name for path in to.glob("[!.]*")) == ["data.npy", "manifest.json"]


def test_a_module_that_was_made_with_another_number_is_another_model(tmp_path: Path) -> None:
    """Neither its weights nor what it prints show that."""
    import torch

    class Times(torch.nn.Module):
        def __init__(self, by: float) -> None:
            super().__init__()
            self.by = by

        def forward(self, rows: Any) -> Any:
            return rows * self.by

    for by in (2, 3):
        numpy.testing.assert_array_equal(predict(Times(by), X, tmp_path / "made").numpy(), X * by)


def test_large_predictions_are_refused_with_their_size(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(verb_module(), "KEPT_IN_MEMORY", 50_000)
    function = counted(tmp_path)
    with pytest.raises(
        tenfold.BadCall, match=r"to=None: the predictions for 2500 samples take 80.0 kB, more than 50.0 kB"
    ):
        predict(function, X, batch_size=1024)
    assert rows_seen(tmp_path) == 1024, "it is known after the first part"
    rows_seen(tmp_path)
    with pytest.raises(tenfold.BadCall, match=r"the predictions for 1792 samples take 57.3 kB"):
        predict(function, itertools.cycle(X), batch_size=1024)  # it never ends
    assert rows_seen(tmp_path) < 2500
    assert len(predict(function, X, tmp_path / "set", batch_size=1024)) == 2500


def verb_module() -> Any:
    import importlib

    return importlib.import_module("tenfold.verbs.predict")


_SCRIPT = """
    import pathlib, time
    import numpy
    import tenfold

    X = numpy.arange(20 * 1024.0)[:, None]

    def model(rows):
        with open("calls", "a") as file:
            file.write(f"{int(rows[0, 0]) // 1024}\\n")
        while len(rows) and rows[0, 0] >= 1024 * 12 and not pathlib.Path("go").exists():
            time.sleep(0.01)  # the work
        return rows[:, 0] + 1

    found = tenfold.predict(model, X, "set", batch_size=1024, workers=2, progress=False)
    print(len(found), numpy.array_equal(found.numpy(), X[:, 0] + 1))
"""


def _committed(run: Path) -> int:
    with contextlib.closing(Journal(Folder(run), read_only=True)) as journal:
        return journal.counts()[0]


def test_a_call_that_was_killed_goes_on(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    with scripts.started(tmp_path, _SCRIPT) as script:
        waiting.until(
            lambda: (calls.exists() and len(calls.read_text().split()) >= 13) or script.process.poll() is not None
        )
        assert script.process.poll() is None, script.err
        [run] = (tmp_path / "set").glob(".preparing-*/parts")
        waiting.until(lambda: _committed(run) > 0)  # on a busy machine, a moment later
        script.kill()
    before = calls.read_text().split()
    calls.unlink()
    (tmp_path / "go").touch()
    assert scripts.run(tmp_path, _SCRIPT).out == "20480 True\n"
    again = calls.read_text().split()
    assert len(again) < 20, "what was committed is not predicted again"
    assert {*before, *again} == set(map(str, range(20)))
    assert [path.name for path in (tmp_path / "set").glob(".prep*")] == []


# -- threads ----------------------------------------------------------------------------------------------------------


def test_several_threads_at_once_get_what_one_gets() -> None:
    expected, found = MODEL.predict_proba(X), {}

    def work(number: int) -> None:
        found[number] = predict(MODEL, X, output="predict_proba", workers=1).numpy()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [0, 1, 2, 3]
    for array in found.values():
        numpy.testing.assert_allclose(array, expected, rtol=1e-12)


# -- bad calls --------------------------------------------------------------------------------------------------------


def test_bad_calls_say_everything_at_once(tmp_path: Path) -> None:
    with pytest.raises(tenfold.BadCall) as caught:
        tenfold.predict(3, 4, "", batch_size=0, format="csv", seed=-1)  # type: ignore[arg-type]
    for part in ("model=3", "source=4", "to=''", "batch_size=0", "format='csv'", "seed=-1"):
        assert part in str(caught.value)
    with pytest.raises(tenfold.BadCall, match=r"output='odds': LogisticRegression has 'predict', .*; inputs='z'"):
        predict(MODEL, {"a": X}, inputs="z", output="odds")
    with pytest.raises(tenfold.BadCall, match="not fitted"):
        predict(LogisticRegression(), X)


def test_a_model_that_gives_too_few_rows_is_named(tmp_path: Path) -> None:
    with pytest.raises(tenfold.TasksFailed, match="expected a value for each row"):
        predict(lambda rows: rows[:1], X, tmp_path / "set")
    assert not (tmp_path / "set" / "manifest.json").exists()
