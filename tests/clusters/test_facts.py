"""What must be equal here and on a node, and how a difference is told."""

from __future__ import annotations

import platform
from dataclasses import replace

import pytest

from tenfold.engines.cluster import facts

HERE = facts.look()
MINOR = ".".join(platform.python_version().split(".")[:2])


def test_a_node_that_is_the_same() -> None:
    assert facts.differences(HERE, replace(HERE, host="another", hostname="red"), ["numpy", "torch", "keras"]) == []


def test_another_python() -> None:
    there = replace(HERE, python="3.99.1")
    assert facts.differences(HERE, there, []) == [f"Python 3.99.1 there, {HERE.python} here"]


def test_a_python_that_differs_in_its_last_number_will_do() -> None:
    assert facts.differences(HERE, replace(HERE, python=f"{MINOR}.99"), []) == []


@pytest.mark.parametrize("package", facts.ALWAYS)
def test_another_version_of_what_is_always_compared(package: str) -> None:
    there = replace(HERE, versions={**HERE.versions, package: "0.0.1"})
    assert facts.differences(HERE, there, []) == [f"{package} 0.0.1 there, {HERE.versions[package]} here"]


@pytest.mark.parametrize(("found", "told"), [("0.4.0", "torch 0.4.0 there"), (None, "torch not installed there")])
def test_a_framework_counts_where_the_function_uses_it(found: str | None, told: str) -> None:
    versions = {name: version for name, version in HERE.versions.items() if name != "torch"}
    there = replace(HERE, versions=versions | ({"torch": found} if found else {}))
    assert facts.differences(HERE, there, ["numpy", "keras"]) == []
    assert facts.differences(HERE, there, ["torch"]) == [f"{told}, {HERE.versions['torch']} here"]


def test_whoever_provides_a_framework_will_do() -> None:
    """TensorFlow has several names."""
    versions = dict(HERE.versions)
    names = [name for name in versions if name.startswith("tensorflow")]
    version = versions[names[0]]
    for name in names:
        del versions[name]
    for other in ("tensorflow", "tensorflow-cpu"):
        there = replace(HERE, versions={**versions, other: version})
        assert facts.differences(HERE, there, ["tensorflow"]) == []
    there = replace(HERE, versions={**versions, "tensorflow-cpu": "2.0"})
    assert facts.differences(HERE, there, ["tensorflow"]) == [f"tensorflow-cpu 2.0 there, {version} here"]


def test_all_that_differs_is_told_at_once() -> None:
    there = replace(HERE, python="2.7.18", versions={**HERE.versions, "numpy": "1.0", "torch": "0.4.0"})
    told = facts.differences(HERE, there, ["torch"])
    assert [fault.partition(" there")[0] for fault in told] == ["Python 2.7.18", "numpy 1.0", "torch 0.4.0"]
