"""Keras models that are trained together have the weights and histories of models trained alone, and of `model.fit`.

All comparisons are made once, by two processes with Keras on JAX (`keras_parity.py`); a test judges what they wrote.
The processes compile with few optimisations, which is two thirds of their time otherwise.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import keras_cases
import numpy
import pytest

import scripts

HERE = Path(__file__).parent
QUESTIONS = (
    "stored",
    "neighbours_of_nan",
    "neighbours_of_nan_with_other_numbers",
    "declined",
    "declined_among_others",
    "noted",
    "notebooks",
    "unknown_option",
    "untraceable",
    "refused",
    "settings_of_build",
    "widths",
    "compacted",
    "little_memory",
)
VARIABLES = {
    "KERAS_BACKEND": "jax",
    "JAX_PLATFORMS": "cpu",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    **scripts.HASTY,
}
PROCESSES = 2

_COMPARE = """
    import sys
    from pathlib import Path
    sys.path.insert(0, {here!r})
    import keras_parity
    keras_parity.main(Path({folder!r}), {names!r})
"""
_REOPEN = """
    import json, sys
    from pathlib import Path
    sys.path.insert(0, {here!r})
    import keras_questions
    print(json.dumps(keras_questions.reopened(Path({path!r}))))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the processes have left their answers."""
    found = tmp_path_factory.mktemp("parity")
    names = [*QUESTIONS, *keras_cases.CASES]
    text = _COMPARE.format(here=str(HERE), folder=str(found), names=names)
    with contextlib.ExitStack() as stack:
        running = [stack.enter_context(scripts.started(found, text, VARIABLES, f"p{n}")) for n in range(PROCESSES)]
        ended = [script.end(280) for script in running]
    (found / "trouble").write_text("\n".join(one.err for one in ended if one.status))
    return found


@pytest.fixture(scope="module")
def answers(folder: Path) -> dict[str, Any]:
    """What was found out, by name."""
    found = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    return {answer["name"]: answer for answer in found}


def _answer(answers: dict[str, Any], folder: Path, name: str) -> dict[str, Any]:
    assert name in answers, f"its process ended before it:\n{(folder / 'trouble').read_text()}"
    answer: dict[str, Any] = answers[name]
    assert "error" not in answer, answer["error"]
    return answer


def _faults(which: str, found: dict[str, Any]) -> list[str]:
    """What two results have not in common."""
    faults = [
        f"{which}: {what} of {where} are {difference:.3g} apart, {share:.3g} times what is tolerated"
        for what, (share, difference, where) in (("weights", found["weights"]), ("histories", found["history"]))
        if not share <= 1
    ]
    if found["names"]:
        faults.append(f"{which}: only one history has {', '.join(found['names'])}")
    for what in ("epochs", "best_epoch"):
        if found[what][0] != found[what][1]:
            faults.append(f"{which}: {what} {found[what][0]} and {found[what][1]}")
    return faults


@pytest.mark.slow
@pytest.mark.parametrize("name", keras_cases.CASES)
def test_models_are_the_same_together_alone_and_by_hand(name: str, answers: dict[str, Any], folder: Path) -> None:
    answer = _answer(answers, folder, name)
    case = keras_cases.CASES[name]
    faults = _faults("alone and by hand", answer["by hand"])
    for place, found in answer["fused"].items():
        faults += _faults(f"model {place}, together and alone", found)
    if len(answer["groups"]) != case.groups:
        faults.append(f"groups of {answer['groups']} models, expected {case.groups}")
    if not answer["all differ"]:
        faults.append("two of the models are equal, so that this test shows nothing")
    assert not faults, f"{answer['how']}\n" + "\n".join(faults)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["neighbours_of_nan", "neighbours_of_nan_with_other_numbers"])
def test_a_model_of_nan_changes_no_bit_of_its_neighbours(name: str, answers: dict[str, Any], folder: Path) -> None:
    answer = _answer(answers, folder, name)
    assert answer["broken"] == ["nan", "nan"], "the model in the middle must break, or this test shows nothing"
    assert answer["same"] == [True] * 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("train_step", "Own has a train_step of its own"),
        ("test_step", "Own has a test_step of its own"),
        ("run_eagerly", "run_eagerly=True"),
        ("use_ema", "use_ema=True"),
        ("callback", "TerminateOnNaN"),
        ("float64", "layer dense computes in float64"),
        ("assigned", "it assigns sequential/spectral_normalization/dense/kernel in its call"),
        ("int64", "whole numbers that need more than 32 bits"),
    ],
)
def test_what_cannot_be_fused_is_declined_by_name(
    name: str, reason: str, answers: dict[str, Any], folder: Path
) -> None:
    found = _answer(answers, folder, "declined")[name]
    assert len(found) == 3
    for one in found:
        assert one.startswith("Declined: ")
        assert reason in one


@pytest.mark.slow
def test_a_model_that_is_declined_or_fails_costs_the_others_nothing(answers: dict[str, Any], folder: Path) -> None:
    first, averaged, broken, last = _answer(answers, folder, "declined_among_others")["found"]
    assert first.startswith("FitResult: ")
    assert last.startswith("FitResult: ")
    assert averaged.startswith("Declined: ")
    assert "use_ema" in averaged
    assert broken.startswith("Declined: ")
    assert "OSError: no weights.h5 here" in broken


@pytest.mark.slow
def test_what_cannot_be_traced_is_trained_alone_and_its_neighbours_are_not(
    answers: dict[str, Any], folder: Path
) -> None:
    answer = _answer(answers, folder, "untraceable")
    first, schedule, constraint, last = answer["trained"]
    assert first.startswith("FitResult: ")
    assert last.startswith("FitResult: ")
    assert schedule.startswith("Declined: the learning-rate schedule Warm cannot be built with Keras on JAX: Tracer")
    assert constraint.startswith("Declined: the constraint Bounded cannot be built with Keras on JAX: Tracer")
    assert [how.partition(":")[0] for how in answer["explained"]] == ["fused", "alone", "alone", "fused"]


@pytest.mark.slow
def test_what_one_worker_has_traced_the_next_one_does_not(answers: dict[str, Any], folder: Path) -> None:
    answer = _answer(answers, folder, "noted")
    assert answer["keras, first"] == [2, 1], "train and logs, once for three models of one group"
    assert answer["keras, second"] == [0, 1]
    assert answer["own, first"] == answer["own, second"] == [6, 1], "code of the user's own may do anything"
    assert (answer["keras, files"], answer["own, files"]) == (1, 0)


@pytest.mark.slow
def test_notes_are_those_of_a_model_and_of_how_it_was_read(answers: dict[str, Any], folder: Path) -> None:
    answer = _answer(answers, folder, "notebooks")
    assert answer["found"].pop("a model") == answer["written"]
    assert set(answer["found"].values()) == {"{}"}, "long ones are not kept"
    assert answer["damaged"] == "{}"


@pytest.mark.slow
def test_a_compiler_that_does_not_know_an_option_does_without(answers: dict[str, Any], folder: Path) -> None:
    answer = _answer(answers, folder, "unknown_option")
    assert answer["found"] == 2
    assert "xla_cpu_is_not_an_option" in answer["refused"]


@pytest.mark.slow
def test_what_would_be_wrong_is_refused(answers: dict[str, Any], folder: Path) -> None:
    answer = _answer(answers, folder, "refused")
    for name, words in (
        ("labels", "BadCall: labels without an output: y is from 0 to 2, and the model has 2 outputs"),
        ("negative labels", "BadCall: labels without an output: y is from -1 to 0, "),
    ):
        assert all(one.startswith(words) for one in answer[name]), answer[name]
    assert all(one.startswith("FitResult: ") for one in (*answer["rows"], *answer["frozen"], answer["shared"][0]))
    assert answer["shared"][1].startswith("BadCall: build returned weights that another model has, too")
    assert answer["watched"] == ["EarlyStopping(monitor='accuracy'): models have loss, and with val_ before it"]
    assert answer["alone"][0].startswith("build returned weights that another model has, too")


@pytest.mark.slow
def test_what_build_sets_in_all_of_keras_is_for_its_own_model(answers: dict[str, Any], folder: Path) -> None:
    answer = _answer(answers, folder, "settings_of_build")
    plain, half = ["float32", "channels_last"], ["mixed_bfloat16", "channels_first"]
    assert answer["policies"] == [plain, half, plain]
    assert answer["same"]


@pytest.mark.slow
def test_other_widths_are_other_groups_and_the_difference_has_a_name(answers: dict[str, Any], folder: Path) -> None:
    answer = _answer(answers, folder, "widths")
    assert sorted(answer["sizes"]) == [1, 2]
    assert [shapes[0] for shapes in answer["shapes"]] == [[6, 4], [6, 7], [6, 4]]
    assert "dense/kernel" in answer["difference"]
    assert "(6, 4) and (6, 7)" in answer["difference"]


@pytest.mark.slow
def test_models_that_stop_cost_nothing_more(answers: dict[str, Any], folder: Path) -> None:
    answer = _answer(answers, folder, "compacted")
    trained = answer["auto"]["trained"]
    left = [sum(epochs > epoch for epochs in trained) for epoch in range(max(trained))]
    assert len(set(left)) > 1, "they must stop at different epochs, or this shows nothing"
    assert answer["fused"]["epochs"] == [[models, [2] * -(-models // 2)] for models in left], "always the same bits"
    assert answer["filled"]["epochs"] == [[models, [5]] for models in left], "not worth another program"
    assert answer["auto"]["epochs"] == [[models, [models]] for models in left]
    for way in ("fused", "filled"):
        assert answer[way]["trained"] == trained
        for one, other in zip(answer[way]["weights"], answer["auto"]["weights"], strict=True):
            for array, same in zip(one, other, strict=True):
                numpy.testing.assert_allclose(array, same, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_group_of_keras_is_cut_where_memory_is_short(answers: dict[str, Any], folder: Path) -> None:
    answer = _answer(answers, folder, "little_memory")
    assert all("5 models, 2 at a time" in how for how in answer["little"]), answer["little"]
    assert all("5 models, 5 at a time" in how for how in answer["much"]), answer["much"]
    assert answer["apart"] < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "torch"])
def test_weights_are_exact_in_another_backend(
    backend: str, answers: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    assert _answer(answers, folder, "stored")["how"].startswith("fused")
    text = _REOPEN.format(here=str(HERE), path=str(folder / "stored.pickle"))
    ended = scripts.run(tmp_path, text, {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}, seconds=120)
    found = json.loads(ended.out.splitlines()[-1])
    assert found["backend"] == backend
    assert found["same"] == [True] * 3
    assert max(found["apart"]) < 1e-5
