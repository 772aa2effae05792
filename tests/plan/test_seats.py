"""Cutting invented machines into seats: what holds for every machine and every need."""

from __future__ import annotations

import json
import math
from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tenfold.errors import DoesNotFit
from tenfold.machine import Gpu, Machine
from tenfold.plan.needs import Needs
from tenfold.plan.seats import GpuShare, Seat, cut

GB = 10**9
ROUNDING = 1e-6


def machine(cores: int = 4, gpus: int = 0, memory: int = 16 * GB, share: float = 1.0) -> Machine:
    found = tuple(Gpu(str(n), "invented", 16 * GB, share) for n in range(gpus))
    return Machine(cores=tuple(range(cores)), cpus=float(cores), memory=memory, gpus=found)


fractions = st.sampled_from([1 / 2, 1 / 3, 1 / 4, 0.1, 0.3, 0.7, 0.9, 0.05])
shares = st.sampled_from([1.0, 0.5, 1 / 3, 0.75])


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    numbers = draw(st.lists(st.integers(0, 127), min_size=1, max_size=16, unique=True))
    quota = draw(st.none() | st.floats(1.0, len(numbers)))
    found = [Gpu(str(n), "invented", 16 * GB, draw(shares)) for n in range(draw(st.integers(0, 6)))]
    return Machine(
        cores=tuple(sorted(numbers)) if quota is None else (),
        cpus=float(len(numbers)) if quota is None else quota,
        memory=draw(st.integers(1, 10**8)),
        gpus=tuple(found),
    )


some_needs = st.builds(
    Needs,
    cpus=fractions | st.integers(1, 8),
    gpus=st.just(0) | fractions | st.integers(1, 4),
    memory=st.none() | st.integers(1, 10**8),
)
some_workers = st.none() | st.integers(1, 40)
turns = st.integers(0, 200)


def attempt(found: Machine, needs: Needs, workers: int | None, turn: int = 0) -> tuple[Seat, ...]:
    try:
        return cut(found, needs, workers, turn)
    except DoesNotFit:
        assume(False)
        raise


# -- what holds always ------------------------------------------------------------------------------------------------


@given(machines(), some_needs, some_workers, turns)
def test_no_gpu_is_given_away_beyond_what_is_ours(found: Machine, needs: Needs, workers: int | None, turn: int) -> None:
    held: Counter[str] = Counter()
    for seat in attempt(found, needs, workers, turn):
        assert sum(gpu.share for gpu in seat.gpus) == pytest.approx(needs.gpus)
        assert len({gpu.address for gpu in seat.gpus}) == len(seat.gpus)
        for gpu in seat.gpus:
            held[gpu.address] += gpu.share  # type: ignore[assignment]
    for gpu in found.gpus:
        assert held[gpu.address] <= gpu.share + ROUNDING


@given(machines(), some_needs, some_workers)
def test_memory_is_never_promised_twice(found: Machine, needs: Needs, workers: int | None) -> None:
    seats = attempt(found, needs, workers)
    assert len(seats) * (needs.memory or 0) <= found.memory


@given(machines(), some_needs)
def test_without_a_number_of_workers_the_cores_are_enough(found: Machine, needs: Needs) -> None:
    seats = attempt(found, needs, None)
    assert len(seats) * needs.cpus <= found.cpus + ROUNDING


@given(machines(), some_needs)
def test_one_more_seat_would_not_fit(found: Machine, needs: Needs) -> None:
    """As many seats as possible: something is used up."""
    count = len(attempt(found, needs, None)) + 1
    by_cpus = count * needs.cpus > found.cpus + ROUNDING
    by_memory = needs.memory is not None and count * needs.memory > found.memory
    if needs.gpus >= 1:
        by_gpus = count * needs.gpus > sum(gpu.share >= 1 for gpu in found.gpus)
    else:
        each = sum(int(gpu.share / needs.gpus + ROUNDING) for gpu in found.gpus) if needs.gpus else math.inf
        by_gpus = count > each
    assert by_cpus or by_memory or by_gpus


@given(machines(), some_needs, st.integers(1, 40))
def test_explicit_workers_are_met_or_bounded_by_gpus_or_memory(found: Machine, needs: Needs, workers: int) -> None:
    seats = attempt(found, needs, workers)
    assert 1 <= len(seats) <= workers
    if not needs.gpus and needs.memory is None:
        assert len(seats) == workers  # more than cores: the caller wants to oversubscribe


@given(machines(), some_needs, some_workers, turns)
def test_each_seat_is_what_was_asked_for(found: Machine, needs: Needs, workers: int | None, turn: int) -> None:
    seats = attempt(found, needs, workers, turn)
    assert [seat.index for seat in seats] == list(range(len(seats)))
    for seat in seats:
        assert (seat.cpus, seat.memory) == (needs.cpus, needs.memory)
        assert set(seat.cores) <= set(found.cores)
        assert len(set(seat.cores)) == len(seat.cores)
        if found.cores:
            assert len(seat.cores) == min(max(1, int(needs.cpus)), len(found.cores))


