"""PyTorch estimators as people use them. Those of Keras are asked the same in `test_sklearn_keras.py`."""

from __future__ import annotations

import functools
import pickle
import random
import re
from pathlib import Path
from typing import Any

import joblib
import numpy
import pytest
import sklearn_builds as builds
import torch
import torch._dynamo  # the first optimizer would, which sets an environment variable in the middle of a test
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import tenfold
from tenfold.errors import BadCall
from tenfold.sklearn import GridSearch, TorchClassifier, TorchRegressor
from tenfold.sklearn.making import Maker

pytestmark = pytest.mark.usefixtures("one_thread")

RNG = numpy.random.default_rng(0)
X = RNG.normal(size=(60, 4))
NAMES = numpy.array(["low", "middle", "high"])[numpy.digitize(X[:, 0] + X[:, 1], (-0.6, 0.6))]
SIDES = numpy.where(X[:, 0] > 0, "right", "left")
AMOUNTS = X[:, 0] - 2 * X[:, 1]


def classifier(**settings: Any) -> TorchClassifier:
    return TorchClassifier(builds.torch_classes, **{"epochs": 15, "random_state": 0, "lr": 0.05, **settings})


def scheduled(lr: float = 0.05) -> Any:
    module, loss, _ = builds.torch_classes(4, 3)
    optimizer = torch.optim.SGD(module.parameters(), lr)
    return module, loss, optimizer, torch.optim.lr_scheduler.MultiStepLR(optimizer, [1, 2], 0.1)


# -- parameters -------------------------------------------------------------------------------------------------------


def test_parameters_of_build_are_parameters_of_the_estimator() -> None:
    estimator = TorchClassifier(builds.torch_classes, width=8)
    params = estimator.get_params()
    assert (params["width"], params["lr"]) == (8, 0.1), "what was given, and the default of the function"
    assert "n_features" not in params, "they are filled in"
    assert estimator.set_params(lr=0.5, epochs=3) is estimator
    assert (estimator.lr, estimator.epochs) == (0.5, 3)
    estimator.lr = 0.25
    assert clone(estimator).get_params()["lr"] == 0.25
    with pytest.raises(AttributeError, match="no attribute 'depth'"):
        estimator.depth


def test_another_build_has_defaults_of_its_own() -> None:
    def other(n_features: int, n_classes: int, lr: float = 0.5) -> Any:
        return builds.torch_classes(n_features, n_classes, lr)

    estimator = TorchClassifier(builds.torch_classes, random_state=0)
    changed = clone(estimator).set_params(build=other)
    assert "width" not in changed.get_params()
    assert changed.get_params()["lr"] == 0.5
    assert changed.set_params(build=builds.torch_classes, lr=0.2).get_params()["width"] == 16
    assert clone(changed).set_params(build=other).get_params()["lr"] == 0.2, "what was given stays"
    search = GridSearch(estimator, {"build": [builds.torch_classes, other]}, cv=2, engine="serial", progress=False)
    assert search.fit(X, NAMES).cv_results_["mean_test_score"].min() > 0


def test_an_unknown_parameter_is_refused_with_those_that_exist() -> None:
    with pytest.raises(BadCall, match=r"'depth': TorchClassifier has no such parameter, and build takes 'n_features'"):
        classifier().set_params(depth=3)
    anything = TorchClassifier(lambda **params: builds.torch_classes(4, 3, **params))
    assert anything.set_params(width=3).get_params()["width"] == 3


def test_fit_kwargs_are_kept_on_clone_and_win() -> None:
    estimator = clone(classifier(fit_kwargs={"epochs": 2, "validation_split": 0.25}))
    estimator.fit(X, NAMES)
    assert {name: len(values) for name, values in estimator.history_.items()} == {"loss": 2, "val_loss": 2}
    with pytest.raises(BadCall, match="fit_kwargs has 'steps'; accepted are epochs, batch_size"):
        classifier(fit_kwargs={"steps": 2}).fit(X, NAMES)


def test_build_is_told_about_the_data_and_the_training() -> None:
    told: dict[str, Any] = {}

    def build(n_features: int, n_classes: int, input_shape: Any, epochs: int, batch_size: int, seed: int) -> Any:
        told.update(locals())
        return builds.torch_classes(n_features, n_classes)

    TorchClassifier(build, epochs=2, random_state=7).fit(X, NAMES)
    wanted = {"n_features": 4, "n_classes": 3, "input_shape": (4,), "epochs": 2, "batch_size": 32, "seed": 7}
    assert {name: told[name] for name in wanted} == wanted
    with pytest.raises(BadCall, match="a model with one output, and y has 3 classes") as raised:
        TorchClassifier(builds.torch_classes, n_classes=1).fit(X, NAMES)
    assert "give build a parameter n_classes" in str(raised.value)


