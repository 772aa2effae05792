"""What becomes of PyTorch models that were trained together: modules again, and files; and groups in little memory."""

from __future__ import annotations

from pathlib import Path

import numpy
import pytest
import torch
import torch_cases as cases

from tenfold.errors import BadCall
from tenfold.fuse import chunks
from tenfold.journal import fingerprint
from tenfold.verbs.explain import explain

RATES = [{"lr": 0.01 * place, "seed": place} for place in range(1, 4)]


def test_a_group_is_cut_where_memory_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = cases.fit_of("dense", how="auto")
    whole = cases.together(fit, RATES, tmp_path)
    workshop, _, models = cases.taken(fit, RATES)
    monkeypatch.setattr(chunks, "room", lambda: 1.0)
    _, size, why = workshop.stack(models, 36, None)
    assert (size, len(whole)) == (2, len(RATES)), "the fewest that are still a group"
    assert why.startswith(f"{len(RATES)} models, 2 at a time")


def test_models_whose_optimizers_are_alike_are_neighbours_and_results_have_their_own_places(tmp_path: Path) -> None:
    fit = cases.fit_of("dense")
    mixed = [{"lr": rate, "seed": seed} for seed in range(3) for rate in (0.01, 0.1)]
    workshop, _, models = cases.taken(fit, mixed)
    assert workshop.same(models) == [[0, 2, 4, 1, 3, 5]]
    found = cases.together(fit, mixed, tmp_path / "mixed")
    apart = [one for rate in (0, 1) for one in cases.together(fit, mixed[rate::2], tmp_path / f"apart-{rate}")]
    for one, other in zip([*found[::2], *found[1::2]], apart, strict=True):
        cases.check_same(one, other.history, other.weights)


@pytest.mark.parametrize("how", ["fused", "looped"])
def test_what_training_takes_is_expected_beforehand(how: str) -> None:
    plans = [explain(cases.fit_of("dense", how=how, batch_size=size), RATES, engine="serial") for size in (12, 36)]
    parameters = sum(tensor.nbytes for tensor in cases.module("dense").parameters())
    few, many = ([finding.nbytes for finding in plan.findings] for plan in plans)
    assert all(finding.seconds > 0 for plan in plans for finding in plan.findings)
    assert 3 * parameters < few[0] < 100 * parameters, "weights, Adam's memory, and little else"
    # What goes in, out of the hidden layer and out of the ReLU is kept for each row, if only of one model.
    assert many[0] - few[0] > 24 * 4 * (6 + 8 + 8) / len(RATES)


def test_a_result_is_a_module_again_and_a_file(tmp_path: Path) -> None:
    fit = cases.fit_of("batch norm")
    one = fit.received(cases.together(fit, [{"kind": "batch norm", "seed": 1}] * 2, tmp_path)[0])
    module = one.model()
    for name, tensor in module.state_dict().items():
        numpy.testing.assert_array_equal(tensor.numpy(), one.weights[name])
    saved = torch.load(one.save(tmp_path / "new" / "a.pt"), weights_only=True)
    with numpy.load(one.save(tmp_path / "a.npz"), allow_pickle=False) as arrays:
        for name, array in one.weights.items():
            numpy.testing.assert_array_equal(saved[name].numpy(), array)
            numpy.testing.assert_array_equal(arrays[name], array)
    with pytest.raises(BadCall, match=r"\.pt, \.pth or \.npz"):
        one.save(tmp_path / "a.keras")
    one.build = None
    with pytest.raises(BadCall, match="give the function"):
        one.model()


def test_a_changed_callback_is_another_run_and_none_is_for_modules() -> None:
    class Noting:
        def __init__(self, often: int) -> None:
            self.often = often

        def set_model(self, model: object) -> None: ...

    fits = [cases.fit_of("batch norm", callbacks=[Noting(often)]) for often in (1, 1, 2)]
    one, same, other = map(fingerprint.of_function, fits)
    assert fingerprint.differences(one, same) == []
    assert fingerprint.differences(one, other) == ["callback 0 has changed"]
    with pytest.raises(BadCall, match="callbacks: Noting is for Keras models"):
        fits[0]({"kind": "batch norm", "seed": 0})
