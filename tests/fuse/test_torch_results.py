"""What becomes of PyTorch models that were trained together: modules again, and files; and groups in little memory."""

from __future__ import annotations

from pathlib import Path

import numpy
import pytest
import torch
import torch_cases as cases

from tenfold.errors import BadCall
from tenfold.fuse import chunks

RATES = [{"lr": 0.01 * place, "seed": place} for place in range(1, 4)]


def test_a_group_is_cut_where_memory_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = cases.fit_of("dense", how="auto")
    whole = cases.together(fit, RATES, tmp_path)
    workshop, _, models = cases.taken(fit, RATES)
    monkeypatch.setattr(chunks, "room", lambda: 1.0)
    _, size, why = workshop.stack(models, 36, None)
    assert (size, len(whole)) == (2, len(RATES)), "the fewest that are still a group"
    assert why.startswith(f"{len(RATES)} models, 2 at a time")


def test_a_result_is_a_module_again_and_a_file(tmp_path: Path) -> None:
    fit = cases.fit_of("batch norm")
    one = fit.received(cases.together(fit, [{"kind": "batch norm", "seed": 1}] * 2, tmp_path)[0])
    module = one.model()
    for name, tensor in module.state_dict().items():
        numpy.testing.assert_array_equal(tensor.numpy(), one.weights[name])
    saved = torch.load(one.save(tmp_path / "a.pt"), weights_only=True)
    with numpy.load(one.save(tmp_path / "a.npz"), allow_pickle=False) as arrays:
        for name, array in one.weights.items():
            numpy.testing.assert_array_equal(saved[name].numpy(), array)
            numpy.testing.assert_array_equal(arrays[name], array)
    with pytest.raises(BadCall, match=r"\.pt or \.npz"):
        one.save(tmp_path / "a.keras")
    one.build = None
    with pytest.raises(BadCall, match="give the function"):
        one.model()
