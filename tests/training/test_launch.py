"""`tenfold.launch`: the group is there when the function begins, and nothing is left when one of them falls."""

from __future__ import annotations

from multiprocessing import AuthenticationError
from multiprocessing.connection import Client
from typing import Any

import launches
import pytest

import tenfold
from tenfold import machine
from tenfold.errors import BadCall, TaskDied, TasksFailed, TaskTimedOut
from tenfold.training.rendezvous import Blame, Rendezvous
from tenfold.verbs.launch import told
from tenfold.work.outcome import Failure


def launch(function: Any, params: Any = None, workers: int = 2, **options: Any) -> list[Any]:
    return tenfold.launch(function, params, workers=workers, progress=False, **options)


def test_torch_adds_up_over_all() -> None:
    assert launch(launches.in_torch, {"scale": 2.0}, workers=3) == [(rank, 3, [9.0, 9.0]) for rank in range(3)]


def test_jax_has_the_devices_of_all() -> None:
    for count, devices, total in launch(launches.in_jax):
        assert (count, devices, total) == (2, 2, 3.0)


def test_tensorflow_has_replicas_in_all() -> None:
    for replicas, total, weight in launch(launches.in_tensorflow):
        assert (replicas, total) == (2, 3.0)
        assert weight == pytest.approx(1.0 - 0.1 * 3.0)


@pytest.mark.parametrize(("how", "said"), [("kill", "ended without a word"), ("raise", "ValueError: one too many")])
def test_the_error_is_of_the_one_that_failed_first(how: str, said: str) -> None:
    with pytest.raises(TasksFailed, match=rf"worker 1 of 3 failed first: .*{said}") as caught:
        launch(launches.fall, {"how": how, "together": True}, workers=3)
    assert [error.index for error in caught.value.failures] == [1]
    if how == "kill":
        assert isinstance(caught.value.failures[0], TaskDied)
    else:
        assert isinstance(caught.value.__cause__, ValueError)
    del caught


def test_variables_for_libraries_that_form_a_group_themselves() -> None:
    first, second = launch(launches.several)
    assert (first["RANK"], second["RANK"]) == ("0", "1")
    assert (first["LOCAL_RANK"], second["LOCAL_RANK"]) == ("0", "1")
    assert first["WORLD_SIZE"] == second["WORLD_SIZE"] == "2"
    assert first["MASTER_PORT"] == second["MASTER_PORT"]


def test_outside_it_is_one_of_one() -> None:
    assert launches.nothing() == 0
    assert tenfold.here().workers == 1
    assert launch(launches.nothing, workers=1, groups=[]) == [0]


def test_they_may_take_so_long() -> None:
    with pytest.raises(TasksFailed, match=r"worker [01] of 2 failed first: .*timeout=0\.5") as caught:
        launch(launches.forever, timeout=0.5)
    assert isinstance(caught.value.failures[0], TaskTimedOut)
    del caught


def test_of_those_that_the_engine_has_ended_it_tells_of_the_first_only() -> None:
    gone = Blame(0, "its process has ended without a word", lost=True)
    late = TaskTimedOut("too late", index=1, failure=Failure("timeout", "it ran longer than timeout=1 s"))
    died = TaskDied("gone", index=0, failure=Failure("died", "killed"))
    assert told(gone, [late]) == Blame(1, "it ran longer than timeout=1 s")
    assert told(gone, [died, late]) == gone
    assert told(Blame(0, "ValueError"), [late]) == Blame(0, "ValueError")


def test_all_or_none() -> None:
    with pytest.raises(BadCall, match="workers=3: only 1 can work at once here"):
        launch(launches.nothing, workers=3, memory=int(machine.look().memory * 0.6))
    with pytest.raises(BadCall, match="engine='serial': the workers of a launch are processes"):
        launch(launches.nothing, engine="serial")


def test_what_cannot_work_is_refused_with_all_that_is_wrong() -> None:
    with pytest.raises(BadCall) as caught:
        launch(launches.in_torch, {"rate": 1}, workers=0, groups=["mpi"], seed=-1, engine="none")
    for words in ("in_torch(rate=...)", "workers=0", "groups=['mpi']", "seed=-1", "engine='none'"):
        assert words in str(caught.value)
    with pytest.raises(BadCall, match="params=3: expected a dict"):
        launch(launches.in_torch, 3)
    with pytest.raises(BadCall, match="function=later: it is async, so"):
        launch(launches.later)


def test_nobody_else_is_let_in() -> None:
    rendezvous = Rendezvous(1, everywhere=False)
    try:
        port = rendezvous.ticket.port
        with pytest.raises((AuthenticationError, EOFError, OSError)):
            Client(("127.0.0.1", port), authkey=b"guessed").recv()
    finally:
        rendezvous.close()