@given(machines(), st.integers(1, 8), some_workers, turns)
def test_cores_of_seats_do_not_overlap_where_they_fit(
    found: Machine, cpus: int, workers: int | None, turn: int
) -> None:
    seats = attempt(found, Needs(cpus=cpus), workers, turn)
    used = Counter(core for seat in seats for core in seat.cores)
    if len(seats) * cpus <= len(found.cores):
        assert set(used.values()) == {1}


@given(machines(), some_needs, some_workers)
def test_a_refusal_carries_the_numbers(found: Machine, needs: Needs, workers: int | None) -> None:
    try:
        cut(found, needs, workers)
    except DoesNotFit as error:
        message = str(error)
        asked = [f"cpus={needs.cpus:g}", f"gpus={needs.gpus:g}", "memory="]
        assert any(part in message for part in asked)
        if needs.cpus > found.cpus:
            assert f"cpus={needs.cpus:g}, and {found.cpus:g} may be used here" in message
        if needs.gpus and not found.gpus:
            assert f"gpus={needs.gpus:g}, and 0 are visible here" in message


# -- particular cases -------------------------------------------------------------------------------------------------


def test_one_core_each() -> None:
    assert [seat.cores for seat in cut(machine(4), Needs())] == [(0,), (1,), (2,), (3,)]


def test_several_scripts_start_at_different_cores() -> None:
    assert [seat.cores for seat in cut(machine(4), Needs(), 2, first_core=3)] == [(3,), (0,)]


def test_tasks_are_spread_over_gpus_first() -> None:
    seats = cut(machine(8, gpus=2), Needs(gpus=0.5))
    assert [seat.gpus for seat in seats] == [
        (GpuShare("0", 0.5),),
        (GpuShare("1", 0.5),),
        (GpuShare("0", 0.5),),
        (GpuShare("1", 0.5),),
    ]


@pytest.mark.parametrize(("needed", "expected"), [(1, 5), (2, 2), (3, 1), (5, 1), (0.4, 10), (1 / 3, 15)])
def test_the_number_of_seats_with_five_gpus(needed: float, expected: int) -> None:
    assert len(cut(machine(64, gpus=5), Needs(gpus=needed))) == expected


def test_a_share_of_a_gpu_is_divided_further() -> None:
    """A task that holds half a GPU maps in its turn."""
    assert len(cut(machine(8, gpus=1, share=0.5), Needs(gpus=0.25))) == 2
    with pytest.raises(DoesNotFit, match=r"gpus=1, and 0\.5 are visible here"):
        cut(machine(8, gpus=1, share=0.5), Needs(gpus=1))


def test_all_refusals_in_one_message() -> None:
    with pytest.raises(DoesNotFit) as caught:
        cut(machine(2, memory=GB), Needs(8, 1, 4 * GB))
    message = str(caught.value)
    assert "cpus=8, and 2 may be used here" in message
    assert "memory=4.0 GB, and there are 1.0 GB" in message
    assert "gpus=1, and 0 are visible here" in message


@pytest.mark.parametrize("short", [1, 5])
def test_memory_that_is_short_by_a_few_bytes_does_not_fit(short: int) -> None:
    """Bytes are whole: no rounding here, also not at ten gigabytes."""
    with pytest.raises(DoesNotFit):
        cut(machine(4, memory=10 * GB - short), Needs(memory=10 * GB))


@pytest.mark.parametrize(("cpus", "cores", "workers"), [(0.5, 2, 2), (0.25, 4, 3), (0.1, 8, None), (0.3, 2, None)])
def test_tasks_that_share_cores_are_spread_over_them(cpus: float, cores: int, workers: int | None) -> None:
    """Two tasks on core 0 while core 1 has none take twice as long."""
    seats = cut(machine(cores), Needs(cpus=cpus), workers)
    load = Counter(dict.fromkeys(range(cores), 0))
    load.update(core for seat in seats for core in seat.cores)
    assert max(load.values()) - min(load.values()) <= 1


# -- a seat ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cpus", "threads"), [(0.1, 1), (1, 1), (1.0, 1), (3, 3)])
def test_threads_of_a_seat(cpus: float, threads: int) -> None:
    assert Seat(0, cpus, ()).threads == threads


def test_device_of_a_seat() -> None:
    assert Seat(0, 1, ()).device == "cpu"
    assert Seat(0, 1, (), (GpuShare("3", 0.5),)).device == "cuda:0"


def test_a_seat_describes_itself_for_machines() -> None:
    text = Seat(2, 0.5, (1,), (GpuShare("3", 0.5), GpuShare("GPU-a", 1.0)), 1000).describe()
    assert json.loads(text) == {"cpus": 0.5, "memory": 1000, "gpus": {"3": 0.5, "GPU-a": 1.0}}


def test_a_seat_describes_itself_for_people() -> None:
    assert str(Seat(2, 2, (4, 5), (GpuShare("3", 0.5), GpuShare("1", 1.0)), 2 * GB)) == (
        "seat 2 (core 4,5, 0.5 of GPU 3, GPU 1, 2.0 GB)"
    )
    assert str(Seat(0, 1.5, ())) == "seat 0 (1.5 cpus)"
