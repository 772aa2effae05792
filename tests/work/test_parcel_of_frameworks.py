"""How tensors of frameworks travel. One interpreter per framework: this one must not import any.

A framework that the test process has imported would count as used by every later call of `map`.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

import scripts

HERE = Path(__file__).parent
CASES = {
    framework: [
        node.name
        for node in ast.parse((HERE / f"cases_{framework}.py").read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("case_")
    ]
    for framework in ("torch", "jax")
}

SCRIPT = """
import json, sys, traceback
sys.path.insert(0, {here!r})
import cases_{framework} as cases

told = {{}}
for name, case in vars(cases).copy().items():
    if name.startswith("case_"):
        try:
            case()
        except BaseException:
            told[name] = traceback.format_exc()
        else:
            told[name] = ""
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    found = {}
    for framework in CASES:
        script = SCRIPT.format(here=str(HERE), framework=framework)
        ended = scripts.run(tmp_path_factory.mktemp(framework), script, {"TENFOLD_NOTICE": "0"})
        found[framework] = json.loads(ended.out.splitlines()[-1])
    return found


@pytest.mark.parametrize(("framework", "case"), [(name, case) for name, cases in CASES.items() for case in cases])
def test_it_travels(told: dict[str, dict[str, str]], framework: str, case: str) -> None:
    trouble = told[framework][case]
    assert not trouble, trouble
