"""The step-time model: by hand, and its parameters found again in made-up measurements."""

from __future__ import annotations

from dataclasses import replace

import grids
import numpy
import pytest

from tenfold.errors import BadCall
from tenfold.scaling.cells import Cell, Setting, Taken
from tenfold.scaling.curves import per_machine
from tenfold.scaling.curves import steps as steps_of
from tenfold.scaling.problem import Steps
from tenfold.scaling.stepfit import fit_step
from tenfold.scaling.steps import Step

PLAIN = Step(1e-3, fixed=5e-3, gradient=4e7, latency=1e-3, bandwidth=1e9)
BATCHES = (16, 64, 256)


# -- by hand ----------------------------------------------------------------------------------------------------------


def test_one_worker_computes() -> None:
    assert PLAIN.seconds(1, 64) == pytest.approx(0.069)


def test_a_ring_sends_twice_all_but_its_share() -> None:
    assert PLAIN.communication(4) == pytest.approx(6 * 1e-3 + 2 * 3 / 4 * 4e7 / 1e9)
    assert PLAIN.seconds(4, 64) == pytest.approx(0.069 + 0.066)


def test_a_tree_has_fewer_rounds() -> None:
    tree = replace(PLAIN, reduce="tree")
    assert tree.communication(1024) == pytest.approx(20 * 1e-3 + 2 * 1023 / 1024 * 4e7 / 1e9)


def test_machines_add_up_inside_then_between() -> None:
    step = replace(PLAIN, latency_between=2e-3, bandwidth_between=1e8, workers_per_machine=4)
    inside = 6 * 1e-3 + 2 * 3 / 4 * 4e7 / 1e9
    assert step.communication(4) == pytest.approx(inside)
    assert step.communication(8) == pytest.approx(inside + 2 * 2e-3 + 2 * 1 / 2 * 4e7 / 1e8)


def test_overlap_hides_the_shorter_one() -> None:
    assert replace(PLAIN, overlap=1.0).seconds(4, 64) == pytest.approx(max(0.069, 0.066))
    assert replace(PLAIN, overlap=0.5).seconds(4, 64) == pytest.approx(0.069 + 0.066 / 2)


def test_input_is_a_ceiling() -> None:
    step = replace(PLAIN, input_rate=1000.0)
    assert step.seconds(1, 64) == pytest.approx(0.069)
    assert step.seconds(8, 64) == pytest.approx(0.512)


def test_arrays_are_one_call() -> None:
    many = PLAIN.seconds(numpy.array([1, 4]), numpy.array([64, 64]))
    assert many.tolist() == pytest.approx([0.069, 0.135])


# -- found again ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "workers", "more"),
    [
        ({}, (1, 2, 4, 8), ()),
        ({"bandwidth": 5e8, "overlap": 0.7}, (1, 2, 4, 8), ("overlap",)),
        ({"input_rate": 3000.0}, (1, 2, 4, 8), ("input_rate",)),
        (
            {"latency_between": 5e-3, "bandwidth_between": 2e8, "workers_per_machine": 4},
            (1, 2, 4, 8, 16),
            ("latency_between", "bandwidth_between"),
        ),
    ],
    ids=["plain", "overlap", "input", "machines"],
)
def test_known_parameters_are_within_their_intervals(
    changes: dict[str, float], workers: tuple[int, ...], more: tuple[str, ...]
) -> None:
    true = replace(PLAIN, **changes)  # type: ignore[arg-type]
    names = ("per_sample", "fixed", "latency", "bandwidth", *more)
    inside = 0
    for seed in range(3):
        measured = grids.steps(true, workers, BATCHES, seed=seed)
        found = fit_step(measured, gradient=4e7, workers_per_machine=true.workers_per_machine)
        assert found.poor is None
        inside += sum(found.intervals[name][0] <= getattr(true, name) <= found.intervals[name][1] for name in names)
        assert found.step.per_sample == pytest.approx(1e-3, rel=0.1)
    assert inside >= 0.8 * 3 * len(names)


def test_the_workers_clocks_tell_more() -> None:
    plain, clocked = (
        fit_step(grids.steps(PLAIN, (1, 2, 4, 8), BATCHES, parts=parts), gradient=4e7, overlap=0)
        for parts in (False, True)
    )

    def width(found: tuple[float, float]) -> float:
        return found[1] - found[0]

    assert width(clocked.intervals["latency"]) < width(plain.intervals["latency"])
    assert clocked.step.latency == pytest.approx(1e-3, rel=0.1)