@pytest.mark.parametrize(
    ("build", "fault"),
    [
        (3, "build=3: expected a function"),
        (nn.Linear(4, 3), "build=Linear(in_features=4, out_features=3, bias=True) is a model; give the function that"),
        (lambda: nn.Linear(4, 3), "expected (module, loss, optimizer)"),
        (lambda: (nn.Linear(4, 3), nn.CrossEntropyLoss(), 5), "optimizer is of int"),
        (lambda: (nn.LSTM(4, 3), nn.CrossEntropyLoss(), torch.optim.SGD([torch.zeros(1)])), "one output"),
    ],
)
def test_what_build_must_return_is_said(build: Any, fault: str) -> None:
    with pytest.raises(BadCall, match=re.escape(fault)):
        TorchClassifier(build).fit(X, NAMES)


# -- losses, and what y looks like for them ---------------------------------------------------------------------------


def built_with(loss: Any, outputs: int, last: Any = None, flat: bool = False) -> Any:
    def build(n_features: int) -> tuple[Any, Any, Any]:
        layers = [nn.Linear(n_features, 8), nn.Tanh(), nn.Linear(8, outputs)]
        module = nn.Sequential(*layers, *([last] if last else []), *([nn.Flatten(0)] if flat else []))
        return module, loss, torch.optim.Adam(module.parameters(), 0.05)

    return build


def of_chances(outputs: Any, y: Any) -> Any:
    return nn.functional.binary_cross_entropy(outputs, y)


class OfChances(nn.BCELoss):
    pass


of_odds = nn.functional.binary_cross_entropy_with_logits


@pytest.mark.parametrize(
    ("build", "y"),
    [
        pytest.param(built_with(nn.CrossEntropyLoss(), 3), NAMES, id="cross entropy"),
        pytest.param(built_with(nn.CrossEntropyLoss(), 5), NAMES, id="more outputs than classes"),
        pytest.param(built_with(nn.NLLLoss(), 3, nn.LogSoftmax(1)), NAMES, id="log probabilities"),
        pytest.param(built_with(nn.BCEWithLogitsLoss(), 1), SIDES, id="one logit"),
        pytest.param(built_with(nn.BCEWithLogitsLoss(), 1, flat=True), SIDES, id="one logit, no column"),
        pytest.param(built_with(nn.BCELoss(), 1, nn.Sigmoid()), SIDES, id="one probability"),
        pytest.param(built_with(nn.BCEWithLogitsLoss(), 3), NAMES, id="odds of each class"),
        pytest.param(built_with(nn.MSELoss(), 3), NAMES, id="mean squares of one-hot"),
        pytest.param(built_with(nn.functional.cross_entropy, 3), NAMES, id="a function"),
        pytest.param(built_with(of_chances, 1, nn.Sigmoid(), flat=True), SIDES, id="one's own, of a probability"),
        pytest.param(built_with(OfChances(), 1, nn.Sigmoid()), SIDES, id="a class that comes of PyTorch's"),
        pytest.param(built_with(functools.partial(of_odds, reduction="mean"), 3), NAMES, id="a part of a function"),
    ],
)
def test_labels_and_probabilities_for_every_loss(build: Any, y: numpy.ndarray) -> None:
    estimator = TorchClassifier(build, epochs=40, random_state=0).fit(X, y)
    assert list(estimator.classes_) == sorted(set(y))
    chances = estimator.predict_proba(X)
    assert chances.shape == (60, len(set(y)))
    numpy.testing.assert_allclose(chances.sum(axis=1), 1, rtol=1e-5)
    numpy.testing.assert_array_equal(estimator.classes_[chances.argmax(axis=1)], estimator.predict(X))
    assert estimator.score(X, y) > 0.85


def test_a_hinge_has_classes_and_no_probabilities() -> None:
    estimator = TorchClassifier(built_with(nn.MultiMarginLoss(), 3), epochs=40, random_state=0).fit(X, NAMES)
    assert estimator.score(X, NAMES) > 0.85
    with pytest.raises(BadCall, match="a hinge loss gives no probabilities"):
        estimator.predict_proba(X)


def test_one_output_cannot_tell_three_classes_apart() -> None:
    with pytest.raises(BadCall, match="a model with one output, and y has 3 classes"):
        TorchClassifier(built_with(nn.BCEWithLogitsLoss(), 1)).fit(X, NAMES)


@pytest.mark.parametrize("flat", [False, True])
def test_a_regressor_gives_what_y_looked_like(flat: bool) -> None:
    estimator = TorchRegressor(built_with(nn.MSELoss(), 1, flat=flat), epochs=60, random_state=0)
    assert estimator.fit(X, AMOUNTS).predict(X).shape == (60,)
    assert estimator.score(X, AMOUNTS) > 0.9
    assert estimator.fit(X, AMOUNTS[:, None]).predict(X).shape == (60, 1)


