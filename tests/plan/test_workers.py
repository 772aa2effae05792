"""How many workers train a model, from invented machines and timings."""

from __future__ import annotations

import pytest

from tenfold.machine import Gpu, Machine
from tenfold.plan.needs import Needs
from tenfold.plan.workers import Candidate, Timing, candidates, decide, share

GB = 10**9
ONE, TWO, FOUR = Candidate(1, 4), Candidate(2, 2), Candidate(4, 1)


def machine(cpus: float, gpus: int = 0) -> Machine:
    return Machine(tuple(range(int(cpus))), cpus, 16 * GB, tuple(Gpu(str(n), "invented", 16 * GB) for n in range(gpus)))


@pytest.mark.parametrize(
    ("cpus", "numbers"),
    [
        (1, [1]),
        (2, [1, 2]),
        (1.5, [1]),
        (6, [1, 2, 4, 6]),
        (16, [1, 2, 4, 8, 16]),
        (64, [1, 4, 16, 64]),
        (256, [1, 4, 16, 64, 256]),
    ],
)
def test_one_comes_first_and_there_are_a_handful(cpus: float, numbers: list[int]) -> None:
    found = candidates(machine(cpus), Needs(cpus), None)
    assert [one.workers for one in found] == numbers
    assert all(one.cpus == share(cpus, one.workers) for one in found)


def test_what_was_asked_for_limits_them() -> None:
    assert [one.workers for one in candidates(machine(8), Needs(2), 2)] == [1, 2, 4]
    assert [one.workers for one in candidates(machine(8), Needs(8), None, most=3)] == [1, 2, 3]
    assert [one.workers for one in candidates(machine(8), Needs(8, memory=5 * GB), None)] == [1, 2]
    assert [one.workers for one in candidates(machine(8), Needs(8, memory=99 * GB), None)] == [1], "the plan refuses it"


def test_gpus_are_divided_where_they_are_asked_for() -> None:
    found = candidates(machine(8, gpus=4), Needs(8, gpus=1), None)
    assert [(one.workers, one.cpus, one.gpus) for one in found] == [(1, 8, 1), (2, 4, 1), (4, 2, 1)]
    assert [one.workers for one in candidates(machine(8, gpus=4), Needs(8, gpus=3), None)] == [1]
    assert str(found[0]) == "1 worker with 1 GPU"
    assert str(found[2]) == "4 workers with 1 GPU each"


@pytest.mark.parametrize(
    ("cpus", "workers", "each"), [(4, 1, 4), (4, 2, 2), (5, 2, 2), (2, 4, 0.5), (1.5, 1, 1), (1.5, 2, 0.75)]
)
def test_a_share_is_what_a_seat_can_have(cpus: float, workers: int, each: float) -> None:
    assert share(cpus, workers) == each


def test_where_there_is_nothing_to_divide_nothing_is_tried() -> None:
    verdict = decide([Candidate(1, 1)], ())
    assert verdict.settled
    assert verdict.why == "1 worker with 1 core, because there is no more to divide"


def test_one_worker_is_timed_first() -> None:
    verdict = decide([ONE, TWO, FOUR], ())
    assert (verdict.candidate, verdict.settled) == (ONE, False)


def test_a_short_training_is_not_worth_a_trial() -> None:
    verdict = decide([ONE, TWO], [Timing(pace=500, spent=0.5, left=2000)])
    assert (verdict.candidate, verdict.settled) == (ONE, True)
    assert verdict.why == (
        "1 worker with 4 cores: 500 steps/s; about 4.0 s were left, and to try 2 workers with 2 cores each "
        "could take 1.0 s"
    )


def test_a_long_one_is_where_it_could_save_five_times_what_it_costs() -> None:
    assert not decide([ONE, TWO], [Timing(500, 0.5, 5000)]).settled, "10 s left, of which 5 could be saved"
    assert decide([ONE, TWO], [Timing(500, 0.5, 4999)]).settled
    assert decide([ONE, TWO], [Timing(500, 2.0, 5000)]).settled, "programs are made for long"


def test_more_workers_that_are_slower_are_not_taken() -> None:
    verdict = decide([ONE, TWO, FOUR], [Timing(561, 0.5, 10**6), Timing(296, 0.6, 10**6)])
    assert (verdict.candidate, verdict.settled) == (ONE, True)
    assert verdict.why == "1 worker with 4 cores: 561 steps/s; 2 workers with 2 cores each: 296 steps/s"


def test_nor_those_that_are_hardly_faster() -> None:
    verdict = decide([ONE, TWO], [Timing(9.5, 0.5, 10**6), Timing(10.4, 0.6, 10**6)])
    assert (verdict.candidate, verdict.settled) == (ONE, True)
    assert verdict.why == (
        "1 worker with 4 cores: 9.5 steps/s; 2 workers with 2 cores each: 10 steps/s "
        "(more workers are taken where they are 1.1 times as fast)"
    )


def test_it_goes_on_while_more_are_faster() -> None:
    timings = [Timing(100, 0.5, 10**6), Timing(190, 0.6, 10**6)]
    tried = decide([ONE, TWO, FOUR], timings)
    assert (tried.candidate, tried.settled) == (FOUR, False)
    best = decide([ONE, TWO, FOUR], [*timings, Timing(370, 0.7, 10**6)])
    assert (best.candidate, best.settled) == (FOUR, True)
    assert best.why.startswith("4 workers with 1 core each: 370 steps/s; 1 worker with 4 cores: 100 steps/s")
    worse = decide([ONE, TWO, FOUR], [*timings, Timing(150, 0.7, 10**6)])
    assert (worse.candidate, worse.settled) == (TWO, True)
