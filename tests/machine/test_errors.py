"""The error tree: as its docstring draws it, catchable as the built-in ones, and whole after a journey."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest

from tenfold import errors
from tenfold.work.outcome import Failure

EVERY = {name: kind for name, kind in vars(errors).items() if inspect.isclass(kind) and issubclass(kind, Exception)}
BRANCH = re.compile(r"^ {4}(?P<indent>[│ ]*)(?:[├└]── )?(?P<name>[A-Z]\w+)(?: \((?P<builtin>\w+)\))?")

FAILURE = Failure("raised", "ValueError: no", "Traceback ...", b"\x00\xff", "the last line")


def drawn() -> dict[str, tuple[str | None, str | None]]:
    """name -> (parent, built-in in brackets), as the docstring draws them."""
    found: dict[str, tuple[str | None, str | None]] = {}
    above: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        match = BRANCH.match(line)
        if match is None:
            continue
        depth = re.search(r"[A-Z]", line).start()  # type: ignore[union-attr]
        while above and above[-1][0] >= depth:
            above.pop()
        found[match["name"]] = (above[-1][1] if above else None, match["builtin"])
        above.append((depth, match["name"]))
    return found


def test_the_docstring_draws_the_real_tree() -> None:
    real = {
        name: next((base.__name__ for base in kind.__bases__ if issubclass(base, errors.TenfoldError)), None)
        for name, kind in EVERY.items()
    }
    assert {name: parent for name, (parent, _) in drawn().items()} == real
    assert [name for name, parent in real.items() if parent is None] == ["TenfoldError"]


def test_the_docstring_names_every_built_in_base() -> None:
    real = {
        name: [base.__name__ for base in kind.__bases__ if base.__module__ == "builtins" and base is not Exception]
        for name, kind in EVERY.items()
    }
    assert {name: [builtin] if builtin else [] for name, (_, builtin) in drawn().items()} == real


@pytest.mark.parametrize("name", EVERY)
def test_each_can_be_caught_as_its_built_in(name: str) -> None:
    import builtins

    builtin = drawn()[name][1]
    caught = getattr(builtins, builtin) if builtin else errors.TenfoldError
    with pytest.raises(caught, match="what happened"):
        raise EVERY[name]("what happened")


@pytest.mark.parametrize("name", EVERY)
def test_each_survives_pickling(name: str) -> None:
    error = EVERY[name]("memory=2 GB: there is 1 GB")
    for protocol in (2, pickle.HIGHEST_PROTOCOL):
        again = pickle.loads(pickle.dumps(error, protocol))
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert again.args == error.args


@pytest.mark.parametrize("name", [name for name, kind in EVERY.items() if issubclass(kind, errors.TaskError)])
def test_the_story_of_a_task_survives_pickling(name: str) -> None:
    error = EVERY[name]("task 7 failed", index=7, failure=FAILURE, attempts=3)
    again = pickle.loads(pickle.dumps(error))
    assert (again.index, again.failure, again.attempts) == (7, FAILURE, 3)
    assert again.traceback == "Traceback ..."
    assert str(again) == "task 7 failed"


def test_notes_survive_pickling() -> None:
    lost = []
    for name, kind in EVERY.items():
        error = kind("what happened")
        error.add_note("the same call continues the run")
        if getattr(pickle.loads(pickle.dumps(error)), "__notes__", []) != error.__notes__:
            lost.append(name)
    assert lost == []


def test_a_task_error_without_a_failure_has_no_traceback() -> None:
    assert errors.TaskError("lost").traceback == ""


def test_failures_of_a_travelled_summary_are_empty_not_missing() -> None:
    again = pickle.loads(pickle.dumps(errors.TasksFailed("3 of 4 tasks failed")))
    assert again.results is None
    assert again.failures == []