def test_a_regressor_predicts_several_numbers() -> None:
    y = numpy.stack([AMOUNTS, -AMOUNTS, X[:, 2]], axis=1)
    estimator = TorchRegressor(builds.torch_numbers, epochs=60, random_state=0, lr=0.02).fit(X, y)
    assert estimator.predict(X[:7]).shape == (7, 3)
    assert estimator.score(X, y) > 0.8
    with pytest.raises(BadCall, match="a model with 1 outputs, and y has 3 columns"):
        TorchRegressor(built_with(nn.MSELoss(), 1)).fit(X, y)


def test_integers_are_looked_up_where_there_is_a_table_and_calculated_with_elsewhere() -> None:
    words = RNG.integers(0, 9, (60, 4))

    def build(n_classes: int) -> tuple[Any, Any, Any]:
        module = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(16, n_classes))
        return module, nn.CrossEntropyLoss(), torch.optim.Adam(module.parameters(), 0.05)

    hidden = functools.partial(lambda inner, n_classes: inner(n_classes), build)
    for looks_up in (build, hidden):  # the word in its code, and nothing to tell it by
        estimator = TorchClassifier(looks_up, epochs=30, random_state=0, n_classes=2).fit(words, words[:, 0] > 4)
        assert estimator.score(words, words[:, 0] > 4) > 0.9
    assert classifier(epochs=30).fit(words, words[:, 0] > 4).score(words, words[:, 0] > 4) > 0.9


# -- weights, seeds ---------------------------------------------------------------------------------------------------


def test_rows_count_by_their_weight_and_their_class() -> None:
    weight = RNG.integers(0, 3, 60)
    settings = {"epochs": 5, "batch_size": 200, "shuffle": False}
    one = classifier(**settings).fit(X, NAMES, sample_weight=weight)
    other = classifier(**settings).fit(X.repeat(weight, axis=0), NAMES.repeat(weight))
    numpy.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), rtol=1e-6)
    by_hand = {name: 60 / (3 * (NAMES == name).sum()) for name in set(NAMES)}
    balanced = classifier(**settings, class_weight="balanced").fit(X, NAMES).predict_proba(X)
    numpy.testing.assert_array_equal(
        balanced, classifier(**settings, class_weight=by_hand).fit(X, NAMES).predict_proba(X)
    )
    assert not numpy.allclose(balanced, classifier(**settings).fit(X, NAMES).predict_proba(X))


def test_a_number_is_the_seed_and_none_draws_one() -> None:
    def seeds(state: Any) -> list[int]:
        estimator = classifier(epochs=1, random_state=state)
        return [estimator.fit(X, NAMES)._trained.result.params["seed"] for _ in range(2)]

    assert seeds(7) == [7, 7]
    numpy.random.seed(3)
    drawn = seeds(None)
    assert len(set(drawn)) == 2
    numpy.random.seed(3)
    assert seeds(None) == drawn, "from NumPy's global random numbers, as scikit-learn does"
    assert len(set(seeds(numpy.random.RandomState(1)))) == 2


def test_the_callers_random_numbers_are_left_alone() -> None:
    def draws() -> tuple[Any, ...]:
        return numpy.random.rand(), random.random(), torch.rand(1).item()

    numpy.random.seed(1), random.seed(1), torch.manual_seed(1)
    expected = draws()
    numpy.random.seed(1), random.seed(1), torch.manual_seed(1)
    estimator = classifier(epochs=1).fit(X, NAMES)
    estimator.predict(X)
    estimator.partial_fit(X, NAMES)
    assert draws() == expected


# -- going on, and travelling -----------------------------------------------------------------------------------------


def test_partial_fits_are_epochs_of_a_fit() -> None:
    whole = classifier(epochs=3).fit(X, NAMES)
    parts = classifier(epochs=77)
    for _ in range(3):
        parts.partial_fit(X, NAMES, classes=["high", "low", "middle"])
    assert parts.history_ == whole.history_
    numpy.testing.assert_array_equal(parts.predict_proba(X), whole.predict_proba(X))


def test_partial_fits_go_on_with_a_schedule() -> None:
    whole = TorchClassifier(scheduled, epochs=4, random_state=0).fit(X, NAMES)
    parts = TorchClassifier(scheduled, random_state=0)
    for _ in range(4):
        parts.partial_fit(X, NAMES, classes=["high", "low", "middle"])
        parts = pickle.loads(pickle.dumps(parts))
    assert parts.history_ == whole.history_


