"""Learners of Keras make what `model.fit` makes, in however many shares a batch is divided; on each backend.

Everything is found out by one process for each backend (`learner_cases.py`); a test judges what it wrote.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import learner_cases
import pytest

import scripts

HERE = Path(__file__).parent
BACKENDS = ("tensorflow", "jax", "torch")
VARIABLES = {
    "JAX_PLATFORMS": "cpu",
    "OMP_NUM_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_NUM_INTRAOP_THREADS": "1",
    "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
}

_COMPARE = """
    import sys
    from pathlib import Path
    sys.path.insert(0, {here!r})
    import learner_cases
    learner_cases.main(Path({path!r}))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each backend's process has found out."""
    folder = tmp_path_factory.mktemp("learners")
    with contextlib.ExitStack() as stack:
        running = {}
        for backend in BACKENDS:
            text = _COMPARE.format(here=str(HERE), path=str(folder / f"{backend}.json"))
            variables = VARIABLES | {"KERAS_BACKEND": backend}
            running[backend] = stack.enter_context(scripts.started(folder, text, variables, f"on_{backend}"))
        ended = {backend: script.end(280) for backend, script in running.items()}
    for backend, one in ended.items():
        assert one.status == 0, f"{backend}:\n{one.err}"
    return {backend: json.loads((folder / f"{backend}.json").read_text()) for backend in BACKENDS}


def _answer(answers: dict[str, Any], backend: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = answers[backend][name]
    assert "error" not in found, found["error"]
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "name"), [(backend, name) for backend in BACKENDS for name in learner_cases.parity_names(backend)]
)
def test_shares_of_a_batch_make_what_fit_makes(backend: str, name: str, answers: dict[str, Any]) -> None:
    found = _answer(answers, backend, name)
    first, last = found["first loss and last"]
    assert last < first, "it has learned nothing, so that this test shows nothing"
    assert max(found["weights"].values()) < 1e-5, found
    assert max(found["history"].values()) < 1e-5 * max(1.0, first), found
    assert found["same"] == [True] * len(found["same"]), "copies are not equal"
    assert found["steps"] < 1e-6, found
    assert found["advance"] < 1e-6, found


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_moving_averages_are_the_same_in_all_copies(backend: str, answers: dict[str, Any]) -> None:
    found = _answer(answers, backend, "batch norm")
    assert found["alone"] < 1e-6
    assert found["same"] == [True, True]
    assert found["moved"] > 0.01, "or the averages were never written"


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_never_changes_stays_what_it_is_and_frozen_layers_are_not_sent(
    backend: str, answers: dict[str, Any]
) -> None:
    found = _answer(answers, backend, "constants")
    assert found["shapes"] == [[6], [6], [], [6, 50], [50], [50, 3], [3]]
    assert found["changed"] == [False] * 5 + [True] * 2
    assert found["apart"] < 1e-5
    assert found["size"] == 6 + 6 + 50 * 3 + 3, "the statistics, and what is trained"


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_copies_begin_equal_and_draw_numbers_of_their_own(backend: str, answers: dict[str, Any]) -> None:
    found = _answer(answers, backend, "random numbers")
    assert found == dict.fromkeys(("begin equal", "differ", "go on", "again", "goes on"), True)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_schedules_count_the_steps_of_all(backend: str, answers: dict[str, Any]) -> None:
    assert answers[backend]["scheduled"] == [True, True, False]


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_weights_that_a_layer_assigns_are_refused_where_keras_keeps_them(backend: str, answers: dict[str, Any]) -> None:
    found = _answer(answers, backend, "refused")["assigning"]
    assert found.endswith("taken in shares") if backend == "jax" else "dense/kernel in its call" in found, found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("own", ["Own has a train_step of its own", "the metric largest (Largest)", "tenfold.launch"]),
        ("weighted", ["run_eagerly=True", "reduction='mean_with_sample_weight'", '"sum_over_batch_size" or "sum"']),
        ("across", ["the metric cosine_similarity", "axis=0"]),
        ("callbacks", ["callbacks: TerminateOnNaN would"]),
        ("masked", ["outputs are masked"]),
        ("ignoring", ["taken alone", "leaves out rows of ignore_class=2"]),
        ("root", ["taken alone", "the loss root is 0.", "of both halves", "a number for each row"]),
        ("dice", ["taken alone", "the loss dice is"]),
        ("circle", ["taken alone", "the loss circle is"]),
        ("own mean", ["taken in shares"]),
    ],
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_cannot_be_divided_is_refused(backend: str, name: str, words: list[str], answers: dict[str, Any]) -> None:
    found = _answer(answers, backend, "refused")[name]
    assert [word for word in words if word not in found] == [], found
