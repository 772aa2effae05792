"""`tenfold.evaluate`: the scores that scikit-learn gives for all rows at once, from every kind of source."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy
import pytest
from sklearn import metrics
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.model_selection import FixedThresholdClassifier

import scripts
import tenfold
import waiting
from tenfold import errors
from tenfold.journal.folder import Folder
from tenfold.journal.store import Journal

RNG = numpy.random.default_rng(0)
X = RNG.random((3000, 4))
NOISY = X[:, 0] + 0.3 * RNG.standard_normal(len(X))
Y = (NOISY > 0.5).astype(int) + (NOISY > 0.9)
WEIGHT = RNG.random(len(X))
GROUP = RNG.integers(0, 3, len(X))
CLASSIFIER = LogisticRegression().fit(X, Y)
REGRESSOR = LinearRegression().fit(X, NOISY)
NAMES = ["accuracy", "balanced_accuracy", "f1_macro", "log_loss", "roc_auc", "confusion"]
EXACT = 1e-9


def evaluate(*given: Any, **options: Any) -> Any:
    return tenfold.evaluate(*given, progress=False, **options)


def expected(mask: Any = slice(None), weight: Any = None) -> dict[str, Any]:
    """By scikit-learn, with all rows in memory."""
    y, p = Y[mask], CLASSIFIER.predict_proba(X[mask])
    weights = {"sample_weight": None if weight is None else weight[mask]}
    return {
        "accuracy": metrics.accuracy_score(y, p.argmax(1), **weights),
        "balanced_accuracy": metrics.balanced_accuracy_score(y, p.argmax(1), **weights),
        "f1_macro": metrics.f1_score(y, p.argmax(1), average="macro", **weights),
        "log_loss": metrics.log_loss(y, p, **weights),
        "roc_auc": metrics.roc_auc_score(y, p, multi_class="ovr", **weights),
        "confusion": metrics.confusion_matrix(y, p.argmax(1), **weights),
    }


def same(found: Any, wanted: dict[str, Any]) -> None:
    assert set(found) == set(wanted)
    for name, value in wanted.items():
        numpy.testing.assert_allclose(found[name], value, rtol=EXACT, atol=EXACT, err_msg=name)


def table(folder: Path, **more: Any) -> str:
    import pyarrow
    import pyarrow.parquet

    columns = {**{name: X[:, place] for place, name in enumerate("abcd")}, "y": Y, "w": WEIGHT, "g": GROUP, **more}
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "table.parquet", row_group_size=900)
    return str(folder / "table.parquet")


# -- scores -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["arrays", "prepared", "table", "stream"])
def test_a_classifier_has_the_scores_of_scikit_learn(kind: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {}
    source: Any = (X, Y)
    if kind == "prepared":
        source = tenfold.prepare(lambda pair: pair, (X, Y), tmp_path / "set", progress=False)
    elif kind == "table":
        source, options = table(tmp_path), {"target": "y", "inputs": ["a", "b", "c", "d"]}
    elif kind == "stream":
        source = ((x, int(y)) for x, y in zip(X, Y, strict=True))
    found = evaluate(CLASSIFIER, source, NAMES, **options)
    assert found.rows == len(X)
    same(found, expected())


def test_a_regressor_has_the_scores_of_scikit_learn() -> None:
    found = evaluate(REGRESSOR, (X, NOISY), ["mse", "rmse", "mae", "r2", "explained_variance"])
    p = REGRESSOR.predict(X)
    wanted = {
        "mse": metrics.mean_squared_error(NOISY, p),
        "rmse": metrics.mean_squared_error(NOISY, p) ** 0.5,
        "mae": metrics.mean_absolute_error(NOISY, p),
        "r2": metrics.r2_score(NOISY, p),
        "explained_variance": metrics.explained_variance_score(NOISY, p),
    }
    same(found, wanted)


def test_weights_and_groups(tmp_path: Path) -> None:
    path = table(tmp_path)
    same(evaluate(CLASSIFIER, (X, Y, WEIGHT), NAMES), expected(weight=WEIGHT))
    found = evaluate(CLASSIFIER, path, NAMES, target="y", weight="w", by="g")
    same(found, expected(weight=WEIGHT))
    assert list(found.groups) == [0, 1, 2]
    for group, scores in found.groups.items():
        same(scores, expected(GROUP == group, WEIGHT))
        assert scores.rows == (GROUP == group).sum()


def test_labels_that_are_texts_or_floats() -> None:
    texts = numpy.array(["low", "middle", "high"])[Y]
    model = LogisticRegression().fit(X, texts)
    found = evaluate(model, (X, texts), ["accuracy", "log_loss"])
    assert abs(found["log_loss"] - metrics.log_loss(texts, model.predict_proba(X))) < EXACT
    for kind in (object, "S"):  # as pandas has them, and as files of HDF5 do
        assert evaluate(model, (X, texts.astype(kind)), ["accuracy", "log_loss"]) == found
    numbers = LogisticRegression().fit(X, Y.astype(float))
    assert evaluate(numbers, (X, Y.astype(float)), "accuracy")["accuracy"] == numbers.score(X, Y)
    floats = LogisticRegression().fit(X, (Y > 0).astype(float))
    found = evaluate(floats, (X, (Y > 0).astype(float)), ["accuracy", "roc_auc"])
    assert abs(found["roc_auc"] - metrics.roc_auc_score(Y > 0, floats.predict_proba(X)[:, 1])) < EXACT


def test_an_estimator_that_was_fitted_with_a_table_gets_its_columns_by_name() -> None:
    import pandas

    frame = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
    model = LogisticRegression().fit(frame[["d", "b", "a", "c"]], Y)
    wanted = model.score(frame[["d", "b", "a", "c"]], Y)
    rows = frame.assign(y=Y)
    for inputs in (None, ["c", "b", "a", "d"]):
        assert evaluate(model, rows, "accuracy", target="y", inputs=inputs)["accuracy"] == pytest.approx(wanted, EXACT)
    with pytest.raises(errors.TasksFailed, match=r"fitted with the columns d, b, a, c.* have no d, b"):
        evaluate(model, rows, "accuracy", target="y", inputs=["a", "c"])


def test_a_classifier_without_probabilities_is_ranked_by_its_decision_function() -> None:
    words = numpy.where(Y > 0, "more", "less")
    model = RidgeClassifier().fit(X, words)
    wanted = metrics.roc_auc_score(words, model.decision_function(X))
    assert evaluate(model, (X, words), "roc_auc")["roc_auc"] == pytest.approx(wanted, EXACT)
    both = evaluate(model, (X, words), ["roc_auc", "accuracy"])
    assert both["roc_auc"] == pytest.approx(wanted, EXACT)
    assert both["accuracy"] == pytest.approx(model.score(X, words), EXACT)
    with pytest.raises(errors.BadCall, match=r"RidgeClassifier has no predict_proba, which log_loss"):
        evaluate(model, (X, words), ["roc_auc", "log_loss"])


def test_classes_are_what_the_estimator_predicts_whatever_else_is_asked() -> None:
    """One that decides by a threshold of its own is no argmax of its probabilities."""
    y = (Y > 0).astype(int)
    model = FixedThresholdClassifier(LogisticRegression(), threshold=0.1).fit(X, y)
    found = evaluate(model, (X, y), ["accuracy", "f1", "confusion", "roc_auc", "log_loss", "mae", Within(0.5)], by="y")
    predicted, scores = model.predict(X), model.predict_proba(X)
    assert metrics.accuracy_score(y, scores.argmax(1)) != metrics.accuracy_score(y, predicted)
    assert found["accuracy"] == found["within"] == pytest.approx(metrics.accuracy_score(y, predicted), EXACT)
    assert found["f1"] == pytest.approx(metrics.f1_score(y, predicted), EXACT)
    assert found["mae"] == pytest.approx(metrics.mean_absolute_error(y, predicted), EXACT)
    assert numpy.array_equal(found["confusion"], metrics.confusion_matrix(y, predicted))
    assert found["roc_auc"] == pytest.approx(metrics.roc_auc_score(y, scores[:, 1]), EXACT)
    assert found["log_loss"] == pytest.approx(metrics.log_loss(y, scores), EXACT)
    assert found.groups[0]["accuracy"] == pytest.approx(model.score(X[y == 0], y[y == 0]), EXACT)


def test_columns_of_a_table_go_in_as_one_array_where_the_estimator_knows_no_names(tmp_path: Path) -> None:
    import pandas

    numpy.savez(tmp_path / "rows.npz", x=X, y=Y)
    wanted = {"accuracy": CLASSIFIER.score(X, Y)}
    rows = str(tmp_path / "rows.npz")
    for inputs in (None, "x", ["x"]):
        same(evaluate(CLASSIFIER, rows, "accuracy", target="y", inputs=inputs), wanted)
    frame = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
    assert numpy.array_equal(tenfold.predict(CLASSIFIER, frame, progress=False).numpy(), CLASSIFIER.predict(X))
    with pytest.raises(errors.TasksFailed, match=r"the columns a, b, c, d, e, which are not all numbers.* inputs="):
        evaluate(CLASSIFIER, frame.assign(y=Y, e="text"), "accuracy", target="y")


def test_texts_of_a_dataframe_are_labels(tmp_path: Path) -> None:
    import pandas

    frame = pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "label": numpy.array(["no", "perhaps", "yes"], object)[Y]})
    model = LogisticRegression().fit(frame[["a", "b"]], frame["label"])
    assert model.classes_.dtype == object
    found = evaluate(model, frame, ["accuracy", "roc_auc"], target="label")
    p = model.predict_proba(frame[["a", "b"]])
    wanted = {
        "accuracy": model.score(frame[["a", "b"]], frame["label"]),
        "roc_auc": metrics.roc_auc_score(frame["label"], p, multi_class="ovr"),
    }
    same(found, wanted)
    predicted = tenfold.predict(model, frame[["a", "b"]][:2], tmp_path / "set", progress=False)
    assert predicted.numpy().dtype == "U7"
    assert predicted.numpy().tolist() == model.predict(frame[["a", "b"]][:2]).tolist()


def test_a_bootstrap_is_the_same_every_time_for_any_number_of_workers() -> None:
    first = evaluate(CLASSIFIER, (X, Y), ["accuracy", "log_loss"], bootstrap=50, workers=1)
    again = evaluate(CLASSIFIER, (X, Y), ["accuracy", "log_loss"], bootstrap=50, workers=2, batch_size=100)
    low, high = first.interval("accuracy")
    assert low < first["accuracy"] < high
    assert first.intervals["accuracy"] == again.intervals["accuracy"]
    numpy.testing.assert_allclose(first.intervals["log_loss"], again.intervals["log_loss"], rtol=EXACT)
    assert evaluate(CLASSIFIER, (X, Y), "accuracy", bootstrap=50, seed=1).intervals["accuracy"] != (low, high)


def test_several_models_and_several_data_sets_in_one_call() -> None:
    always = LogisticRegression().fit(X, Y > 0)
    models = {"full": CLASSIFIER, "two": always}
    sources = {"train": (X[:2000], Y[:2000]), "test": (X[2000:], Y[2000:])}
    found = evaluate(models, sources, ["accuracy"])
    for name, (x, y) in sources.items():
        for model, estimator in models.items():
            assert found[name][model]["accuracy"] == metrics.accuracy_score(y, estimator.predict(x))
    assert found["test"]["full"].rows == 1000


class Noisy:
    """An estimator that says when it is loaded."""

    classes_ = numpy.array([0, 1, 2])

    def __init__(self, number: int, log: str) -> None:
        self.number, self.log = number, log

    def fit(self) -> None: ...

    def predict(self, rows: Any) -> Any:
        return numpy.full(len(rows), self.number % 3)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        with open(self.log, "a") as file:
            file.write(f"{self.number}\n")


def test_each_of_many_models_is_loaded_once(tmp_path: Path) -> None:
    models = {str(number): Noisy(number, str(tmp_path / "loaded")) for number in range(6)}
    evaluate(models, (X, Y), "accuracy", workers=1)
    assert sorted((tmp_path / "loaded").read_text().split()) == sorted(models)


def test_approximate_scores_are_within_their_bound() -> None:
    y = (Y > 0).astype(int)
    model = LogisticRegression().fit(X, y)
    exact = evaluate(model, (X, y), ["roc_auc", "average_precision"])
    rounded = evaluate(model, (X, y), ["roc_auc", "average_precision"], approximate=True)
    assert not exact.bounds
    for name, bound in rounded.bounds.items():
        assert 0 <= abs(rounded[name] - exact[name]) <= bound < 0.01
    assert set(rounded.bounds) == {"roc_auc", "average_precision"}


class Within:
    """A metric of a user's: how many predictions are within a distance."""

    def __init__(self, distance: float) -> None:
        self.distance = distance
        self.name = "within"

    def init(self) -> tuple[int, int]:
        return 0, 0

    def update(self, state: tuple[int, int], truth: Any, predicted: Any) -> tuple[int, int]:
        return state[0] + int((abs(truth - predicted) < self.distance).sum()), state[1] + len(truth)

    def merge(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return a[0] + b[0], a[1] + b[1]

    def result(self, state: tuple[int, int]) -> float:
        return state[0] / state[1]


@pytest.mark.parametrize("given", [Within(0.3), [Within(0.3)], {"within": Within(0.3)}], ids=["one", "list", "dict"])
def test_a_metric_of_the_users(given: Any) -> None:
    found = evaluate(REGRESSOR, (X, NOISY), given)
    assert found["within"] == float((abs(NOISY - REGRESSOR.predict(X)) < 0.3).mean())


def test_a_metric_may_give_numbers_of_numpy() -> None:
    class Short(Within):
        def result(self, state: Any) -> Any:
            return numpy.float32(super().result(state))

    found = evaluate(REGRESSOR, (X, NOISY), Short(0.3))
    assert type(found["within"]) is float
    assert "within" in str(found)


def test_a_model_may_write_to_its_rows() -> None:
    def double(rows: Any) -> Any:
        rows *= 2
        return rows

    column = X[:, 0].copy()
    found = evaluate({"one": double, "another": double}, (column, column * 2), ["mae"])
    assert [scores["mae"] for scores in found.values()] == [0, 0]
    found = evaluate(double, {"x": column, "other": Y}, ["mae"], inputs="x", target="x")
    assert found["mae"] == pytest.approx(column.mean())


def test_rows_of_an_estimator_that_name_no_class_or_several_are_refused() -> None:
    """Of a forest that was fitted with one-hot rows, for example: the first class would be taken for none."""
    from sklearn.ensemble import RandomForestClassifier

    rows = numpy.eye(3, dtype=int)[Y]
    forest = RandomForestClassifier(5, max_depth=2, random_state=0).fit(X, rows)
    assert (forest.predict(X).sum(axis=1) != 1).any()
    for model in (forest, lambda x: forest.predict(x) > 0):
        with pytest.raises(tenfold.TasksFailed, match=r"predicted .* is not one-hot"):
            evaluate(model, (X, rows), ["accuracy"])


def test_dates_are_groups_by_their_names() -> None:
    days = numpy.array(["2020-01-01", "2020-01-02", "NaT"], "M8[ns]")[GROUP]
    found = evaluate(REGRESSOR, {"x": X, "y": NOISY, "day": days}, ["mae"], inputs="x", target="y", by="day")
    assert [None if day is None else str(day.date()) for day in found.groups] == [None, "2020-01-01", "2020-01-02"]


# -- a run ------------------------------------------------------------------------------------------------------------

_SCRIPT = """
    import os, pathlib, time
    import numpy
    import tenfold

    X = numpy.arange(20 * 1024.0)[:, None]

    def model(rows):
        with open("calls", "a") as file:
            file.write(f"{int(rows[0, 0]) // 1024}\\n")
        while len(rows) and rows[0, 0] >= 1024 * 12 and not pathlib.Path("go").exists():
            time.sleep(0.01)  # the work
        return rows[:, 0] + 1

    found = tenfold.evaluate(model, (X, X[:, 0]), ["mae", "mse"], batch_size=1024, run="run", workers=2, progress=False)
    print(found["mae"], found["mse"], found.rows)
"""


def _committed(run: Path) -> int:
    with contextlib.closing(Journal(Folder(run), read_only=True)) as journal:
        return journal.counts()[0]


def test_a_run_goes_on_after_a_kill(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    with scripts.started(tmp_path, _SCRIPT) as script:
        waiting.until(
            lambda: (calls.exists() and len(calls.read_text().split()) >= 13) or script.process.poll() is not None
        )
        assert script.process.poll() is None, script.err
        waiting.until(lambda: _committed(tmp_path / "run") > 0)  # on a busy machine, a moment later
        script.kill()
    before = len(calls.read_text().split())
    calls.unlink()
    (tmp_path / "go").touch()
    assert scripts.run(tmp_path, _SCRIPT).out == "1.0 1.0 20480\n"
    again = calls.read_text().split()
    assert len(again) < 20, "what was committed is not predicted again"
    assert len(again) + before >= 20
    calls.unlink()
    assert scripts.run(tmp_path, _SCRIPT).out == "1.0 1.0 20480\n"
    assert not calls.exists()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"bootstrap": 5}, "bootstrap has changed"),
        ({"approximate": True}, "approximate has changed"),
        ({"metrics": ["accuracy", "roc_auc"]}, "metrics has changed"),
        ({"source": (X, 2 - Y)}, "item 0"),
        ({"model": LogisticRegression(C=0.1).fit(X, Y)}, "model.* has changed"),
    ],
    ids=["bootstrap", "approximate", "metrics", "source", "model"],
)
def test_a_run_of_another_call_is_refused(change: dict[str, Any], text: str, tmp_path: Path) -> None:
    call: dict[str, Any] = {"model": CLASSIFIER, "source": (X, Y), "metrics": ["roc_auc"], "run": tmp_path / "run"}
    evaluate(**call)
    with pytest.raises(errors.RunDiffers, match=text):
        evaluate(**{**call, **change})


