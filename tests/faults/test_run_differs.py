"""The same call continues its run; another call is refused with what differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import scripts
import tenfold
from tenfold import errors


def _scaled(factor: float) -> Any:
    def scale(x: int) -> float:
        return factor * x

    return scale


def _squared() -> Any:
    def scale(x: int) -> float:
        return float(x * x)

    return scale


def _call(function: Any = None, items: Any = None, **options: Any) -> dict[str, Any]:
    return {"task": function or _scaled(2.0), "items": items if items is not None else range(4), **options}


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        (_call(_squared()), "code of"),
        (_call(_scaled(3.0)), "factor"),
        (_call(seed=1), "seed"),
        (_call(items=range(5)), "there were 4 items and are now 5"),
        (_call(items=[0, 1, 7, 3]), "item 2 was 2 and is now 7"),
        (_call(items=iter([0, 1, 7, 3])), "item 2 was 2 and is now 7"),
        (_call(abs), "code of"),
    ],
    ids=["code", "closed-over value", "seed", "number of items", "item", "item of a generator", "another function"],
)
def test_another_call_is_refused_with_what_differs(changed: dict[str, Any], text: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    before = _call()
    tenfold.map(before["task"], before["items"], run=run)
    arguments = dict(changed)
    with pytest.raises(errors.RunDiffers, match=text) as caught:
        tenfold.map(arguments.pop("task"), arguments.pop("items"), run=run, **arguments)
    assert "fresh=True" in str(caught.value)
    assert isinstance(caught.value, errors.BadCall)
    # The run itself is not harmed.
    assert tenfold.map(_scaled(2.0), range(4), run=run)[:] == [0.0, 2.0, 4.0, 6.0]
    if "items" not in changed or not hasattr(changed["items"], "__next__"):
        again = dict(changed)
        tenfold.map(again.pop("task"), again.pop("items"), run=run, fresh=True, **again)


def test_an_array_that_is_closed_over_counts(tmp_path: Path) -> None:
    import numpy

    def with_array(array: Any) -> Any:
        return lambda x: float(array[x])

    tenfold.map(with_array(numpy.arange(50_000.0)), range(3), run=tmp_path / "run")
    assert len(tenfold.map(with_array(numpy.arange(50_000.0)), range(3), run=tmp_path / "run")) == 3
    with pytest.raises(errors.RunDiffers, match="array"):
        tenfold.map(with_array(numpy.arange(50_000.0) + 1), range(3), run=tmp_path / "run")


@pytest.mark.parametrize(
    "options",
    [{"workers": 1}, {"engine": "serial"}, {"retries": 3}, {"timeout": 50}, {"on_error": "collect"}, {"cpus": 2}],
)
def test_how_it_is_run_does_not_count(options: dict[str, Any], tmp_path: Path) -> None:
    tenfold.map(_scaled(2.0), range(4), run=tmp_path / "run")
    assert tenfold.map(_scaled(2.0), range(4), run=tmp_path / "run", **options)[:] == [0.0, 2.0, 4.0, 6.0]


_SCRIPT = """
    import dataclasses, enum, functools, pathlib, sys
    {comment}
    import numpy
    import tenfold

    @dataclasses.dataclass
    class Config:
        lr: float
        layers: tuple = (1, 2)

    class Kind(enum.Enum):
        SMALL = 1

    class Model:
        def __init__(self, names):
            self.names = names

        def train(self, x):
            return x

    NAMES = {{"alpha", "beta", "gamma", "delta", "epsilon"}}
    CONFIG = Config(0.1)
    TABLE = {{Kind.SMALL: [CONFIG, frozenset(NAMES)], "f": lambda x: x + 1}}
    MODEL = Model(NAMES)

    def helper(x):
        {comment}
        return x + len(NAMES) + CONFIG.lr + len(TABLE) + MODEL.train(x)

    def task(item, offset=frozenset(["a", "b", "c"])):
        with open("runs", "a") as file:
            file.write("x")
        return helper(item.lr if isinstance(item, Config) else len(item)) + len(offset)

    items = [Config(1.0), Config(2.0), {{"a", "b", "c"}}, {{"x": Kind.SMALL.name}}]
    print(tenfold.map(functools.partial(task), items, run="run")[:])
