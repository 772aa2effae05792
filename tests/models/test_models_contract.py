"""Every kind of model keeps the contract: the numbers of its framework, in batches of any size, in any process.

One interpreter for each backend of Keras, and one for the others: this one must not import any framework.
"""

from __future__ import annotations

import ast
import contextlib
import json
from pathlib import Path

import pytest

import scripts

HERE = Path(__file__).parent
SCRIPT = """
    import sys
    sys.path.insert(0, {here!r})
    import model_cases
    model_cases.main({group!r}, {answer!r})
"""
QUIET = {"TENFOLD_NOTICE": "0", "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu"}
INTERPRETERS = {
    "plain": ("plain", {"PYTHONWARNINGS": "error::UserWarning"}),
    "keras on tensorflow": ("keras", {"KERAS_BACKEND": "tensorflow"}),
    "keras on jax": ("keras", {"KERAS_BACKEND": "jax", **scripts.HASTY}),
    "keras on torch": ("keras", {"KERAS_BACKEND": "torch"}),
}
AT_ONCE = 2


def _functions(file: str, prefix: str) -> list[str]:
    found = [node.name for node in ast.parse((HERE / file).read_text()).body if isinstance(node, ast.FunctionDef)]
    return [name for name in found if name.startswith(prefix)]


def _kinds(group: str) -> list[str]:
    """As the dict at the end of model_kinds.py has them, without importing it."""
    tree = ast.parse((HERE / "model_kinds.py").read_text()).body[-1]
    assert isinstance(tree, ast.AnnAssign)
    assert isinstance(tree.value, ast.Dict)
    for key, value in zip(tree.value.keys, tree.value.values, strict=True):
        if isinstance(key, ast.Constant) and key.value == group and isinstance(value, ast.Tuple):
            return [name.id for name in value.elts if isinstance(name, ast.Name)]
    raise AssertionError(group)


CASES = _functions("model_cases.py", "case_")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """What became of every case, by interpreter; two of them run at a time."""
    found: dict[str, dict[str, str]] = {}
    waiting = dict(INTERPRETERS)
    while waiting:
        some = [(name, *waiting.pop(name)) for name in list(waiting)[:AT_ONCE]]
        with contextlib.ExitStack() as stack:
            running = []
            for name, group, variables in some:
                folder = tmp_path_factory.mktemp("models")
                text = SCRIPT.format(here=str(HERE), group=group, answer=str(folder / "answer.json"))
                script = stack.enter_context(scripts.started(folder, text, {**QUIET, **variables}))
                running.append((name, folder, script))
            for name, folder, script in running:
                ended = script.end(200)
                assert ended.status == 0, f"{name}\n{ended.out}\n{ended.err}"
                found[name] = json.loads((folder / "answer.json").read_text())
    return found


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    ("interpreter", "kind"), [(name, kind) for name, (group, _) in INTERPRETERS.items() for kind in _kinds(group)]
)
def test_a_model_keeps_the_contract(told: dict[str, dict[str, str]], interpreter: str, kind: str, case: str) -> None:
    answers = told[interpreter]
    assert kind not in answers, answers[kind]  # it could not be opened
    trouble = answers[f"{kind}: {case}"]
    assert not trouble, trouble


@pytest.mark.slow
@pytest.mark.parametrize("interpreter", INTERPRETERS)
def test_what_cannot_work_is_refused_in_words(told: dict[str, dict[str, str]], interpreter: str) -> None:
    answers = {name: trouble for name, trouble in told[interpreter].items() if ": " not in name}
    assert len(answers) >= 2
    assert not any(answers.values()), "\n".join(answers.values())
