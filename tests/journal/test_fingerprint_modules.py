"""What of a user's own modules identifies a call: what is used of them, or all where they are imported within."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenfold.journal import fingerprint


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, str]]:
    """Parts of `task` in a module, which imports others; each call writes them anew and loads them again."""
    import importlib

    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def parts(**texts: str) -> dict[str, str]:
        names = [name.replace("/", ".").removesuffix(".__init__") for name in texts]
        for name, text in texts.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
        importlib.invalidate_caches()
        try:
            return fingerprint.of_function(importlib.import_module("task_module").task)
        finally:
            for name in names:
                sys.modules.pop(name, None)

    return parts


def test_a_helper_in_another_module(modules: Callable[..., dict[str, str]]) -> None:
    task = "from helper_module import step\ndef task(x): return step(x)\n"
    before = modules(task_module=task, helper_module="def step(x): return x + 1\n")
    now = modules(task_module=task, helper_module="def step(x): return x + 2\n")
    assert fingerprint.differences(before, now) == ["the code of global step has changed"]


def test_a_helper_that_is_reached_through_its_module(modules: Callable[..., dict[str, str]]) -> None:
    """`import steps`, then `steps.step(x)`: the most usual way to write it."""
    task = "import helper_module\ndef task(x): return helper_module.step(x)\n"
    before = modules(task_module=task, helper_module="def step(x): return x + 1\n")
    now = modules(task_module=task, helper_module="def step(x): return x + 2\n")
    assert fingerprint.differences(before, now) != []


PACKAGE = {
    "pk/__init__": "",
    "pk/helpers": "from .deep import RATE\ndef scale(x): return x * RATE\n",
    "pk/deep": "from . import helpers\nRATE = 2\n",
}


@pytest.mark.parametrize(
    ("task", "differences"),
    [
        ("import pk.helpers\ndef task(x): return pk.helpers.scale(x)\n", ["global RATE has changed"]),
        ("def task(x):\n from pk.helpers import scale\n return scale(x)\n", ["module pk.deep has changed"]),
        ("def task(x):\n import pk.helpers\n return pk.helpers.scale(x)\n", ["module pk.deep has changed"]),
        (
            "def task(x):\n from pk import helpers\n return (lambda: helpers.scale(x))()\n",
            ["module pk.deep has changed"],
        ),
    ],
    ids=["through a package", "a name", "a module", "a module of a package"],
)
def test_a_helper_in_a_package_wherever_it_is_imported(
    task: str, differences: list[str], modules: Callable[..., dict[str, str]]
) -> None:
    before = modules(task_module=task, **PACKAGE)
    same = "# a comment\n" + PACKAGE["pk/deep"]
    assert fingerprint.differences(before, modules(task_module=task, **{**PACKAGE, "pk/deep": same})) == []
    changed = PACKAGE["pk/deep"].replace("2", "3")
    assert fingerprint.differences(before, modules(task_module=task, **{**PACKAGE, "pk/deep": changed})) == differences


def test_what_a_function_imports_is_not_imported_to_look_at_it(modules: Callable[..., dict[str, str]]) -> None:
    """It may be slow, and it may not be for this machine, or not even be there."""
    task = "def task(x):\n import helper_module, broken_module, no_module, json, numpy.linalg\n from ... import x\n"
    found = modules(task_module=task, helper_module="raise SystemExit\n", broken_module="def\n")
    assert set(found) == {"the code of task", "module helper_module"}
    assert not {"helper_module", "broken_module"} & set(sys.modules)


def test_two_modules_with_the_same_names(modules: Callable[..., dict[str, str]]) -> None:
    task = "from first_module import one\nfrom second_module import two\ndef task(x): return one(x) + two(x)\n"
    first = "SCALE = {}\ndef helper(x): return x * {}\ndef one(x): return helper(x) * SCALE\n"
    second = "SCALE = 3\ndef helper(x): return x * 4\ndef two(x): return helper(x) * SCALE\n"
    before = modules(task_module=task, first_module=first.format(1, 2), second_module=second)
    for scale, factor in ((9, 2), (1, 9)):
        now = modules(task_module=task, first_module=first.format(scale, factor), second_module=second)
        assert fingerprint.differences(before, now) != [], (scale, factor)


@pytest.mark.parametrize("place", ["-project/helper.py", "/src/app/helper.py"])
def test_code_beside_the_interpreter_is_the_users(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """/usr/src/app with /usr/bin/python: below the prefix, and no library."""
    module = type(sys)("beside_module")
    module.__file__ = sys.base_prefix + place
    exec("def helper(x): return x", module.__dict__)
    monkeypatch.setitem(sys.modules, "beside_module", module)
    assert list(fingerprint.of_function(module.helper)) == ["the code of helper"]


def test_what_main_defines_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """However Python was started: `python -m tool script.py` runs a script in the `__main__` of an installed tool."""
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "/lib/site-packages/tool/__main__.py", raising=False)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec("def task(x): return x", names)
    assert list(fingerprint.of_function(names["task"])) == ["the code of task"]
