"""The simulation of a run: without chance it is the closed form, and with it what theory says."""

from __future__ import annotations

import math
from typing import Any, get_args

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenfold.scaling.conditions import Conditions, slowest
from tenfold.scaling.simulate import STRATEGIES, How, simulate
from tenfold.scaling.steps import Step

STEP = Step(1e-3, fixed=5e-3, gradient=1e8, latency_between=1e-5, bandwidth_between=3e9, workers_per_machine=1)
HOWS: tuple[How, ...] = get_args(How)


def closed(step: Step, conditions: Conditions, workers: int, how: How) -> float:
    return float(
        numpy.asarray(STRATEGIES[how].expected(step, conditions, numpy.array([workers])).seconds).reshape(-1)[0]
    )


def agrees(step: Step, conditions: Conditions, workers: int, how: How, *, within: float = 1e-6, **options: Any) -> bool:
    expected = closed(step, conditions, workers, how)
    return simulate(step, conditions, workers, how=how, **options) == pytest.approx(expected, rel=within)


@settings(max_examples=60, deadline=None)
@given(
    how=st.sampled_from(HOWS),
    workers=st.integers(1, 300),
    batch=st.integers(1, 512),
    overlap=st.floats(0, 1),
    input_rate=st.sampled_from([math.inf, 500.0, 20_000.0]),
    per_machine=st.sampled_from([None, 1, 8]),
    microbatches=st.integers(1, 32),
    servers=st.integers(1, 64),
    strong=st.booleans(),
)
def test_without_chance_it_is_the_closed_form(
    how: How,
    workers: int,
    batch: int,
    overlap: float,
    input_rate: float,
    per_machine: int | None,
    microbatches: int,
    servers: int,
    strong: bool,
) -> None:
    links = {"latency": 1e-5, "bandwidth": 2e10, "latency_between": 3e-5, "bandwidth_between": 1e9}
    step = Step(1e-3, 5e-3, 1e7, **links, workers_per_machine=per_machine, overlap=overlap, input_rate=input_rate)
    conditions = Conditions(
        batch,
        scaling="strong" if strong else "weak",
        microbatches=microbatches,
        servers=servers,
        activations=1e5,
    )
    assert agrees(step, conditions, workers, how, steps=24)


@pytest.mark.parametrize("how", HOWS)
def test_ten_thousand_workers(how: How) -> None:
    conditions = Conditions(64, spread=0.1, failures=1e-4, restart=60, checkpoint=5, microbatches=16, servers=2000)
    assert 0 < simulate(STEP, conditions, 10_000, how=how) < math.inf
    assert simulate(STEP, conditions, 20, how=how, seed=3) == simulate(STEP, conditions, 20, how=how, seed=3)


@pytest.mark.parametrize(("workers", "spread"), [(2, 0.1), (64, 0.2), (1000, 0.1), (1000, 0.5)])
def test_the_slowest_decides(workers: int, spread: float) -> None:
    assert agrees(STEP, Conditions(64, spread=spread), workers, "synchronous", within=0.03, steps=400)
    assert float(slowest(numpy.array([float(workers)]), spread)[0]) > 1


def test_the_slowest_of_two_is_known() -> None:
    # The mean of the larger of two log-normal factors with mean 1 is 2 Phi(s / sqrt 2).
    spread = 0.3
    exact = 1 + math.erf(spread / 2)
    assert float(slowest(numpy.array([2.0]), spread)[0]) == pytest.approx(exact, rel=2e-3)


@pytest.mark.parametrize("how", ["synchronous", "pipeline"])
@pytest.mark.parametrize("every", [None, 50])
def test_failures_cost_what_theory_says(how: How, every: int | None) -> None:
    conditions = Conditions(64, failures=0.01, restart=120, checkpoint=5, checkpoint_every=every, microbatches=4)
    assert closed(STEP, conditions, 256, how) > 1.1 * closed(STEP, Conditions(64, microbatches=4), 256, how)
    assert agrees(STEP, conditions, 256, how, within=0.1)


def test_a_worker_that_fails_beside_servers_costs_only_itself() -> None:
    conditions = Conditions(64, failures=1.0, restart=400, servers=64)
    assert closed(STEP, conditions, 16, "parameter servers") == pytest.approx(
        closed(STEP, Conditions(64, servers=64), 16, "parameter servers") * (1 + 400 / 3600)
    )
    assert agrees(STEP, conditions, 16, "parameter servers", within=0.03)


def test_checkpoints_cost_without_failures() -> None:
    conditions = Conditions(64, checkpoint=2.0, checkpoint_every=10)
    plain = float(STEP.seconds(8, 64))
    assert simulate(STEP, conditions, 8) == pytest.approx(plain + 0.2)
    assert agrees(STEP, conditions, 8, "synchronous")


@pytest.mark.parametrize("every", [None, 100_000])
def test_a_run_that_always_fails_never_ends(every: int | None) -> None:
    conditions = Conditions(64, failures=3600.0, restart=600, checkpoint=60, checkpoint_every=every)
    assert simulate(STEP, conditions, 1000) == math.inf
    assert closed(STEP, conditions, 1000, "synchronous") == math.inf


def test_the_best_checkpoints_are_better_than_others() -> None:
    def of(every: int | None) -> float:
        return closed(
            STEP, Conditions(64, failures=0.01, restart=60, checkpoint=5, checkpoint_every=every), 256, "synchronous"
        )

    assert all(of(None) < of(every) for every in (10, 100_000))


def test_samples_that_wait_ready_bridge_slow_ones() -> None:
    step = Step(1e-3, input_rate=1100.0)
    found = simulate(step, Conditions(100, spread=0.3), 1, steps=2000)
    assert 0.1 < found < 0.12  # between the mean of compute and what it would be if samples came only when asked for
