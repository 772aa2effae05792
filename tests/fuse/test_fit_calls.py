"""What a `Fit` accepts, and what it says about what it does not. No model is built here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pytest

import tenfold
from tenfold.fuse import columns
from tenfold.fuse.building import check_takes, member
from tenfold.fuse.stopping import Patience

X, Y = numpy.ones((10, 3)), numpy.arange(10)


def build(lr: float = 0.1, width: int = 4) -> Any:
    raise AssertionError("nothing is built by a check")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epochs": 0}, ["epochs=0", "above 0"]),
        ({"batch_size": "32"}, ["batch_size='32'"]),
        ({"epochs": True, "batch_size": 0}, ["epochs=True", "batch_size=0"]),
        ({"validation": 1.0}, ["validation=1.0", "between 0 and 1"]),
        ({"validation": 0.99}, ["none would be left"]),
        ({"how": "fast"}, ["how='fast'", "'fused'"]),
        ({"build": 3}, ["build=3"]),
        ({"data": X}, ["data=ndarray", "(x, y)"]),
        ({"data": (X, Y[:4])}, ["y has 4 rows, x has 10"]),
        ({"data": (X, Y, numpy.ones((10, 2)))}, ["sample_weight has the shape (10, 2)"]),
        ({"data": ({"a": X, "b": X[:2]}, Y)}, ["an input of x has 2 rows"]),
        ({"data": (X[:0], Y[:0])}, ["there are no rows"]),
        ({"data": (numpy.array(["a"] * 10), Y)}, ["expected numbers"]),
        ({"data": ("nothing.npy", Y)}, ["'nothing.npy'", "exists"]),
        ({"data": "nowhere"}, ["x.npy"]),
        ({"data": (X, Y, numpy.ones(10)), "class_weight": {0: 2.0}}, ["class_weight", "sample_weight"]),
        ({"data": (X, numpy.array(["a"] * 10))}, ["data: y", "<U1", "numpy.unique"]),
        ({"data": (X.tolist(), Y)}, ["data: x", "several inputs"]),
        ({"data": (X, {"a": Y, "b": Y}, {"a": Y, "b": Y})}, ["sample_weight is several arrays", "expected one"]),
        ({"class_weight": {0: 1.0, 12: 2.0}}, ["no row is of class 12"]),
        ({"shuffle": "yes", "metrics": None}, ["shuffle='yes'", "metrics=None", "expected a list"]),
        ({"class_weight": "balanced"}, ["class_weight='balanced'", "expected a dict"]),
        ({"class_weight": {"a": 2.0}}, ["class_weight={'a': 2.0}"]),
        ({"data": (X, numpy.ones((10, 4, 3))), "class_weight": {0: 2.0}}, ["y has the shape (10, 4, 3)"]),
        ({"data": (numpy.ma.masked_less(X, 2), Y)}, ["data: x", "a masked array"]),
        (
            {"metrics": "accuracy", "callbacks": tenfold.EarlyStopping()},
            ["metrics='accuracy'", "callbacks=EarlyStopping"],
        ),
        ({"callbacks": ["loss"]}, ["callbacks: 'loss' is none"]),
        ({"callbacks": [tenfold.EarlyStopping(), tenfold.EarlyStopping()]}, ["more than one EarlyStopping"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_bad_input_is_one_clear_error(options: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(tenfold.BadCall) as caught:
        tenfold.Fit(**{"build": build, "data": (X, Y), "epochs": 2} | options)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_files_are_mapped_not_loaded(tmp_path: Path) -> None:
    numpy.save(tmp_path / "x.npy", X)
    numpy.save(tmp_path / "y.npy", Y)
    for data in (tmp_path, str(tmp_path), (tmp_path / "x.npy", str(tmp_path / "y.npy"))):
        found = tenfold.Fit(build, data, epochs=1).data
        assert isinstance(found.x, numpy.memmap)
        assert isinstance(found.y, numpy.memmap)
        numpy.testing.assert_array_equal(found.x, X)


def test_files_with_pickles_are_refused(tmp_path: Path) -> None:
    numpy.save(tmp_path / "x.npy", numpy.array([{"a": 1}], object), allow_pickle=True)
    with pytest.raises(tenfold.BadCall, match="cannot be read"):
        tenfold.Fit(build, (tmp_path / "x.npy", Y), epochs=1)


def test_only_large_files_are_streamed_in_whole_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numpy.save(tmp_path / "x.npy", numpy.zeros((100, 5)))
    assert not columns.columns((tmp_path / "x.npy", numpy.zeros(100)), "data").streams
    monkeypatch.setattr(columns, "STREAM_ABOVE", 1000)
    data = columns.columns((tmp_path / "x.npy", numpy.zeros(100)), "data")
    monkeypatch.setattr(columns, "BLOCK", 48 * 20)
    assert data.streams
    assert data.blocks(8) == [slice(start, min(start + 16, 100)) for start in range(0, 100, 16)]
    assert not columns.columns((numpy.zeros((100, 5)), numpy.zeros(100)), "data").streams


def test_numbers_of_the_other_byte_order_become_this_machines() -> None:
    fit = tenfold.Fit(build, (X.astype(">f4"), Y.astype(">i8")), epochs=1)
    assert (fit.data.x.dtype, fit.data.y.dtype) == (numpy.float32, numpy.int64)
    numpy.testing.assert_array_equal(fit.data.y, Y)


def test_class_weights_become_weights_of_rows() -> None:
    labels = numpy.array([0, 1, 2, 1])
    found = columns.weighted(columns.columns((numpy.ones(4), labels), "data"), {1: 3.0, 2: 0.5})
    numpy.testing.assert_array_equal(found.weight, [1, 3, 0.5, 3])
    found = columns.weighted(columns.columns((numpy.ones(4), numpy.eye(3)[labels]), "data"), {1: 3.0})
    numpy.testing.assert_array_equal(found.weight, [1, 3, 1, 3])


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (3, "dicts of parameters"),
        ({"seed": -1}, "seed=-1"),
        ({"seed": "a"}, "seed='a'"),
        ({"rows": []}, "rows: expected row numbers"),
        ({"rows": [0, 10]}, "rows: rows from 0 to 10 of 10"),
        ({"validation_rows": [-1]}, "validation_rows: rows from -1"),
    ],
)
def test_bad_parameters_are_named(params: Any, words: str) -> None:
    with pytest.raises(tenfold.BadCall, match=words):
        member(params, 0, 0, 10, lambda *_: None)


def test_parameters_that_build_does_not_take_are_found_without_calling_it() -> None:
    assert check_takes(build, {"lr": 1, "seed": 3, "rows": [1]}) is None
    assert "depth" in str(check_takes(build, {"depth": 3}))


def test_what_is_watched_has_to_be_scored() -> None:
    fit = tenfold.Fit(build, (X, Y), epochs=numpy.int64(2), callbacks=[tenfold.EarlyStopping()])
    fit.check([{"rows": Y[:5], "validation_rows": Y[5:]}])
    with pytest.raises(tenfold.BadCall, match=r"^EarlyStopping\(monitor='val_loss'\): nothing is scored"):
        fit.check([{"lr": 0.1}])


def test_rows_have_to_be_enough_for_a_share_of_them() -> None:
    fit = tenfold.Fit(build, (X, Y), epochs=1, validation=0.2)
    with pytest.raises(tenfold.BadCall, match=r"item 1: rows: of 1, validation=0.2 would leave none on one side"):
        fit.check([{"rows": [1, 2]}, {"rows": [1]}])
    assert tenfold.Fit(build, (X, Y), epochs=1, validation=0.0).validation is None


def test_a_mask_of_rows_is_taken() -> None:
    found = member({"rows": numpy.arange(10) % 2 == 0}, 0, 0, 10, lambda *_: None)
    assert found.rows is not None
    assert found.rows.tolist() == [0, 2, 4, 6, 8]


def test_likeness_looks_past_fractions_and_seeds() -> None:
    fit = tenfold.Fit(build, (X, Y), epochs=1)
    assert fit.likeness({"lr": 0.1, "seed": 1}) == fit.likeness({"seed": 2, "lr": 0.2})
    assert fit.likeness({"width": 3}) != fit.likeness({"width": 4})
    assert fit.likeness({"rows": numpy.arange(3)}) == fit.likeness({"rows": numpy.arange(3) + 1})
    assert fit.likeness({"rows": numpy.arange(3)}) != fit.likeness({"rows": numpy.arange(4)})


# -- early stopping ---------------------------------------------------------------------------------------------------


def stopped_at(rule: tenfold.EarlyStopping, values: list[float]) -> tuple[int | None, int]:
    watch = Patience(rule)
    for epoch, value in enumerate(values):
        watch.look(epoch, {rule.monitor: value})
        if watch.stopped:
            return epoch, watch.best_epoch
    return None, watch.best_epoch


@pytest.mark.parametrize(
    ("rule", "values", "expected"),
    [
        (tenfold.EarlyStopping("val_loss", 2), [3, 2, 4, 4, 4], (3, 1)),
        (tenfold.EarlyStopping("val_loss", 0), [3, 2, 4, 4], (2, 1)),
        (tenfold.EarlyStopping("val_accuracy", 1), [0.1, 0.5, 0.4], (2, 1)),
        (tenfold.EarlyStopping("loss", 1, mode="max"), [3, 2, 1], (1, 0)),
        (tenfold.EarlyStopping("loss", 1, min_delta=0.5), [3, 2.8, 2.7], (1, 0)),
        (tenfold.EarlyStopping("loss", 1, start_from_epoch=2), [1, 9, 5, 6, 7], (3, 2)),
        (tenfold.EarlyStopping("loss", 2, baseline=1.0), [3, 2.5, 2.2], (None, 2)),
        (tenfold.EarlyStopping("loss", 5), [3, 2, 1], (None, 2)),
        (tenfold.EarlyStopping("loss", 1), [float("nan"), 2, 1], (1, 0)),
    ],
)
def test_a_model_stops_when_it_should(rule: tenfold.EarlyStopping, values: list[float], expected: Any) -> None:
    assert stopped_at(rule, values) == expected


def test_a_name_that_is_not_in_the_history_is_an_error() -> None:
    with pytest.raises(tenfold.BadCall, match=r"monitor='val_f1'.*loss"):
        Patience(tenfold.EarlyStopping("val_f1")).look(0, {"loss": 1.0})


@pytest.mark.parametrize("options", [{"mode": "up"}, {"patience": -1}, {"monitor": ""}])
def test_bad_rules_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(tenfold.BadCall, match=next(iter(options))):
        tenfold.EarlyStopping(**options)
