"""The plan of a call: refusals, isolation, and the reasons that it gives."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from tenfold.errors import BadCall, DoesNotFit
from tenfold.machine import Gpu, Machine
from tenfold.plan.choose import Abilities, choose
from tenfold.plan.needs import Needs

GB = 10**9
MACHINE = Machine(cores=(0, 1, 2, 3), cpus=4.0, memory=16 * GB, gpus=())
WITH_GPUS = replace(MACHINE, gpus=(Gpu("0", "invented", 16 * GB), Gpu("1", "invented", 16 * GB)))
EVERYTHING = Abilities(
    parallel=True,
    processes=True,
    stops="kill",
    limits_memory=True,
    isolates=True,
    leases_gpus=True,
    seconds_per_batch=0.0001,
)
NOTHING = Abilities(
    parallel=False,
    processes=False,
    stops="never",
    limits_memory=False,
    isolates=False,
    leases_gpus=False,
    seconds_per_batch=0.0,
)


def test_the_plain_case() -> None:
    plan = choose([MACHINE], Needs(), EVERYTHING)
    assert len(plan.seats) == 4
    assert not plan.isolate
    assert plan.reasons == ()
    assert str(plan).startswith("4 at a time: seat 0 (core 0); seat 1 (core 1)")


def test_an_engine_that_is_not_parallel_has_one_seat() -> None:
    assert len(choose([MACHINE], Needs(), NOTHING).seats) == 1
    assert len(choose([MACHINE], Needs(), NOTHING, workers=3).seats) == 1


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, -1, 1.5, True, "4"])
def test_bad_workers(workers: Any) -> None:
    with pytest.raises(BadCall, match="workers="):
        choose([MACHINE], Needs(), EVERYTHING, workers=workers)


@pytest.mark.parametrize("timeout", [0, -1, math.nan, "60", True])
def test_bad_timeouts(timeout: Any) -> None:
    with pytest.raises(BadCall, match="timeout="):
        choose([MACHINE], Needs(), EVERYTHING, timeout=timeout)


@pytest.mark.parametrize("isolate", ["yes", 2, 1])
def test_bad_isolation(isolate: Any) -> None:
    with pytest.raises(BadCall, match="isolate="):
        choose([MACHINE], Needs(), EVERYTHING, isolate=isolate)


@pytest.mark.parametrize(
    ("needs", "asked", "lacking", "named"),
    [
        (Needs(), {"isolate": True}, {"isolates": False}, "isolate=True"),
        (Needs(memory=2 * GB), {}, {"limits_memory": False}, "memory=2.0 GB"),
        (Needs(), {"timeout": 5.0}, {"stops": "never"}, "timeout=5.0"),
        (Needs(gpus=0.5), {}, {"leases_gpus": False}, "gpus=0.5"),
    ],
)
def test_what_an_engine_cannot_keep_is_refused(
    needs: Needs, asked: dict[str, Any], lacking: dict[str, Any], named: str
) -> None:
    with pytest.raises(BadCall) as caught:
        choose([WITH_GPUS], needs, replace(EVERYTHING, **lacking), **asked)
    assert f'{named} cannot be kept by the engine in use; engine="local" can' in str(caught.value)
    assert choose([WITH_GPUS], needs, EVERYTHING, **asked).seats


def test_all_refusals_in_one_message() -> None:
    with pytest.raises(BadCall) as caught:
        choose([MACHINE], Needs(1, 1, GB), NOTHING, workers=0, isolate=True, timeout=3)
    message = str(caught.value)
    for part in ("workers=0", "isolate=True", "memory=1.0 GB", "timeout=3", "gpus=1"):
        assert part in message


def test_an_alarm_is_enough_for_a_timeout() -> None:
    assert choose([MACHINE], Needs(), replace(EVERYTHING, stops="alarm"), timeout=5).seats


def test_what_does_not_fit_is_refused_with_numbers() -> None:
    with pytest.raises(DoesNotFit, match="cpus=5, and 4 may be used here"):
        choose([MACHINE], Needs(cpus=5), EVERYTHING)


# -- isolation --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("needs", "isolates", "isolate", "expected"),
    [
        (Needs(), True, None, False),
        (Needs(gpus=1), True, None, True),  # GPU memory is given back only at exit
        (Needs(gpus=0.5), True, None, True),
        (Needs(gpus=1), False, None, False),
        (Needs(gpus=1), True, False, False),
        (Needs(), True, True, True),
        (Needs(), False, False, False),
    ],
)
def test_who_gets_a_process_of_its_own(needs: Needs, isolates: bool, isolate: bool | None, expected: bool) -> None:
    plan = choose([WITH_GPUS], needs, replace(EVERYTHING, isolates=isolates), isolate=isolate)
    assert plan.isolate is expected
    assert any("a process of its own" in reason for reason in plan.reasons) is expected


# -- reasons ----------------------------------------------------------------------------------------------------------


def said(machine: Machine, *args: Any, **options: Any) -> str:
    return str(choose([machine], *args, **options))


def test_oversubscription_is_said() -> None:
    assert "9 workers share 4 cores, as asked" in said(MACHINE, Needs(), EVERYTHING, workers=9)


def test_fewer_tasks_than_cores_are_explained() -> None:
    assert "because GPUs or memory allow no more" in said(WITH_GPUS, Needs(gpus=1), EVERYTHING)
    assert "because GPUs or memory allow no more" in said(MACHINE, Needs(memory=8 * GB), EVERYTHING)


def test_hidden_gpus_are_said() -> None:
    assert "GPUs are hidden from the tasks" in said(WITH_GPUS, Needs(), EVERYTHING)
    assert "hidden" not in said(WITH_GPUS, Needs(gpus=1), EVERYTHING)
    assert "hidden" not in said(MACHINE, Needs(), EVERYTHING)


def test_one_at_a_time_is_not_blamed_on_memory() -> None:
    """The engine runs one at a time; neither GPUs nor memory were asked for."""
    assert "because GPUs or memory allow no more" not in said(MACHINE, Needs(), NOTHING)


def test_nobody_is_told_to_have_asked_for_what_they_did_not() -> None:
    """Seven times 0.2 is a little more than 1.4, in a computer."""
    quota = replace(MACHINE, cores=(), cpus=1.4)
    assert "as asked" not in said(quota, Needs(cpus=0.2), EVERYTHING)
