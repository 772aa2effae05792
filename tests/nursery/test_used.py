"""Which libraries a function uses, read from its code: without running it, and without importing anything.

In an interpreter of its own where it must be one without frameworks: what is imported counts as used.
"""

from __future__ import annotations

import functools
import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import scripts
from tenfold import frameworks
from tenfold.nursery import used


@pytest.fixture(autouse=True)
def nothing_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests may have imported a framework into this process; here nobody has, numpy aside."""
    for member in frameworks.every().values():
        if member.modules[0] != "numpy":
            monkeypatch.delitem(sys.modules, member.modules[0], raising=False)


def stand_in(name: str) -> types.ModuleType:
    """A module of a framework's name, so that a function can hold it without the seconds of its import."""
    return types.ModuleType(name)


torch = stand_in("torch")
keras_layers = stand_in("keras.layers")


class Estimator:
    pass


Estimator.__module__ = "sklearn.linear_model._base"


def roots(function: Callable[..., Any]) -> set[str]:
    return set(used.members(function)) - {"numpy"}


def imports_inside(x: Any) -> Any:
    import tensorflow as tf

    return tf.reduce_sum(x)


def imports_from(x: Any) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression().fit(x)


def imports_part(x: Any) -> Any:
    import jax.numpy as jnp

    return jnp.sum(x)


def imports_in_a_nested_function(x: Any) -> Any:
    def inner() -> Any:
        import keras

        return keras.Model()

    return [inner() for _ in range(3)]


def uses_global(x: Any) -> Any:
    return torch.tensor(x)


def uses_global_of_a_part(x: Any) -> Any:
    return keras_layers.Dense(x)


def uses_global_class(x: Any) -> Any:
    return Estimator()


def calls_helper(x: Any) -> Any:
    return calls_helper_2(x)


def calls_helper_2(x: Any) -> Any:
    return uses_global(x)


def recursive(x: Any) -> Any:
    return recursive(x) if x else uses_global(x)


def plain(x: Any) -> Any:
    return len(x) + 1


def closing_over(value: Any) -> Callable[[Any], Any]:
    return lambda x: value(x)


def unbound() -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        return later(x)

    if not plain:
        later = None
    return function


class Trainer:
    def fit(self, x: Any) -> Any:
        import torch

        return torch.tensor(x)

    @classmethod
    def build(cls, x: Any) -> Any:
        return imports_part(x)

    @staticmethod
    def check(x: Any) -> Any:
        return imports_from(x)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (imports_inside, {"tensorflow"}),
        (imports_from, {"sklearn"}),
        (imports_part, {"jax"}),
        (imports_in_a_nested_function, {"keras"}),
        (uses_global, {"torch"}),
        (uses_global_of_a_part, {"keras"}),
        (uses_global_class, {"sklearn"}),
        (calls_helper, {"torch"}),
        (recursive, {"torch"}),
        (closing_over(imports_part), {"jax"}),
        (closing_over(Estimator), {"sklearn"}),
        (unbound(), set()),
        (functools.partial(imports_from, x=3), {"sklearn"}),
        (functools.partial(functools.partial(uses_global), 1), {"torch"}),
        (Trainer().fit, {"torch"}),
        (Trainer.build, {"jax"}),
        (Trainer.check, {"sklearn"}),
        (lambda x: imports_inside(x) + uses_global(x), {"tensorflow", "torch"}),
        (plain, set()),
        (len, set()),
    ],
)
def test_which_frameworks(function: Callable[..., Any], expected: set[str]) -> None:
    assert roots(function) == expected


class Called:
    def __call__(self, x: Any) -> Any:
        return uses_global(x)


@pytest.mark.parametrize(
    "function",
    [Called(), functools.partial(map, uses_global), functools.partial(plain, uses_global)],
    ids=["an object that is called", "an argument of a builtin", "an argument of a function"],
)
def test_what_is_reached_by_other_ways(function: Any) -> None:
    """Otherwise every worker imports it anew, in seconds."""
    assert roots(function) == {"torch"}


def modules(function: Callable[..., Any]) -> list[str]:
    return used.modules(function)


def test_modules_to_import_ahead() -> None:
    found = modules(imports_from)
    assert found[0] == "sklearn" or found.index("sklearn") < found.index("sklearn.linear_model")
    assert set(frameworks.every()["sklearn"].modules) <= set(found)
    assert "sklearn.linear_model" in found
    assert len(found) == len(set(found))


def test_what_the_first_use_would_import() -> None:
    assert {"torch", "torch._dynamo"} <= set(modules(uses_global))


def uses_companions(x: Any) -> Any:
    import pandas as pd
    import scipy.stats

    return pd.DataFrame(x), scipy.stats.norm


def test_companions_are_imported_ahead_too() -> None:
    assert {"pandas", "scipy.stats"} <= set(modules(uses_companions))
    assert roots(uses_companions) == set()


def uses_own_module(x: Any) -> Any:
    import my_project.models

    return my_project.models.build(x)


def test_modules_of_the_user_are_not_imported_ahead() -> None:
    """A nursery never runs the user's code."""
    assert not any("my_project" in name for name in modules(uses_own_module))
    assert not any(name.startswith(("test_used", "json")) for name in modules(plain))


@pytest.mark.parametrize("name", list(frameworks.every()))
def test_preloads_of_a_framework(name: str) -> None:
    member = frameworks.every()[name]
    assert used.preloads(member.modules[0]) == member.modules


def test_preloads_of_something_else() -> None:
    assert used.preloads("my_library") == ("my_library",)


class Refusing:
    """A global that answers every question with an error, as a proxy outside of its context does."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("working outside of application context")


refusing: Any = Refusing()


def uses_refusing(x: Any) -> Any:
    return refusing.value, torch.tensor(x)


def test_a_global_that_refuses_to_be_asked() -> None:
    assert roots(uses_refusing) == {"torch"}


def test_a_long_chain_of_functions() -> None:
    function: Callable[..., Any] = uses_global
    for _ in range(200):
        function = closing_over(function)
    assert roots(function) == {"torch"}


@pytest.fixture
def told(tmp_path: Path) -> dict[str, Any]:
    ended = scripts.run(
        tmp_path,
        """
        import json, sys
        from tenfold.nursery import used
        def task(x):
            import torch
            return torch.tensor(x)
        def plain(x):
            return x
        found = {"members": used.members(task), "modules": used.modules(task), "plain": used.modules(plain)}
        found["loaded"] = [name for name in ("torch", "tensorflow", "jax", "keras", "sklearn") if name in sys.modules]
        sys.modules["jax"] = type(sys)("jax")
        found["with jax"] = used.modules(plain)
        print(json.dumps(found))
        """,
    )
    return dict(json.loads(ended.out))


def test_nothing_is_imported_to_find_out(told: dict[str, Any]) -> None:
    assert told["loaded"] == []
    assert told["members"] == ["torch"]
    assert set(told["modules"]) - {"numpy", "numpy.random"} == {"torch", "torch._dynamo"}


def test_what_this_process_has_imported_counts_as_used(told: dict[str, Any]) -> None:
    assert set(told["plain"]) <= {"numpy", "numpy.random"}
    assert set(told["with jax"]) - set(told["plain"]) == {"jax", "jax.numpy"}