"""


def test_the_same_script_in_another_interpreter_is_the_same_call(tmp_path: Path) -> None:
    """Sets are pickled in another order there, and classes of the script are other objects."""
    outs = []
    for hash_seed, comment in (("1", "# one"), ("2", "# another\n    # comment"), ("3", "")):
        text = _SCRIPT.format(comment=comment)
        outs.append(scripts.run(tmp_path, text, {"PYTHONHASHSEED": hash_seed}).out)
    assert outs[0] == outs[1] == outs[2]
    assert (tmp_path / "runs").read_text() == "xxxx"


# -- continuing -------------------------------------------------------------------------------------------------------


def _failing(folder: Path, bad: Any) -> Any:
    """Fails for the `bad` ones until there is a file called fixed; every run of a task leaves a mark."""

    def work(x: int) -> int:
        with open(folder / f"ran {x}", "a") as file:
            file.write("x")
        if x in bad and not (folder / "fixed").exists():
            raise ValueError(f"bad {x}")
        return x

    return work


@pytest.mark.parametrize(
    "bad",
    [{3}, {0, 1, 2}, set(range(20, 60)), set(range(60)), {1, 3, 5, 7, 30, 31, 32, 59}],
    ids=["one", "the first", "a block at the end", "all", "scattered"],
)
@pytest.mark.parametrize("workers", [1, 2])
def test_only_what_failed_is_run_again(bad: set[int], workers: int, tmp_path: Path) -> None:
    work = _failing(tmp_path, bad)
    first = tenfold.map(work, range(60), run=tmp_path / "run", workers=workers, on_error="collect")
    assert [error.index for error in first.failures] == sorted(bad)
    (tmp_path / "fixed").touch()
    second = tenfold.map(work, range(60), run=tmp_path / "run", workers=workers)
    assert second.failures == []
    assert second[:] == list(second) == list(range(60))
    assert [outcome.index for outcome in second.outcomes] == list(range(60))
    assert len(second.frame()) == 60
    assert "60 done" in second.summary()
    assert "failed" not in second.summary()
    runs = {x: len((tmp_path / f"ran {x}").read_text()) for x in range(60)}
    assert runs == {x: 2 if x in bad else 1 for x in range(60)}
    third = tenfold.map(work, range(60), run=tmp_path / "run", workers=workers)
    assert third[:] == list(range(60))
    assert {x: len((tmp_path / f"ran {x}").read_text()) for x in range(60)} == runs


def test_what_fails_again_keeps_its_newest_story(tmp_path: Path) -> None:
    def fail(x: int) -> int:
        text = (tmp_path / "reason").read_text()
        if x % 2:
            raise ValueError(text)
        return x

    for reason in ("the first reason", "the second reason"):
        (tmp_path / "reason").write_text(reason)
        results = tenfold.map(fail, range(40), run=tmp_path / "run", on_error="collect")
        assert [error.index for error in results.failures] == list(range(1, 40, 2))
        assert all(reason in str(error) for error in results.failures)
        assert len(list(results)) == 40


def test_an_interrupted_generator_continues(tmp_path: Path) -> None:
    def items(stop: bool) -> Any:
        for x in range(20):
            if stop and x == 10:
                raise ConnectionError("the source is gone")
            yield x

    def count(x: int) -> int:
        with open(tmp_path / f"ran {x}", "a") as file:
            file.write("x")
        return x

    with pytest.raises(ConnectionError):
        tenfold.map(count, items(stop=True), run=tmp_path / "run", engine="serial")
    assert tenfold.map(count, items(stop=False), run=tmp_path / "run", engine="serial")[:] == list(range(20))
    assert {len((tmp_path / f"ran {x}").read_text()) for x in range(20)} == {1}


def test_fewer_items_from_a_generator_are_not_taken_for_the_whole(tmp_path: Path) -> None:
    tenfold.map(_scaled(2.0), iter(range(6)), run=tmp_path / "run")
    with pytest.raises(errors.RunDiffers, match="6 items"):
        tenfold.map(_scaled(2.0), iter(range(3)), run=tmp_path / "run")
    assert tenfold.map(_scaled(2.0), iter(range(6)), run=tmp_path / "run")[:] == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
