"""Advice from cells: what is fastest, what holds it back, and what would move it."""

from __future__ import annotations

from dataclasses import replace

import grids

from tenfold.report.scaling_study import ScalingStudy
from tenfold.scaling.advice import advice
from tenfold.scaling.cells import Cell, Setting, Taken
from tenfold.scaling.stepfit import fit_step
from tenfold.scaling.steps import Step

SIZES = (1_000, 100_000)


def real(workers: int, size: int) -> float:
    return 0.02 * workers + size * (1e-4 / workers + 1e-5)


def test_nothing_measured_nothing_said() -> None:
    assert advice([]) == []
    assert advice([Cell(Setting(2), (), "out of memory")]) == []


def test_the_fastest_and_what_more_workers_do() -> None:
    said = advice(grids.cells(real, (1, 2, 4, 8, 16), SIZES, engine="local", noise=0.01))
    assert said[0].startswith("Fastest: 16 workers, size 100,000, local, ")
    assert "times one worker, an efficiency of" in said[0]
    assert any("By the law that fits best" in line for line in said)
    assert any(line.startswith("Sizes at which more workers pay: 2 above") for line in said)


def test_fewer_workers_that_are_nearly_as_fast() -> None:
    said = advice(grids.cells(lambda n, size: size * (1e-6 / n + 1e-5), (1, 2, 4), (100_000,), noise=0.001))
    assert "1 worker already has 93 % of that." in said


def test_ways_and_engines_are_compared() -> None:
    ours = grids.cells(real, (1, 2), SIZES, how="fused", engine="local")
    theirs = grids.cells(lambda n, size: 3 * real(n, size), (1, 2), SIZES, how="one by one", engine="local")
    said = advice(ours + theirs)
    assert any("fused is 3 times as fast as one by one there." in line for line in said)
    alike = grids.cells(real, (1, 2), SIZES, how="other", engine="local", noise=0.03)
    assert any("within what repeats differ by" in line for line in advice(ours + alike))


def test_what_the_time_goes_to() -> None:
    taken = Taken(10.0, 1000, {"compute": 3.0, "communication": 6.0, "rest": 1.0}, 0, 2)
    (said,) = (line for line in advice([Cell(Setting(2), (taken,))]) if line.startswith("The time"))
    shares = "The time goes to communication 60 %, compute 30 %, rest 10 %. Most of it is communication: "
    assert said == f"{shares}longer tasks, or larger items, would shorten it."
    ways = {how: advice([Cell(Setting(2, how=how), (replace(taken, steps=9),))]) for how in ("synchronous", "sharded")}
    assert any("fewer exchanges (how='asynchronous', average_every=)" in line for line in ways["synchronous"])
    assert any("a model in fewer parts" in line for line in ways["sharded"])


def test_too_few_counts_are_told() -> None:
    said = advice(grids.cells(real, (1, 2), (1000,)))
    assert any("What more workers would do is not known" in line for line in said)


def test_the_batch_that_would_pay() -> None:
    true = Step(1e-3, gradient=4e7, latency=1e-3, bandwidth=1e9)
    fitted = fit_step(grids.steps(true, (1, 2, 4), (16, 64)), gradient=4e7)
    grid = grids.cells(real, (1, 2, 4), (1000,))
    assert any("from a batch of" in line and "10 % of a step" in line for line in advice(grid, step=fitted))
    fast = replace(fitted, step=replace(fitted.step, bandwidth=1e15, latency=0.0))
    assert any("whatever the batch" in line for line in advice(grid, step=fast))


def test_of_several_ways_the_batch_is_that_of_the_fastest() -> None:
    def cells(how: str, times: float) -> list[Cell]:
        return [
            Cell(Setting(n, 6400, how), (Taken(times * 100 * (0.064 / n + 0.02 * (n > 1)), 6400, {}, 0, n, None, 100),))
            for n in (1, 2, 4)
        ]

    alone = ScalingStudy(cells("synchronous", 1), batch=64).advice
    said = [line for line in alone if "communication is" in line]
    assert len(said) == 1
    assert said[0] in ScalingStudy([*cells("synchronous", 1), *cells("averaging", 2)], batch=64).advice
    slower = ScalingStudy([*cells("synchronous", 2), *cells("averaging", 1)], batch=64).advice
    assert not [line for line in slower if "communication is" in line]  # its steps are not those of the model


def test_noise_and_failures_are_told() -> None:
    wild = Cell(Setting(2, 10), tuple(Taken(seconds, 10, {}, 0, 2) for seconds in (1.0, 1.5, 2.0)))
    said = advice([wild, Cell(Setting(4, 10), (), "not enough memory")])
    assert any("Repeats differ by up to 33 %" in line for line in said)
    assert "Not measured: 4 workers, size 10: not enough memory." in said
    assert any("measured once" in line for line in advice([replace(wild, repeats=wild.repeats[:1])]))