def test_a_run_of_another_metric_of_the_users_is_refused(tmp_path: Path) -> None:
    evaluate(REGRESSOR, (X, NOISY), Within(0.3), run=tmp_path / "run")
    with pytest.raises(errors.RunDiffers, match="metric 0 has changed"):
        evaluate(REGRESSOR, (X, NOISY), Within(0.4), run=tmp_path / "run")


# -- bad calls --------------------------------------------------------------------------------------------------------


def test_bad_calls_say_everything_at_once() -> None:
    with pytest.raises(tenfold.BadCall) as caught:
        tenfold.evaluate(3, X, ["acuracy", "nothing"], batch_size=0, bootstrap=-1, seed=-1)
    for part in ("model=3", "nothing to compare", "'acuracy' is not known; did you mean 'accuracy'", "'nothing'"):
        assert part in str(caught.value)
    for part in ("batch_size=0", "bootstrap=-1", "seed=-1"):
        assert part in str(caught.value)
    with pytest.raises(tenfold.BadCall, match=r"model=\{\}.*source=\{\}"):
        evaluate({}, {}, "accuracy")
    with pytest.raises(
        tenfold.BadCall, match=r"list is no model \(tenfold.evaluate takes several in a dict, by name\)"
    ):
        evaluate([CLASSIFIER, CLASSIFIER], (X, Y), "accuracy")


