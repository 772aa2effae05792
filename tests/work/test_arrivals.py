"""Imports are noticed: before they happen, and when they are done."""

from __future__ import annotations

import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tenfold.work.arrivals import Arrivals

_numbers = itertools.count()

Make = Callable[..., str]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Writes a module that nobody has imported yet; returns its name."""
    monkeypatch.syspath_prepend(str(tmp_path))
    finders = list(sys.meta_path)
    made: list[str] = []

    def module(text: str = "VALUE = 1\n", package: bool = False) -> str:
        name = f"arriving_{next(_numbers)}"
        path = tmp_path / name / "__init__.py" if package else tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        importlib.invalidate_caches()
        made.append(name)
        return name

    yield module
    for name in list(sys.modules):
        if name.partition(".")[0] in made:
            del sys.modules[name]
    sys.meta_path[:] = finders


@pytest.fixture
def told() -> list[tuple[str, str, bool]]:
    """(when, name, whether the module had its content)"""
    return []


@pytest.fixture
def watch(told: list[tuple[str, str, bool]]) -> Iterator[Callable[..., Arrivals]]:
    watching: list[Arrivals] = []

    def start(*names: str, before: bool = True, after: bool = True) -> Arrivals:
        def tell(when: str) -> Callable[[str], None]:
            return lambda name: told.append((when, name, hasattr(sys.modules.get(name), "VALUE")))

        arrivals = Arrivals(names, before=tell("before") if before else None, after=tell("after") if after else None)
        arrivals.watch()
        watching.append(arrivals)
        return arrivals

    yield start
    for arrivals in watching:
        arrivals.stop()


def test_before_and_after(make: Make, watch: Any, told: Any) -> None:
    name = make()
    watch(name)
    assert importlib.import_module(name).VALUE == 1
    assert told == [("before", name, False), ("after", name, True)]


@pytest.mark.parametrize("when", ["before", "after"])
def test_one_of_them(make: Make, watch: Any, told: Any, when: str) -> None:
    name = make()
    watch(name, before=when == "before", after=when == "after")
    importlib.import_module(name)
    assert told == [(when, name, when == "after")]


def test_only_the_names_that_were_asked_for(make: Make, watch: Any, told: Any) -> None:
    name, other = make(), make()
    watch(name)
    importlib.import_module(other)
    assert told == []


def test_each_is_told_once(make: Make, watch: Any, told: Any) -> None:
    name = make()
    watch(name, before=False)
    importlib.import_module(name)
    importlib.import_module(name)
    importlib.reload(sys.modules[name])
    assert told == [("after", name, True)]


def test_what_is_there_already_does_not_arrive(make: Make, watch: Any, told: Any) -> None:
    name = make()
    importlib.import_module(name)
    arrivals = watch(name)
    importlib.reload(sys.modules[name])
    assert told == []
    assert arrivals not in sys.meta_path


def test_stopped(make: Make, watch: Any, told: Any) -> None:
    name = make()
    arrivals = watch(name)
    arrivals.stop()
    arrivals.stop()
    importlib.import_module(name)
    assert told == []
    assert arrivals not in sys.meta_path


def test_watching_twice_is_watching_once(make: Make, watch: Any, told: Any) -> None:
    name = make()
    arrivals = watch(name)
    arrivals.watch()
    assert sys.meta_path.count(arrivals) == 1


def test_the_module_looks_as_if_nobody_had_watched(make: Make, watch: Any) -> None:
    """pkgutil, inspect and importlib.resources ask a module's loader for things."""
    watched, plain = make(package=True), make(package=True)
    watch(watched)
    ours, theirs = importlib.import_module(watched), importlib.import_module(plain)
    assert type(ours.__loader__) is type(theirs.__loader__)
    assert type(ours.__spec__.loader) is type(theirs.__spec__.loader)
    assert ours.__file__.endswith("__init__.py")
    assert list(ours.__path__) == [str(Path(ours.__file__).parent)]


