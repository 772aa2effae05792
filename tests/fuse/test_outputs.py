"""`Fit(outputs=True)`: what a result has is what its model gives, however and wherever it was trained."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
import torch_cases as cases

import scripts
from tenfold.errors import BadCall
from tenfold.fuse import torch_plain
from tenfold.fuse.building import construct
from tenfold.fuse.fit import Fit
from tenfold.fuse.outputs import each, joined
from tenfold.fuse.result import FitResult
from tenfold.fuse.stopping import EarlyStopping
from tenfold.fuse.torch_step import arguments

RATES = [{"lr": 0.01 * place, "seed": place} for place in range(1, 4)]
FOLDS = numpy.array_split(numpy.random.default_rng(3).permutation(cases.ROWS), 4)
STOPPING = EarlyStopping(monitor="val_loss", patience=0, min_delta=0.05)

_KERAS = """
    import json, sys
    sys.modules["tensorflow"] = None  # seeding Keras would import it
    sys.path.insert(0, {here!r})
    from pathlib import Path
    import keras_outputs
    print(json.dumps({{name: keras_outputs.answer(name, Path({folder!r})) for name in keras_outputs.CASES}}))
"""
KERAS_CASES = (
    "a share of the rows",
    "data of its own",
    "folds",
    "folds that score nothing",
    "several outputs",
    "stopped",
)


# -- PyTorch ----------------------------------------------------------------------------------------------------------


def trained(fit: Fit, params: list[dict[str, Any]], folder: Path, how: str) -> list[FitResult]:
    fit.how = how  # type: ignore[assignment]
    if how != "alone":
        return cases.together(fit, params, folder)
    return [torch_plain.train(fit, m, construct(fit.build, m.params), "alone") for m in cases.members(fit, params)]


def check(fit: Fit, results: list[FitResult], rows: list[Any]) -> None:
    for result, own in zip(results, rows, strict=True):
        module = fit.received(result).model().eval()
        x = each(lambda array: torch.from_numpy(array[own]).float(), fit.data.x)
        positional, named = arguments(x)
        with torch.no_grad():
            expected = module(*positional, **named).numpy()
        assert result.outputs.dtype == expected.dtype
        numpy.testing.assert_allclose(result.outputs, expected, rtol=1e-4, atol=1e-6)


LAST = slice(int(cases.ROWS * (1 - 0.18)), None)


@pytest.mark.parametrize("how", ["fused", "looped", "alone"])
@pytest.mark.parametrize("kind", ["dense", "batch norm", "tied", "two inputs"])
def test_outputs_of_a_module_are_what_it_gives_for_its_validation_rows(kind: str, how: str, tmp_path: Path) -> None:
    fit = cases.fit_of(kind, outputs=True)
    params = [{"kind": kind, **one} for one in RATES]
    results = trained(fit, params, tmp_path, how)
    assert all(result.how.startswith(how) for result in results), [result.how for result in results]
    check(fit, results, [LAST] * 3)


def test_nothing_is_dropped_out(tmp_path: Path) -> None:
    fit = cases.fit_of("dropout", outputs=True)
    results = trained(fit, [{"kind": "dropout", **one} for one in RATES], tmp_path, "auto")
    check(fit, results, [LAST] * 3)


@pytest.mark.parametrize("how", ["fused", "looped", "alone"])
@pytest.mark.parametrize("name", ["validation_rows", "output_rows"])
def test_every_model_has_outputs_for_its_own_rows(name: str, how: str, tmp_path: Path) -> None:
    fit = cases.fit_of("dense", outputs=True)
    params = [
        {**one, "rows": numpy.concatenate(FOLDS[:place] + FOLDS[place + 1 :]), name: FOLDS[place]}
        for place, one in enumerate(RATES)
    ]
    results = trained(fit, params, tmp_path, how)
    check(fit, results, FOLDS[:3])
    assert all("val_loss" in result.history for result in results), "the share of their rows scores them"


@pytest.mark.parametrize("how", ["fused", "looped", "alone"])
def test_outputs_are_of_the_weights_that_early_stopping_has_restored(how: str, tmp_path: Path) -> None:
    fit = cases.fit_of("dense", outputs=True, callbacks=[STOPPING], epochs=6)
    results = trained(fit, RATES, tmp_path, how)
    assert any(result.best_epoch != result.epochs - 1 for result in results), "or this test shows nothing"
    check(fit, results, [LAST] * 3)


# -- Keras ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    variables = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3", **scripts.HASTY}
    folder = tmp_path_factory.mktemp("outputs")
    text = _KERAS.format(here=str(Path(__file__).parent), folder=str(folder))
    ended = scripts.run(folder, text, variables, seconds=200)
    return dict(json.loads(ended.out.splitlines()[-1]))


@pytest.mark.slow
@pytest.mark.parametrize("name", KERAS_CASES)
def test_outputs_of_a_keras_model_are_what_it_predicts(name: str, answers: dict[str, Any]) -> None:
    answer = answers[name]
    assert {"fused"} <= set(answer)
    for how in {"fused", "looped", "alone"} & set(answer):
        for told, share in answer[how]:
            assert told.startswith(how)
            assert share <= 1, f"{told}: {share:.3g} times what is tolerated"
    assert set(answers) == set(KERAS_CASES)
    assert ("alone" in answer) == (name in ("folds that score nothing", "stopped"))


@pytest.mark.slow
def test_models_that_stop_at_different_epochs_have_outputs_of_their_best(answers: dict[str, Any]) -> None:
    epochs = answers["stopped"]["fused epochs"]
    assert any(best != count - 1 for count, best in epochs), epochs


# -- around them ------------------------------------------------------------------------------------------------------


def test_outputs_are_there_only_where_they_are_asked_for(tmp_path: Path) -> None:
    without = cases.fit_of("dense")
    assert [result.outputs for result in trained(without, RATES, tmp_path, "fused")] == [None] * 3
    unscored = cases.fit_of("dense", outputs=True, validation=None)
    assert [result.outputs for result in trained(unscored, RATES, tmp_path, "fused")] == [None] * 3
    with pytest.raises(BadCall, match=r"output_rows: results have outputs only with Fit\(outputs=True\)"):
        without.check([{"lr": 0.1, "output_rows": [0, 1]}])
    with pytest.raises(BadCall, match="outputs='yes': expected True or False"):
        cases.fit_of("dense", outputs="yes")


def test_runs_of_before_outputs_are_still_the_same_call() -> None:
    assert "outputs" not in cases.fit_of("dense").__tenfold_parts__()
    assert cases.fit_of("dense", outputs=True).__tenfold_parts__()["outputs"] is True


def test_a_result_that_was_pickled_before_outputs_opens() -> None:
    result = FitResult({"seed": 1}, {"loss": [0.5]}, [], "fused", None, outputs=numpy.arange(3))
    numpy.testing.assert_array_equal(pickle.loads(pickle.dumps(result)).outputs, [0, 1, 2])
    old = FitResult.__new__(FitResult)
    old.__setstate__(result.__getstate__()[:5])
    assert old.outputs is None
    assert old.history == {"loss": [0.5]}


def test_outputs_of_blocks_are_joined_as_the_model_nests_them() -> None:
    one = {"a": [numpy.zeros((2, 1)), (numpy.zeros(2),)]}
    found = joined([one, one])
    assert isinstance(found["a"], list)
    assert isinstance(found["a"][1], tuple)
    assert found["a"][0].shape == (4, 1)
