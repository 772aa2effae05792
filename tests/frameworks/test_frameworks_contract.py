"""The contract of every framework: each member that the folder holds, in an interpreter of its own.

A new member gets these tests for free; where it draws random numbers of its own, tell examined.py how.
"""

from __future__ import annotations

import contextlib
import json
import pkgutil
import sys
from pathlib import Path
from typing import Any

import pytest

import scripts
from tenfold import frameworks
from tenfold.frameworks import Framework
from tenfold.nursery import client

HERE = Path(__file__).parent
NAMES = list(frameworks.every())
Told = dict[str, dict[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """All at once: most of each is an import, and the longest takes several seconds."""
    # As a nursery imports them: with one thread. Keras on JAX, because its TensorFlow is examined on its own.
    variables = client.environment() | {"TENFOLD_NOTICE": "0", "KERAS_BACKEND": "jax", "CUDA_VISIBLE_DEVICES": "-1"}
    variables |= {"TF_CPP_MIN_LOG_LEVEL": "3"}
    found: Told = {}
    with contextlib.ExitStack() as stack:
        running = {}
        for name in NAMES:
            text = f"import runpy, sys\nsys.argv[1:] = [{name!r}]\nsys.path.insert(0, {str(HERE)!r})\n"
            text += f"runpy.run_path({str(HERE / 'examined.py')!r}, run_name='__main__')\n"
            folder = tmp_path_factory.mktemp(name)
            running[name] = stack.enter_context(scripts.started(folder, text, variables))
        for name, script in running.items():
            ended = script.end(120)
            assert ended.status == 0, f"{name}: {ended.out}\n{ended.err}"
            found[name] = json.loads(ended.out.splitlines()[-1])
    return found


def found(told: Told, name: str, step: str) -> Any:
    """What a step found; a failure of the test where it failed, a printed reason where it could not be taken."""
    answer = told[name][step]
    if "missing" in answer:
        pytest.skip(f"{name} cannot be examined here: {answer['missing']}")
    assert "failed" not in answer, answer.get("failed")
    return answer["found"]


# -- what every member says -------------------------------------------------------------------------------------------


def test_every_file_is_a_member() -> None:
    files = {module.name for module in pkgutil.iter_modules(frameworks.__path__)}
    assert set(NAMES) == files
    assert all(isinstance(member, Framework) for member in frameworks.every().values())


@pytest.mark.parametrize("name", NAMES)
def test_it_names_its_modules_and_packages(name: str) -> None:
    member = frameworks.every()[name]
    assert member.modules
    assert member.distributions
    assert member.modules[0] == name
    assert all(isinstance(text, str) and text for text in (*member.modules, *member.distributions))
    assert all(prefix.isupper() for prefix in member.import_variables)


def test_its_extra_is_one_of_tenfolds() -> None:
    """The command that is shown to people must work."""
    from importlib import metadata

    extras = metadata.metadata("tenfold").get_all("Provides-Extra") or []
    for name, member in frameworks.every().items():
        assert member.extra in extras or (name == "numpy" and not member.extra), name


def test_what_the_port_does_by_itself_is_nothing() -> None:
    plain = Framework()
    assert plain.variables(None) == {}  # type: ignore[arg-type]
    assert plain.settle(None) is None  # type: ignore[arg-type]
    assert not plain.started()
    assert plain.reducers() == {}


# -- before its import ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_variables_are_text_and_need_no_import(told: Told, name: str) -> None:
    answer = found(told, name, "variables")
    for variables in answer["found"].values():
        assert all(isinstance(key, str) and isinstance(value, str) for key, value in variables.items())
    assert set(answer["imported"]) <= {"numpy"}  # which tenfold uses itself


@pytest.mark.parametrize("name", NAMES)
def test_a_whole_gpu_is_not_limited_and_a_part_is(told: Told, name: str) -> None:
    variables = found(told, name, "variables")["found"]
    assert variables["a GPU"] == variables["one core"]
    if name in ("torch", "tensorflow", "jax", "cupy"):
        assert variables["a part of a GPU"] != variables["a GPU"]


@pytest.mark.parametrize("name", NAMES)
def test_it_is_not_imported_before_it_is(told: Told, name: str) -> None:
    assert found(told, name, "before_the_import") in ((False,) if name != "numpy" else (False, True))


# -- after its import -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_its_modules_can_be_imported(told: Told, name: str) -> None:
    assert found(told, name, "imports") == list(frameworks.every()[name].modules)
    assert found(told, name, "after_the_import")


@pytest.mark.parametrize("name", NAMES)
def test_an_import_starts_nothing(told: Told, name: str) -> None:
    """Neither a device nor a thread: a nursery forks after it."""
    assert found(told, name, "started_after_the_import") is False
    assert found(told, name, "safe_to_fork") is None


@pytest.mark.parametrize("name", NAMES)
def test_the_first_use_is_noticed(told: Told, name: str) -> None:
    assert found(told, name, "started_after_use") in (None, True)
    if name in ("tensorflow", "jax"):
        assert found(told, name, "started_after_use") is True


@pytest.mark.parametrize("name", NAMES)
def test_reducers_are_for_types(told: Told, name: str) -> None:
    table = found(told, name, "reducers")
    assert all(entry == [True, True] for entry in table)
    if name in ("torch", "jax"):
        assert table


@pytest.mark.parametrize("name", NAMES)
def test_threads_are_settled_and_given_back(told: Told, name: str) -> None:
    assert set(found(told, name, "settles")) <= {"nothing", "undone"}
    if name in ("numpy", "torch"):
        assert "undone" in found(told, name, "settles")


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_numbers(told: Told, name: str) -> None:
    drawn = found(told, name, "seeds")
    if drawn is None:
        return  # it has no random numbers of its own
    first, again, *others = drawn
    assert first == again
    assert all(other != first for other in others)


@pytest.mark.parametrize("name", NAMES)
def test_the_random_numbers_of_the_caller_are_given_back(told: Told, name: str) -> None:
    """Tasks of the serial engine run in the caller's own process."""
    drawn = found(told, name, "restores")
    if drawn is None:
        return
    expected, again = drawn[:2], drawn[2:]
    assert again == expected


# -- imported ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = type(sys)("cupy")
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


def test_a_module_that_is_being_imported_is_not_imported_yet(pretended: Any) -> None:
    from importlib.machinery import ModuleSpec

    member = frameworks.every()["cupy"]
    assert frameworks.is_imported(member)
    pretended.__spec__ = ModuleSpec("cupy", None)
    assert frameworks.is_imported(member)
    pretended.__spec__._initializing = True  # what importlib says while it executes a module
    assert not frameworks.is_imported(member)
    assert member not in frameworks.imported()


def test_members_are_made_once() -> None:
    assert frameworks.every() is frameworks.every()
