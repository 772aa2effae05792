"""`tenfold.tune` with a `Fit`: folds, pruners and populations of models, and the model of the best trial."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
import torch._dynamo  # the first optimizer would, which sets an environment variable in the middle of a test
from torch import nn

import tenfold
from tenfold.errors import BadCall
from tenfold.fuse.result import FitResult

pytestmark = pytest.mark.usefixtures("one_thread")

RNG = numpy.random.default_rng(0)
X = RNG.normal(size=(60, 5)).astype("float32")
Y = (X[:, 0] > 0).astype("int64")
RATES = {"lr": tenfold.loguniform(1e-3, 1.0)}


def build(lr: float, width: int = 4) -> tuple[Any, Any, Any]:
    module = nn.Sequential(nn.Linear(5, width), nn.ReLU(), nn.Linear(width, 2))
    return module, nn.CrossEntropyLoss(), torch.optim.SGD(module.parameters(), lr=lr, momentum=0.9)


def fit_of(**more: Any) -> Any:
    settings: dict[str, Any] = {"epochs": 9, "batch_size": 16, "metrics": ["accuracy"], **more}
    return tenfold.Fit(settings.pop("build", build), (X, Y), **settings)


def tune(fit: Any, space: Any = RATES, **more: Any) -> tenfold.Study:
    return tenfold.tune(fit, space, **{"engine": "serial", "progress": False, "trials": 6, **more})


def trained(fit: Any, params: dict[str, Any]) -> FitResult:
    """The same model without a study."""
    (found,) = tenfold.map(fit, [params], engine="serial", progress=False)
    return found  # type: ignore[no-any-return]


def check_same(one: FitResult, other: FitResult) -> None:
    for name, values in other.history.items():
        numpy.testing.assert_allclose(one.history[name], values, rtol=1e-4, atol=1e-6, err_msg=name)
    for name, array in other.weights.items():  # type: ignore[union-attr]
        numpy.testing.assert_allclose(one.weights[name], array, rtol=1e-4, atol=1e-5)  # type: ignore[call-overload]


def test_trials_are_fused_and_each_is_what_it_would_be_by_itself() -> None:
    fit = fit_of(validation=0.25)
    study = tune(fit)
    assert study.objective == "val_loss"
    assert [trial.state for trial in study.trials] == ["complete"] * 6
    for trial in study.trials:
        assert trial.result.how.startswith("fused: 6 models")
        assert trial.curve == dict(enumerate(trial.result.history["val_loss"], 1))
        assert trial.value == trial.result.final["val_loss"]
        check_same(trial.result, trained(fit, trial.result.params))
    assert len({trial.result.params["seed"] for trial in study.trials}) == 6, "each has its own seed"
    model = study.best.model
    assert isinstance(model, nn.Module)
    numpy.testing.assert_array_equal(model[0].weight.detach(), study.best.result.weights["0.weight"])


def test_without_validation_the_loss_is_looked_for_and_more_accuracy_is_better() -> None:
    assert tune(fit_of(epochs=1), trials=2).objective == "loss"
    study = tune(fit_of(epochs=2, validation=0.25), objective="val_accuracy")
    assert study.direction == "maximize"
    assert study.best.value == max(trial.result.final["val_accuracy"] for trial in study.trials)


def test_an_objective_that_no_epoch_has_ends_the_study() -> None:
    with pytest.raises(BadCall, match="objective='val_auc': an epoch has loss, accuracy, val_loss, val_accuracy"):
        tune(fit_of(epochs=1, validation=0.25), objective="val_auc")


@pytest.mark.parametrize("pruner", ["asha", "hyperband"])
@pytest.mark.parametrize("how", ["auto", "alone"])
def test_models_that_go_on_are_those_that_never_stopped(pruner: str, how: str) -> None:
    fit = fit_of(validation=0.25, how=how)
    study = tune(fit, pruner=pruner, trials=9)
    steps = [trial.steps for trial in study.trials]
    assert steps.count(1) >= 3
    assert steps.count(9) >= 1
    for trial in study.trials:
        assert trial.state == ("complete" if trial.steps == 9 else "pruned")
        assert trial.result.epochs == trial.steps
    check_same(study.best.result, trained(fit, study.best.result.params))
    epochs = [(r.values["val_loss"], r.step, r.index) for r in study.results.reports()]
    assert len(epochs) == sum(steps), "no epoch is ever trained twice"


def test_patience_stops_models_and_gives_back_their_best() -> None:
    fit = fit_of(validation=0.25, epochs=12)
    study = tune(fit, {"lr": [0.01, 3.0]}, pruner=tenfold.Patience(steps=2), trials=None)
    slow, wild = study.trials
    assert wild.steps < 12
    assert wild.result.best_epoch is not None
    assert wild.value == min(wild.result.history["val_loss"]) == wild.result.final["val_loss"]
    assert {slow.state, wild.state} == {"complete"}
    with pytest.raises(BadCall, match="the Fit has an EarlyStopping already"):
        tune(fit_of(validation=0.25, callbacks=[tenfold.EarlyStopping()]), pruner="patience")


def test_median_stops_models() -> None:
    fit = fit_of(validation=0.25, epochs=4)
    space = {"lr": [0.1, 0.12, 0.14, 1e-5, 1e-6], "seed": 1}
    study = tune(fit, space, pruner=tenfold.Median(startup=3), trials=None, at_once=3)
    assert [trial.state for trial in study.trials] == ["complete"] * 3 + ["pruned"] * 2
    assert study.trials[3].steps < 4


def test_a_population_of_models() -> None:
    fit = fit_of(validation=0.25)
    study = tune(fit, sampler=tenfold.Pbt(every=3), trials=8)
    assert [(trial.state, trial.steps) for trial in study.trials] == [("complete", 9)] * 8
    taken = [trial for trial in study.trials if trial.lineage and trial.lineage[-1]["step"] == 6]
    assert len(taken) == 2
    for trial in taken:
        donor = study.trials[trial.lineage[-1]["from"]]
        assert trial.result.history["loss"][:6] == donor.result.history["loss"][:6], "it goes on with its weights"
        assert trial.result.history["loss"][6:] != donor.result.history["loss"][6:]
        assert trial.result.params["lr"] == trial.params["lr"] != donor.params["lr"]
    assert study.trials[0].result.how.startswith("fused")


@pytest.mark.parametrize("more", [{"pruner": "asha"}, {"sampler": tenfold.Pbt(every=3)}], ids=["asha", "pbt"])
@pytest.mark.parametrize("how", ["auto", "alone"])
def test_what_models_went_on_from_is_let_go(how: str, more: dict[str, Any], tmp_path: Path) -> None:
    """Stopped at any moment, the study finds what it needs; at its end, the weights of each trial are what is left."""
    log = tmp_path / "log"

    def logged(lr: float) -> Any:
        built = log.read_text() if log.exists() else ""
        log.write_text(built + "b")
        if len(built) in range(3, 13, 2):
            raise KeyboardInterrupt
        return build(lr)

    fit, call = fit_of(build=logged, validation=0.25, how=how), {"trials": 8, "run": tmp_path / "run", **more}
    for _ in range(5):
        with pytest.raises(KeyboardInterrupt):
            tune(fit, **call)
    whole = tune(fit_of(validation=0.25, how=how), trials=8, **more)
    for study in (tune(fit, **call), tune(fit, **call), whole):
        assert [trial.params for trial in study.trials] == [trial.params for trial in whole.trials]
        kept = {place for trial in study.trials for place in trial.places}
        assert 0 < len(kept) < len(study.results)
        for place, result in enumerate(study.results):
            assert result.saved is None
            assert len(result.weights) == (4 if place in kept else 0)
        for trial, same in zip(study.trials, whole.trials, strict=True):
            check_same(trial.result, same.result)
        with pytest.raises(BadCall, match="the weights of this leg were not kept: its trial has gone on"):
            study.results[min(set(range(len(study.results))) - kept)].model()


def test_a_population_of_models_of_several_shapes() -> None:
    space = {"lr": tenfold.loguniform(1e-3, 1), "width": tenfold.integer(3, 8)}
    study = tune(fit_of(validation=0.25), space, sampler=tenfold.Pbt(every=3), trials=8)
    assert [trial.state for trial in study.trials] == ["complete"] * 8
    assert any(trial.lineage for trial in study.trials)
    for trial in study.trials:
        assert trial.result.weights["0.weight"].shape == (trial.params["width"], 5)
        assert trial.model[0].out_features == trial.params["width"]


@pytest.mark.parametrize("seed", [0, 1])
def test_models_that_cannot_be_fused_are_trained_alone_in_a_population_too(seed: int) -> None:
    """One that takes over from a model of the other kind goes on as that kind is trained."""

    def mixed(lr: float, kind: str) -> tuple[Any, Any, Any]:
        module, loss, _ = build(lr)
        if kind == "lazy":
            module[0] = nn.LazyLinear(4)
        return module, loss, torch.optim.SGD(module.parameters(), lr=lr)

    space = {"lr": tenfold.loguniform(1e-3, 1), "kind": ["plain", "lazy"]}
    fit = fit_of(build=mixed, validation=0.25, epochs=4)
    study = tune(fit, space, sampler=tenfold.Pbt(every=1), trials=8, seed=seed)
    assert [trial.error for trial in study.trials] == [None] * 8
    assert [(trial.state, trial.steps) for trial in study.trials] == [("complete", 4)] * 8
    first = {leg.trial: leg.params["kind"] for leg in (o.item for o in study.results.outcomes) if leg.start == 0}
    assert any(first[trial.number] != trial.params["kind"] for trial in study.trials), "somebody has changed its kind"
    for trial in study.trials:
        how = "alone: the module has parameters without a shape" if trial.params["kind"] == "lazy" else "fused"
        assert trial.result.how.startswith(how)


def test_weights_that_do_not_fit_are_that_trials_failure_and_no_others() -> None:
    """Where a number with a fraction decides on a shape after all."""

    def odd(lr: float, share: float) -> tuple[Any, Any, Any]:
        return build(lr, width=round(10 * share))

    space = {"lr": tenfold.loguniform(1e-3, 1), "share": tenfold.uniform(0.3, 0.9)}
    study = tune(fit_of(build=odd, validation=0.25), space, sampler=tenfold.Pbt(every=3), trials=12)
    failed = [trial for trial in study.trials if trial.state == "failed"]
    assert failed
    assert all(trial.lineage for trial in failed), "those that have taken nothing over are as they were"
    assert all("its weights have other shapes than those that it is to go on from" in str(t.error) for t in failed)
    for trial in study.trials:
        if trial.state == "complete":
            assert trial.result.weights["0.weight"].shape == (round(10 * trial.params["share"]), 5)


# -- folds -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pruner", [None, "asha"])
def test_folds_are_trained_together_and_their_mean_counts(pruner: Any) -> None:
    study = tune(fit_of(), cv=3, pruner=pruner, trials=4)
    assert study.objective == "val_loss"
    for trial in study.trials:
        assert len(trial.result) == 3
        values = [one.final["val_loss"] for one in trial.result]
        assert trial.value == pytest.approx(numpy.mean(values))
        assert trial.spread == pytest.approx(numpy.std(values))
        held = numpy.concatenate([one.params["validation_rows"] for one in trial.result])
        assert sorted(held) == list(range(60))
        assert len({one.params["seed"] for one in trial.result}) == 1
    if pruner is None:
        assert all(one.how.startswith("fused: 12 models") for one in study.trials[0].result)
        assert sorted(one.final["val_loss"] for one in study.results) == sorted(
            one.final["val_loss"] for trial in study.trials for one in trial.result
        )
    assert "val_loss spread" in study.frame().columns
    one = study.best.result[1]
    check_same(one, trained(fit_of(epochs=one.epochs), one.params))


def test_the_model_of_the_best_trial_is_trained_on_all_rows() -> None:
    study = tune(fit_of(epochs=3), cv=3, trials=2)
    expected = trained(fit_of(epochs=3), {**study.best.params, "seed": study.best.result[0].params["seed"]})
    model = study.best.model
    assert study.best._refitted is not None, "it is trained once"
    for name, value in model.state_dict().items():
        numpy.testing.assert_allclose(value, expected.weights[name], rtol=1e-4, atol=1e-6)  # type: ignore[call-overload]


def test_folds_that_stop_early_and_their_model() -> None:
    """Each fold stops by itself; with rungs, one may have ended where the others pause."""
    fit = fit_of(epochs=12, callbacks=[tenfold.EarlyStopping(patience=1)])
    for pruner in (None, tenfold.Asha(factor=2)):
        study = tune(fit, {"lr": [0.05, 0.5, 2.0, 6.0]}, cv=3, pruner=pruner, trials=None)
        epochs = [[one.epochs for one in trial.result] for trial in study.trials]
        assert any(len(set(own)) > 1 for own in epochs), epochs
        for trial in study.trials:
            values = [one.final["val_loss"] for one in trial.result]
            assert trial.value == pytest.approx(numpy.mean(values))
            assert trial.steps == max(one.epochs for one in trial.result)
            if trial.state == "complete":
                assert all(one.ended == "finished" for one in trial.result)
        seen = [(r.index, r.step) for r in study.results.reports()]
        assert len(seen) == len(set(seen))
        assert len(seen) == sum(sum(own) for own in epochs), "no epoch is trained twice"
    expected = [one.best_epoch + 1 for one in study.best.result]
    module = study.best.model
    again = trained(
        fit_of(epochs=round(numpy.mean(expected))), {**study.best.params, "seed": study.best.result[0].params["seed"]}
    )
    numpy.testing.assert_allclose(module[0].weight.detach(), again.weights["0.weight"], rtol=1e-4, atol=1e-6)  # type: ignore[call-overload]


def test_a_fold_that_diverges_does_not_end_the_study() -> None:
    study = tune(fit_of(epochs=3), {"lr": [0.1, 1e30]}, cv=2, trials=None)
    good, bad = study.trials
    assert not numpy.isfinite(bad.value)
    assert study.best is good


@pytest.mark.parametrize(
    ("cv", "more", "told"),
    [
        (1, {}, "cv=1: expected from 2 to 60"),
        ([([0, 1], [2]), ([0], [60])], {}, "cv=: held-out rows of fold 1: rows from 60 to 60 of 60"),
        (3, {"pruner": "median"}, "pruner=Median with cv=: folds would be stopped one by one"),
        (
            None,
            {"objective": "val_accuracy"},
            "objective='val_accuracy': nothing is scored; give the Fit a validation=",
        ),
        (None, {"steps": 5}, "steps=5: a Fit has its epochs"),
        (None, {"space": {"lr": [1], "rate": [1]}}, "unexpected keyword argument 'rate'"),
    ],
)
def test_what_cannot_work(cv: Any, more: dict[str, Any], told: str) -> None:
    given = {"space": RATES, **more}
    with pytest.raises(BadCall) as found:
        tune(fit_of(), given.pop("space"), cv=cv, **given)
    assert told in str(found.value)


def test_models_of_different_shapes_are_groups_of_their_own() -> None:
    study = tune(fit_of(validation=0.25, epochs=3), {"width": [3, 5], "lr": [0.1, 0.2]}, trials=None, pruner="asha")
    assert {trial.result.how.partition(" model")[0] for trial in study.trials} <= {"fused: 2", "fused: 1"}
    assert sum(trial.state == "complete" for trial in study.trials) >= 1


def test_a_model_that_cannot_be_built_is_a_failed_trial() -> None:
    def moody(lr: float, width: int) -> Any:
        if width == 3:
            raise ValueError("three is bad")
        return build(lr, width)

    study = tune(fit_of(build=moody, epochs=2), {"width": [4, 3], "lr": [0.1]}, trials=None)
    assert [trial.state for trial in study.trials] == ["complete", "failed"]
    assert "three is bad" in str(study.trials[1].error)