def test_a_package_that_imports_its_own_parts(make: Make, watch: Any, told: Any) -> None:
    name = make("from . import part\nVALUE = part.VALUE\n", package=True)
    module = next(path for path in sys.path if (Path(path) / name).exists())
    (Path(module) / name / "part.py").write_text("VALUE = 3\n")
    watch(name)
    assert importlib.import_module(name).VALUE == 3
    assert told == [("before", name, False), ("after", name, True)]


def test_two_watchers_both_hear_of_it(make: Make, watch: Any, told: Any) -> None:
    name = make()
    watch(name, after=False)
    watch(name, before=False)
    watch(name, before=False)
    importlib.import_module(name)
    assert sorted(told) == [("after", name, True), ("after", name, True), ("before", name, False)]


def test_a_name_that_does_not_exist_is_a_plain_import_error(watch: Any) -> None:
    watch("no_such_module_at_all")
    with pytest.raises(ModuleNotFoundError, match="no_such_module_at_all"):
        importlib.import_module("no_such_module_at_all")


def test_an_import_that_fails_is_not_told_as_done(make: Make, watch: Any, told: Any) -> None:
    name = make("raise RuntimeError('not today')\n")
    watch(name, before=False)
    with pytest.raises(RuntimeError, match="not today"):
        importlib.import_module(name)
    assert told == []


def test_an_import_that_works_at_the_second_try(make: Make, watch: Any, told: Any) -> None:
    name = make("import arriving_gate\nVALUE = 1\n")
    watch(name, before=False)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(name)
    sys.modules["arriving_gate"] = type(sys)("arriving_gate")
    try:
        importlib.import_module(name)
    finally:
        del sys.modules["arriving_gate"]
    assert told == [("after", name, True)]


def test_looking_whether_it_is_installed_is_not_importing_it(make: Make, watch: Any, told: Any) -> None:
    """Libraries ask `find_spec("torch")` all the time; the import that may follow must still be noticed."""
    name = make()
    watch(name, before=False)
    assert importlib.util.find_spec(name) is not None
    assert told == []
    importlib.import_module(name)
    assert told == [("after", name, True)]


class _Elsewhere(importlib.abc.MetaPathFinder):
    """Finds modules by another way than sys.path, as editable installs do."""

    def __init__(self, name: str, path: Path) -> None:
        self._name, self._path = name, path

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        return importlib.util.spec_from_file_location(name, self._path) if name == self._name else None


def test_a_module_that_another_finder_finds(tmp_path: Path, watch: Any, told: Any, make: Make) -> None:
    (tmp_path / "source").mkdir()
    path = tmp_path / "source" / "real.py"
    path.write_text("VALUE = 1\n")
    name = f"arriving_{next(_numbers)}"
    finder = _Elsewhere(name, path)
    sys.meta_path.append(finder)
    watch(name)
    try:
        assert importlib.import_module(name).VALUE == 1
    finally:
        sys.meta_path.remove(finder)
        sys.modules.pop(name, None)
    assert told == [("before", name, False), ("after", name, True)]


def test_an_import_is_not_visited_by_the_garbage_collector(make: Make, watch: Callable[..., Arrivals]) -> None:
    name = make("import gc\nVALUE = 1\nWAS_ENABLED = gc.isenabled()\nWHOLE = [[] for _ in range(1000)]\n")
    watch(name)
    frozen = gc.get_freeze_count()
    module = importlib.import_module(name)
    assert not module.WAS_ENABLED
    assert gc.isenabled()
    assert gc.get_freeze_count() >= frozen + 1000
    gc.unfreeze()


def test_a_failing_import_leaves_the_garbage_collector_as_it_was(make: Make, watch: Callable[..., Arrivals]) -> None:
    name = make("raise RuntimeError('no')\n")
    watch(name)
    frozen = gc.get_freeze_count()
    with pytest.raises(RuntimeError):
        importlib.import_module(name)
    assert gc.isenabled()
    assert gc.get_freeze_count() == frozen


def test_who_wants_no_collections_gets_none(make: Make, watch: Callable[..., Arrivals]) -> None:
    name = make()
    watch(name)
    gc.disable()
    try:
        importlib.import_module(name)
        assert not gc.isenabled()
    finally:
        gc.enable()