@pytest.mark.parametrize("role", ["target", "weight", "by", "inputs"])
def test_a_column_that_is_not_there_is_named(role: str, tmp_path: Path) -> None:
    options = {"target": "y", role: "z"}
    with pytest.raises(
        tenfold.BadCall, match=f"{role}='z': there is no such column; the source has a, b, c, d, y, w, g"
    ):
        evaluate(CLASSIFIER, table(tmp_path), "accuracy", **options)


def test_weights_that_are_no_numbers_and_groups_of_several_are_refused_before_work_starts() -> None:
    rows = {"x": X, "y": Y, "w": numpy.array(["u"] * len(X))}
    with pytest.raises(
        tenfold.BadCall,
        match=r"weight='w': a row of it is <U1; expected a number; by='x': a row of it is float64 of shape \(4,\)",
    ):
        evaluate(CLASSIFIER, rows, "accuracy", target="y", inputs="x", weight="w", by="x")


def test_rows_of_another_width_than_the_model_takes_are_refused_before_work_starts() -> None:
    text = "takes rows of 4 numbers, and the source has rows of {}; say which columns"
    with pytest.raises(tenfold.BadCall, match=text.format(3)):
        evaluate({"it": CLASSIFIER}, {"first": (X[:, :3], Y)}, "accuracy")
    with pytest.raises(tenfold.BadCall, match=text.format(2)):
        tenfold.predict(CLASSIFIER, {"a": X[:, 0], "b": X[:, 1]}, progress=False)


def test_a_model_of_several_outputs_wants_one_named() -> None:
    def both(rows: Any) -> Any:
        return {"a": rows[:, 0], "b": rows[:, 1]}

    with pytest.raises(tenfold.TasksFailed, match=r"several outputs \(a, b\); name one with output="):
        evaluate(both, (X, NOISY), "mse")
    found = evaluate(both, (X, NOISY), "mse", output="b")
    assert abs(found["mse"] - metrics.mean_squared_error(NOISY, X[:, 1])) < EXACT