def test_partial_fit_goes_on_after_a_journey_and_after_a_fit() -> None:
    here = classifier()
    here.partial_fit(X, NAMES, classes=["high", "low", "middle"])
    there = pickle.loads(pickle.dumps(here))
    for estimator in (here, there):
        estimator.partial_fit(X, NAMES)
    assert len(there.history_["loss"]) == 2
    numpy.testing.assert_array_equal(here.predict_proba(X), there.predict_proba(X))
    fitted = classifier(epochs=2).fit(X, NAMES)
    before = fitted.predict_proba(X)
    fitted.partial_fit(X[:8], NAMES[:8])
    assert len(fitted.history_["loss"]) == 3
    assert not numpy.array_equal(before, fitted.predict_proba(X))


def test_partial_fit_is_told_all_classes_once() -> None:
    with pytest.raises(BadCall, match="classes must be given to the first call"):
        classifier().partial_fit(X, NAMES)
    estimator = classifier()
    estimator.partial_fit(X[:1], NAMES[:1], classes=["high", "low", "middle"])
    assert list(estimator.classes_) == ["high", "low", "middle"]
    with pytest.raises(BadCall, match="not among the classes"):
        estimator.partial_fit(X[:1], ["sideways"])
    with pytest.raises(BadCall, match="differ from those of the first call"):
        estimator.partial_fit(X[:1], NAMES[:1], classes=["low", "high"])


@pytest.mark.parametrize("way", ["pickle", "joblib"])
def test_a_fitted_estimator_travels(way: str, tmp_path: Path) -> None:
    estimator = classifier().fit(X, NAMES)
    expected = estimator.predict_proba(X)
    if way == "joblib":
        joblib.dump(estimator, tmp_path / "it.joblib")
        found = joblib.load(tmp_path / "it.joblib")
    else:
        found = pickle.loads(pickle.dumps(estimator))
    assert found._trained._live is None, "the model stays at home"
    numpy.testing.assert_array_equal(found.predict_proba(X), expected)
    assert found.history_ == estimator.history_


def test_the_model_and_its_history_are_there() -> None:
    estimator = classifier(epochs=2)
    assert not hasattr(estimator, "model_")
    estimator.fit(X, NAMES)
    assert isinstance(estimator.model_, nn.Module)
    assert estimator.model_ is estimator.model_
    assert not estimator.model_.training
    assert len(estimator.history_["loss"]) == 2
    with torch.no_grad():
        logits = estimator.model_(torch.tensor(X))
    numpy.testing.assert_allclose(torch.softmax(logits, 1).numpy(), estimator.predict_proba(X), rtol=1e-6)


def test_a_fit_that_failed_is_no_fit() -> None:
    estimator = classifier(n_classes=1)
    with pytest.raises(BadCall):
        estimator.fit(X, NAMES)
    with pytest.raises(Exception, match="not fitted yet"):
        estimator.predict(X)


# -- validation, callbacks, words -------------------------------------------------------------------------------------


@pytest.mark.parametrize("validation", [0.25, (X[:20], NAMES[:20]), (X[:20], NAMES[:20], numpy.ones(20))])
def test_early_stopping_watches_rows_of_its_own(validation: Any) -> None:
    rule = tenfold.EarlyStopping(patience=1, min_delta=0.2)
    estimator = clone(classifier(epochs=40, validation=validation, callbacks=[rule])).fit(X, NAMES)
    assert len(estimator.history_["val_loss"]) < 40
    with pytest.raises(BadCall, match=r"validation has 1 parts, expected \(X, y\)"):
        classifier(validation=(X,)).fit(X, NAMES)


def test_a_line_for_each_epoch_where_one_wants_it(capsys: pytest.CaptureFixture[str]) -> None:
    classifier(epochs=2, verbose=1, metrics=["accuracy"]).fit(X, NAMES)
    assert re.fullmatch(r"epoch 1 of 2: loss [\d.]+, accuracy [\d.]+\nepoch 2 of 2: .*\n", capsys.readouterr().out)
    classifier(epochs=2).fit(X, NAMES)
    assert capsys.readouterr().out == ""


def test_scikit_learn_goes_its_ways_with_it() -> None:
    scores = cross_val_score(make_pipeline(StandardScaler(), classifier(epochs=25)), X, NAMES, cv=3)
    assert scores.mean() > 0.7
    assert "TorchClassifier(build=<function torch_classes" in repr(classifier())
    assert "lr=0.05" in repr(classifier())


def test_a_maker_says_what_it_makes() -> None:
    estimator = classifier(epochs=1).fit(X, NAMES)
    maker = estimator._trained._maker
    assert isinstance(maker, Maker)
    assert maker.__tenfold_parts__()["build"] is builds.torch_classes
