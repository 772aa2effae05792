"""What a study looks for, found in what tasks return and report; and what is said where it is not there."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy
import pytest

from tenfold.errors import BadCall
from tenfold.fuse.result import FitResult
from tenfold.search.objective import Objective, objective
from tenfold.search.trial import End
from tenfold.search.trying import Tried
from tenfold.work.leg import Leg, Why
from tenfold.work.outcome import Failure, Outcome, Unopened

LEG = Leg(0, {}, None)


def outcome(value: Any, failure: Failure | None = None) -> Outcome:
    return Outcome(7, failure is None, value, failure, 0.5, 0.0, 0, 0, "here", 1)


def read(value: Any, *names: str | None, why: Why = "finished", reported: Any = (), direction: str = "minimize") -> End:
    tried = Tried(value, why, len(reported), list(reported), len(reported) - 1 if reported else None, False)
    return Objective(names or (None,), (direction,) * max(1, len(names))).read(LEG, outcome(tried))


class Scalar:
    """As a tensor of one element is."""

    def __float__(self) -> float:
        return 2.5


@pytest.mark.parametrize(
    "value", [2.5, numpy.float32(2.5), numpy.array([2.5])[0], numpy.array([[2.5]]), Scalar(), {"loss": 2.5}]
)
def test_a_number_or_the_only_one_of_a_dict(value: Any) -> None:
    assert read(value).values == (2.5,)


def test_by_its_name_among_what_is_returned() -> None:
    assert read({"loss": 1.0, "accuracy": 2.0}, "accuracy").values == (2.0,)
    assert read({"loss": 1.0, "accuracy": 2.0}, "accuracy", "loss").values == (2.0, 1.0)
    assert read(3, "accuracy").values == (3.0,), "a number is what was looked for, whatever it is called"


def test_what_is_returned_counts_more_than_what_was_reported() -> None:
    reported = [(1, {"loss": 5.0}), (2, {"loss": 4.0, "other": 1.0})]
    assert read(1.0, "loss", reported=reported).values == (1.0,)
    assert read({"loss": 1.0}, "loss", reported=reported).values == (1.0,)
    found = read(None, "loss", reported=reported)
    assert (found.values, found.curve, found.last) == ((4.0,), {1: 5.0, 2: 4.0}, 1)
    assert read({"x": "y"}, "other", reported=reported).values == (1.0,)
    assert read(None, reported=reported).values == (4.0,), "without a name, the first of each report"


@pytest.mark.parametrize(
    ("value", "names", "told"),
    [
        (None, (), "expected a number as what the task returns or reports; it returned None and reported nothing"),
        ({"loss": 1.0}, ("accuracy",), "expected accuracy"),
        ({"a": 1.0, "b": 2.0}, (), "it returned {'a': 1.0, 'b': 2.0}"),
        ("good", (), "it returned 'good'"),
        (numpy.zeros(3), (), "it returned array([0., 0., 0.])"),
        ({"loss": [1.0, 2.0]}, ("loss",), "expected loss"),
        ({"loss": 1.0}, ("loss", "size"), "expected loss, size"),
    ],
)
def test_what_is_missing_is_said(value: Any, names: tuple[str, ...], told: str) -> None:
    found = read(value, *names)
    assert (found.why, found.values) == (None, None)
    assert told in str(found.error)
    assert "Say objective='NAME'" in str(found.error)


def test_a_leg_that_was_stopped_has_what_it_had_reached() -> None:
    reported = [(1, {"loss": 3.0}), (2, {"loss": 1.0}), (3, {"loss": 2.0})]
    assert read(None, "loss", why="paused", reported=reported).values == (2.0,)
    assert read(None, "loss", why="pruned", reported=reported).values == (2.0,)
    assert read(None, "loss", why="stopped", reported=reported).values == (1.0,), "by patience: its best"
    assert read(None, "loss", why="stopped", reported=reported, direction="maximize").values == (3.0,)


def test_failures_and_what_cannot_be_opened() -> None:
    told = Objective((None,), ("minimize",))
    found = told.read(LEG, outcome(None, Failure("raised", "ValueError: no", "the traceback")))
    assert (found.index, found.why, found.values, found.seconds) == (7, None, None, 0.5)
    assert "the traceback" in str(found.error)
    found = told.read(LEG, outcome(Unopened("its class is missing")))
    assert found.error == "what the task brought back cannot be opened here: its class is missing"


def fitted(**more: Any) -> FitResult:
    history = {"loss": [3.0, 2.0, 1.0], "val_loss": [5.0, 4.0, 6.0]}
    return FitResult({}, history, [], "fused", **more)


def test_of_a_fit() -> None:
    wanted = Objective(("val_loss",), ("minimize",))
    found = wanted.read(LEG, outcome(fitted()))
    assert (found.values, found.curve, found.why, found.last) == ((6.0,), {1: 5.0, 2: 4.0, 3: 6.0}, "finished", 2)
    found = wanted.read(LEG, outcome(fitted(best_epoch=1, ended="paused", saved="state")))
    assert (found.values, found.why) == ((4.0,), "paused"), "of the epoch whose weights it has"
    with pytest.raises(BadCall, match="objective='val_acc': an epoch has loss, val_loss"):
        Objective(("val_acc",), ("maximize",)).read(LEG, outcome(fitted()))


# -- from what the caller says ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "directions", "expected"),
    [
        (None, None, (("val_loss",), ("minimize",))),
        ([], None, (("val_loss",), ("minimize",))),
        ("val_accuracy", None, (("val_accuracy",), ("maximize",))),
        ("auc", None, (("auc",), ("maximize",))),
        ("val_acc1", None, (("val_acc1",), ("maximize",))),
        ("layer2_loss", None, (("layer2_loss",), ("minimize",))),
        ("accuracy_loss", None, (("accuracy_loss",), ("minimize",))),
        ("neg_log_loss", None, (("neg_log_loss",), ("maximize",))),
        ("neg_accuracy", None, (("neg_accuracy",), ("minimize",))),
        ("val_accuracy", "minimize", (("val_accuracy",), ("minimize",))),
        (["loss", "accuracy"], None, (("loss", "accuracy"), ("minimize", "maximize"))),
        (("loss", "size"), "maximize", (("loss", "size"), ("maximize", "maximize"))),
        (["loss", "size"], ["minimize", None], (("loss", "size"), ("minimize", "minimize"))),
    ],
)
def test_names_and_directions(names: Any, directions: Any, expected: Any) -> None:
    found, faults = objective(names, directions, "val_loss")
    assert faults == []
    assert (found.names, found.directions) == expected
    assert found.sign == (-1 if expected[1][0] == "maximize" else 1)


@pytest.mark.parametrize(
    ("names", "directions", "told"),
    [
        (5, None, "objective=5: expected a name"),
        (["loss", ""], None, "objective='': expected a name"),
        (["loss", "a", "loss"], None, "objective=['loss', 'a', 'loss']: 'loss' stands there twice"),
        ("loss", "up", 'direction=\'up\': expected "minimize" or "maximize"'),
        ("loss", ["minimize", "maximize"], "there are 1 objectives and 2 directions"),
        (["a", "b"], ["minimize"], "there are 2 objectives and 1 directions"),
    ],
)
def test_what_is_no_objective(names: Any, directions: Any, told: str) -> None:
    _, faults = objective(names, directions, None)
    assert told in "; ".join(faults)


@pytest.mark.parametrize(
    ("value", "reported"), [({"accuracy": 0.5}, ()), (None, [(1, {"accuracy": 0.5, "loss": 1.0})])]
)
def test_more_is_better_of_what_nobody_has_named(value: Any, reported: Any) -> None:
    tried = Tried(value, "finished", len(reported), list(reported), None, False)
    guessed, _ = objective(None, None, None)
    with pytest.raises(BadCall, match=r"the task tells 'accuracy', of which more is better.*say objective='accuracy'"):
        guessed.read(LEG, outcome(tried))
    said, _ = objective(None, "minimize", None)
    assert said.read(LEG, outcome(tried)).values == (0.5,)
    assert guessed.read(LEG, outcome(replace(tried, value=0.25))).values == (0.25,)


def test_a_value_that_is_no_number_is_one_for_python() -> None:
    assert math.isnan((read(math.nan).values or (0.0,))[0])
