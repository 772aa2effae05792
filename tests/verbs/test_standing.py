"""Workers that wait for more items of one task: the same ones, and they go when they are told."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tenfold import errors
from tenfold.verbs.call import Settings
from tenfold.verbs.standing import Standing
from tenfold.work.here import Here
from tenfold.work.run import Declined


class Squares:
    """A task that takes several items at once; odd ones fail, negative ones go alone."""

    def together(self, tasks: Sequence[tuple[Here, int]]) -> list[Any]:
        return [Declined("it is negative") if item < 0 else self._of(item) for _, item in tasks]

    def __call__(self, item: int) -> Any:
        return (item * item, os.getpid())

    def _of(self, item: int) -> Any:
        return ValueError(f"{item} is odd") if item % 2 else self(item)

    def alone(self, reasons: Mapping[int, str]) -> Callable[[Any], Any]:
        return self.__call__

    def likeness(self, item: int) -> int:
        return 0

    def refusal(self, frameworks: Sequence[str]) -> str | None:
        return None

    def variables(self, frameworks: Sequence[str]) -> Mapping[str, str]:
        return {}

    def check(self, items: Sequence[Any]) -> None:
        if not all(isinstance(item, int) for item in items):
            raise errors.BadCall("whole numbers only")

    def received(self, value: Any) -> Any:
        return value

    def finished(self, folder: Path) -> None:
        return


@pytest.fixture(params=["local", "joblib", "serial"])
def standing(request: pytest.FixtureRequest) -> Iterator[Standing]:
    found = Standing(Squares(), Settings(engine=request.param, workers=2, progress=False))
    yield found
    found.close()


def test_the_same_workers_take_one_call_after_the_other(standing: Standing) -> None:
    first = standing.run([0, 2, 4, 6])
    second = standing.run([8, 10])
    assert [value for value, _ in first] == [0, 4, 16, 36]
    assert [value for value, _ in second] == [64, 100]
    assert {pid for _, pid in second} <= {pid for _, pid in first}


def test_failures_stand_in_their_places_and_what_cannot_go_together_goes_alone(standing: Standing) -> None:
    for _ in range(2):
        even, failed, alone = standing.run([2, 3, -4])
        assert (even[0], alone[0]) == (4, 16)
        assert isinstance(failed, errors.TaskError)
        assert "3 is odd" in str(failed)


def test_items_that_cannot_work_are_refused_and_the_workers_stay(standing: Standing) -> None:
    with pytest.raises(errors.BadCall, match="whole numbers only"):
        standing.run(["two"])
    assert standing.run([2])[0][0] == 4


def test_a_worker_that_is_killed_between_two_calls_is_replaced() -> None:
    standing = Standing(Squares(), Settings(workers=1, progress=False))
    (_, pid), *_ = standing.run([2])
    os.kill(pid, signal.SIGKILL)
    (value, other), *_ = standing.run([4])
    standing.close()
    assert value == 16
    assert other != pid


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(errors.BadCall, match="retries=-1"):
        Standing(Squares(), Settings(retries=-1))