def test_overlap_that_is_known_is_kept() -> None:
    true = replace(PLAIN, bandwidth=5e8, overlap=0.7)
    found = fit_step(grids.steps(true, (1, 2, 4, 8), BATCHES, noise=0), gradient=4e7, overlap=0.7)
    assert found.step.overlap == 0.7
    assert found.step.bandwidth == pytest.approx(5e8, rel=1e-3)


def test_more_workers_than_were_measured_are_predicted() -> None:
    found = fit_step(grids.steps(PLAIN, (1, 2, 4, 8), BATCHES), gradient=4e7)
    for workers, batch in ((16, 64), (32, 256), (64, 16)):
        there = found.seconds(workers, batch)
        assert there.value == pytest.approx(float(PLAIN.seconds(workers, batch)), rel=0.15)
        assert there.low <= there.value <= there.high


@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize(
    "places", [[(1, 64)], [(2, 64)], [(1, 64), (2, 32)], [(1, 64), (2, 32), (4, 16), (8, 8)], [(1, 8), (1, 16)]]
)
def test_too_few_cells_are_told(places: list[tuple[int, int]], parts: bool) -> None:
    several = [grids.steps(PLAIN, (n,), (batch,), parts=parts) for n, batch in places]
    joined = Steps(*([row for one in several for row in getattr(one, name) or []] or None for name in Steps.__slots__))
    found = fit_step(joined, gradient=4e7)
    assert found.poor is not None or parts
    assert found.step.per_sample > 0
    assert found.seconds(1, 64).value > 0


def test_a_batch_that_is_divided_looks_like_an_all_reduce() -> None:
    several = [grids.steps(PLAIN, (n,), (64 // n,)) for n in (1, 2, 4, 8)]
    joined = Steps([1, 2, 4, 8], [64, 32, 16, 8], [one.seconds[0] for one in several])
    assert "cannot tell fixed" in str(fit_step(joined, gradient=4e7).poor)


def test_a_wrong_model_says_so() -> None:
    measured = grids.steps(PLAIN, (1, 2, 4, 8), BATCHES)
    zigzag = [[value * (3.0 if place % 2 else 0.3) for value in row] for place, row in enumerate(measured.seconds)]
    assert "poor" in str(fit_step(replace(measured, seconds=zigzag), gradient=4e7).poor)


def test_faults_come_together() -> None:
    with pytest.raises(BadCall, match=r"as many values.*1 or above.*each above 0"):
        fit_step(Steps([0, 1], [8], [[-1.0]]))
    with pytest.raises(BadCall, match=r"gradient=0.*workers_per_machine=0.*overlap=2"):
        fit_step(grids.steps(PLAIN, (1, 2), (16, 64)), gradient=0, workers_per_machine=0, overlap=2)


# -- from cells -------------------------------------------------------------------------------------------------------


def cell(workers: int, steps: int | None = 100) -> Cell:
    each = float(PLAIN.seconds(workers, 64))
    parts = {
        "startup": 0.5,
        "compute": 100 * 0.069,
        "communication": 100 * float(PLAIN.communication(workers)) - 0.01,
        "waiting": 0.01,
        "rest": 0.2,
    }
    taken = Taken(100 * each + 0.7, 6400.0 * workers, parts, 0, workers, steps=steps and steps + 1)
    return Cell(Setting(workers), (taken, taken))


def test_steps_of_cells() -> None:
    found = steps_of([cell(n) for n in (1, 2, 4, 8)], lambda setting: 64)
    assert found is not None
    assert [row[0] for row in found.seconds] == pytest.approx([float(PLAIN.seconds(n, 64)) for n in (1, 2, 4, 8)])
    fitted = fit_step(found, gradient=4e7)
    assert fitted.step.bandwidth == pytest.approx(1e9, rel=0.01)
    assert fitted.error < 0.01


def test_workers_of_a_machine_are_found_in_cells() -> None:
    def spread(workers: int, machines: int) -> Cell:
        return Cell(Setting(workers), (Taken(1.0, 1, {}, 0, 1, machines=machines),))

    assert per_machine([spread(1, 1), spread(2, 1)]) is None
    assert per_machine([spread(1, 1), spread(4, 2), spread(7, 4)]) == 2


def test_cells_without_steps_have_none() -> None:
    assert steps_of([cell(1, steps=None), Cell(Setting(2), (), "failed")], lambda setting: 64) is None
