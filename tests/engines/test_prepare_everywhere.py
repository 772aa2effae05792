"""`prepare`, `predict` and `evaluate` on every engine: rows and scores equal the serial engine's, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

import tenfold

X = numpy.random.default_rng(0).random((60, 4))
Y = (X[:, 0] > 0.5).astype(int)


def double(row: Any) -> Any:
    return row * 2


def some_twice(row: Any) -> Any:
    return [(row, 1), (-row, 0)] if row[0] > 0.4 else None


def in_batches(rows: Any) -> Any:
    return {"mean": rows.mean(1), "size": numpy.full(len(rows), len(rows))}


def fail_at_some(row: Any) -> Any:
    if row[0] > 0.9:
        raise ValueError("a corrupt sample")
    return row


def noisy(row: Any) -> Any:
    return row + numpy.random.random(4) + tenfold.here().rng.random()


CASES: dict[str, tuple[Callable[[Any], Any], dict[str, Any]]] = {
    "one to one": (double, {}),
    "filtered and several": (some_twice, {}),
    "batched": (in_batches, {"batched": True, "batch": 7}),
    "one that fails": (fail_at_some, {}),
    "random": (noisy, {}),
}


def _arrays(prepared: tenfold.Prepared) -> list[Any]:
    found = prepared.numpy()
    return list(found.values()) if isinstance(found, dict) else list(found) if isinstance(found, tuple) else [found]


@pytest.mark.filterwarnings("ignore:.* samples failed and were left out")
@pytest.mark.parametrize("case", CASES)
def test_a_set_is_the_same_on_every_engine(engine: str, case: str, tmp_path: Path) -> None:
    function, options = CASES[case]
    here = tenfold.prepare(function, X, tmp_path / "here", engine="serial", progress=False, **options)
    there = tenfold.prepare(function, X, tmp_path / "there", engine=engine, progress=False, **options)
    for one, other in zip(_arrays(here), _arrays(there), strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()
    assert [fault["sample"] for fault in here.quarantine] == [fault["sample"] for fault in there.quarantine]
    assert [fault["error"] for fault in here.quarantine] == [fault["error"] for fault in there.quarantine]
    assert there.verify() == []


def test_a_stream_is_the_same_on_every_engine(engine: str, tmp_path: Path) -> None:
    found = tenfold.prepare(double, (row for row in X), tmp_path / "set", engine=engine, progress=False)
    assert numpy.array_equal(found.numpy(), X * 2)


def test_predictions_and_scores_are_the_same_on_every_engine(engine: str) -> None:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression().fit(X, Y)
    names = ["accuracy", "log_loss", "roc_auc", "confusion"]
    options: dict[str, Any] = {"batch_size": 32, "progress": False}
    here, there = (
        tenfold.predict(model, X, output="predict_proba", engine=e, **options).numpy() for e in ("serial", engine)
    )
    assert here.tobytes() == there.tobytes()
    first, second = (
        tenfold.evaluate(model, (X, Y), names, bootstrap=10, engine=e, **options) for e in ("serial", engine)
    )
    assert first.as_dict() == second.as_dict()
