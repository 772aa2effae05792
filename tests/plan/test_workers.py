"""How many workers train a model, from invented machines and timings."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tenfold.machine import Gpu, Machine
from tenfold.plan import workers
from tenfold.plan.needs import Needs
from tenfold.plan.workers import Candidate, Timing, Verdict, candidates, share

GB = 10**9
ONE, TWO, FOUR = Candidate(1, 4), Candidate(2, 2), Candidate(4, 1)
LEAN = Candidate(1, 1)
LONG = 10**6
"""Steps that are left."""


def decide(among: Sequence[Candidate], timings: Sequence[Timing]) -> Verdict:
    """When the first of them have been timed."""
    return workers.decide(among, dict(zip(among, timings, strict=False)))


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
    one, *found = candidates(machine(cpus), Needs(cpus), None)
    several = [candidate for candidate in found if candidate.workers > 1]
    assert [candidate.workers for candidate in (one, *several)] == numbers
    assert all(candidate.cpus == share(cpus, candidate.workers) for candidate in (one, *several))


@pytest.mark.parametrize(("cpus", "fewer"), [(1, []), (1.5, []), (2, [1]), (6, [1]), (16, [4, 1]), (64, [16, 4, 1])])
def test_then_one_with_fewer_cores(cpus: float, fewer: list[float]) -> None:
    found = candidates(machine(cpus, gpus=1), Needs(cpus), None)
    assert [one.cpus for one in found[1:] if one.parts == 1] == fewer
    assert all(one.workers == 1 for one in found[: 1 + len(fewer)])
    assert [one.workers for one in candidates(machine(cpus, gpus=1), Needs(cpus, gpus=1), None)] == [1]


def test_what_was_asked_for_limits_them() -> None:
    assert [one.workers for one in candidates(machine(8), Needs(2), 2)] == [1, 2, 4], "cores that are given are kept"
    assert [one.workers for one in candidates(machine(8), Needs(8), None, most=3)] == [1, 1, 1, 2, 3, 1]
    assert [one.workers for one in candidates(machine(8), Needs(8, memory=5 * GB), None)] == [1, 1, 1, 2, 1]
    refused = candidates(machine(8), Needs(8, memory=99 * GB), 8)
    assert [one.workers for one in refused] == [1], "the plan refuses it"


def test_gpus_are_divided_where_they_are_asked_for() -> None:
    found = candidates(machine(8, gpus=4), Needs(8, gpus=1), None)
    divided = [(one.workers, one.cpus, one.gpus) for one in found if one.devices == 1]
    assert divided == [(1, 8, 1), (2, 4, 1), (4, 2, 1)]
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


def test_fewer_cores_are_tried_before_more_workers_and_taken_where_they_are_as_fast() -> None:
    among = [ONE, LEAN, TWO, FOUR]
    tried = decide(among, [Timing(300, 0.5, LONG)])
    assert (tried.candidate, tried.settled) == (LEAN, False)
    better = decide(among, [Timing(300, 0.5, LONG), Timing(310, 0.5, LONG)])
    assert (better.candidate, better.settled) == (TWO, False), "two are still to be tried"
    timings = [Timing(300, 0.5, LONG), Timing(310, 0.5, LONG), Timing(200, 0.5, LONG)]
    best = decide(among, timings)
    assert (best.candidate, best.settled) == (LEAN, True)
    assert best.why == (
        "1 worker with 1 core: 310 steps/s; 1 worker with 4 cores: 300 steps/s; "
        "2 workers with 2 cores each: 200 steps/s"
    )


def test_those_that_are_slower_end_their_row_alone() -> None:
    sixteen, four, one = (Candidate(1, cpus) for cpus in (16, 4, 1))
    among = [sixteen, four, one, TWO, FOUR]
    assert decide(among, [Timing(300, 0.5, LONG), Timing(400, 0.5, LONG)]).candidate == one
    slower = decide(among, [Timing(300, 0.5, LONG), Timing(200, 0.5, LONG)])
    assert (slower.candidate, slower.settled) == (TWO, False)
    timings = {sixteen: Timing(300, 0.5, LONG), four: Timing(200, 0.5, LONG), TWO: Timing(400, 0.5, LONG)}
    assert workers.decide(among, timings).candidate == FOUR


def test_neither_is_tried_where_a_step_says_that_it_cannot_pay() -> None:
    short = decide([ONE, LEAN, TWO], [Timing(800, 0.5, LONG), Timing(1250, 0.5, LONG)])
    assert (short.candidate, short.settled) == (LEAN, True)
    assert short.why.endswith("; a step of 0.8 ms is too short to divide")
    assert decide([ONE, LEAN, TWO], [Timing(20, 0.5, LONG)]).candidate == TWO
    assert decide([ONE, LEAN], [Timing(20, 0.5, LONG)]).why.endswith("; a step of 50 ms is long enough for threads")
    assert decide([ONE, LEAN], [Timing(10, 0.5, LONG)]).why.endswith("; a step of 100 ms is long enough for threads")
    hasty = decide([ONE, LEAN], [Timing(500, 0.5, 5000)])
    assert hasty.settled
    assert "to try 1 worker with 1 core could take 1.0 s" in hasty.why


def test_one_worker_with_several_devices_comes_last() -> None:
    assert candidates(machine(4), Needs(4), None)[-1] == Candidate(1, 4, 0, 4)
    assert str(Candidate(1, 4, 0, 4)) == "1 worker with 4 devices"
    assert candidates(machine(64), Needs(64), None)[-1].devices == 16
    for asked in (candidates(machine(4), Needs(2), 2), candidates(machine(1), Needs(1), None)):
        assert all(one.devices == 1 for one in asked), "cores that are given are one device"
    on_gpus = candidates(machine(8, gpus=4), Needs(8, gpus=1), None)[-2:]
    assert [(one.workers, one.cpus, one.gpus, one.devices) for one in on_gpus] == [(1, 8, 2, 2), (1, 8, 4, 4)]
    assert str(on_gpus[1]) == "1 worker with 4 GPUs"
    assert all(one.devices == 1 for one in candidates(machine(8, gpus=4), Needs(8, gpus=0.5), None))


def timings(*paces: float, left: int = LONG) -> list[Timing]:
    return [Timing(pace, 0.5, left, takes_devices=True) for pace in paces]


def test_devices_are_tried_where_they_cost_next_to_nothing() -> None:
    host = Candidate(1, 4, 0, 4)
    among = [ONE, TWO, host]
    assert decide(among, timings(100, 90)).candidate == host
    assert decide(among, timings(100, 90, left=5_000)).candidate == host, "50 s left, of which 5 could be saved"
    hasty = decide(among, timings(100, 90, left=4_999))
    assert (hasty.candidate, hasty.settled) == (ONE, True)
    assert hasty.why.endswith("; about 50 s were left, and to try 1 worker with 4 devices could take 1.0 s")
    both = decide(among, timings(100, left=100))
    assert both.why.endswith("to try 2 workers with 2 cores each or 1 worker with 4 devices could take 1.0 s")
    assert decide(among, [Timing(100, 0.5, LONG), Timing(90, 0.5, LONG)]).settled, "PyTorch has one in a process"
    assert decide([ONE, host], timings(800)).why.endswith("; a step of 1.2 ms is too short to divide")


def test_devices_are_taken_where_they_are_faster() -> None:
    host = Candidate(1, 4, 0, 4)
    taken = decide([ONE, TWO, host], timings(100, 90, 120))
    assert (taken.candidate, taken.settled) == (host, True)
    assert taken.why.startswith("1 worker with 4 devices: 120 steps/s; 1 worker with 4 cores: 100 steps/s; 2 workers")
    close = decide([ONE, TWO, host], timings(100, 90, 105))
    assert (close.candidate, close.settled) == (ONE, True)
    assert close.why.endswith("(several devices are taken where they are 1.1 times as fast)")


def test_gpus_of_one_process_are_compared_with_as_many_processes() -> None:
    among = candidates(machine(8, gpus=4), Needs(8, gpus=1), None)
    one, two, _, both, all_four = among
    assert decide(among, timings(100, 190, 370)).candidate == all_four, "two are fewer than the four that were best"
    assert decide(among, timings(100, 90)).candidate == both, "two workers are slower than one"
    known = dict(zip((one, two, both), timings(100, 90, 180), strict=True))
    assert workers.decide(among, known).candidate == all_four
    ended = workers.decide(among, {**known, all_four: timings(330)[0]})
    assert (ended.candidate, ended.settled) == (all_four, True)
    assert ended.why.startswith("1 worker with 4 GPUs: 330 steps/s; 1 worker with 1 GPU: 100 steps/s; 2 workers")
