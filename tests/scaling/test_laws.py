"""Laws of scaling: known parameters are found again, the right law is chosen, and too little data is told."""

from __future__ import annotations

import math

import grids
import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenfold.errors import BadCall
from tenfold.scaling.curves import fixed, growing
from tenfold.scaling.fitting import Fitted, best, fit_all
from tenfold.scaling.laws import Amdahl, Gustafson, Law, Usl, peak

WORKERS = (1, 2, 4, 8, 16, 32)


def measured(
    law: Law, params: dict[str, float], *, seed: int = 0, workers: tuple[int, ...] = WORKERS
) -> list[list[float]]:
    random = numpy.random.default_rng(seed)
    true = law.throughput(numpy.array(workers, dtype=float), params)
    return [grids.noisy(value, random) for value in true]


def of(found: list[Fitted], name: str) -> Fitted:
    return next(one for one in found if one.law.name == name)


@pytest.mark.parametrize(
    ("law", "params"),
    [
        (Amdahl(), {"rate": 100.0, "serial": 0.08}),
        (Gustafson(), {"rate": 40.0, "serial": 0.2}),
        (Usl(), {"rate": 250.0, "contention": 0.05, "coherency": 0.002}),
    ],
)
def test_known_parameters_are_within_their_intervals(law: Law, params: dict[str, float]) -> None:
    inside = 0
    for seed in range(10):
        found = of(fit_all(WORKERS, measured(law, params, seed=seed), scaled=law.name == "Gustafson"), law.name)
        assert found.poor is None
        assert found.error < 0.05
        inside += sum(found.intervals[name][0] <= value <= found.intervals[name][1] for name, value in params.items())
        assert found.params["rate"] == pytest.approx(params["rate"], rel=0.05)
    assert inside >= 0.8 * 10 * len(params)  # of 95 % intervals, in so few tries


@settings(max_examples=30, deadline=None)
@given(
    st.floats(0.1, 1e6),
    st.floats(0, 0.9),
    st.sampled_from([0.0, 1e-4, 1e-2]),
    st.lists(st.integers(1, 500), min_size=3, max_size=8, unique=True),
)
def test_without_noise_the_law_is_exact(rate: float, contention: float, coherency: float, workers: list[int]) -> None:
    params = {"rate": rate, "contention": contention, "coherency": coherency}
    true = Usl().throughput(numpy.array(workers, dtype=float), params)
    found = of(fit_all(workers, [[float(value)] for value in true]), "USL")
    for count, value in zip(workers, true, strict=True):
        assert found.throughput(count).value == pytest.approx(value, rel=1e-4)


def test_the_law_that_predicts_best_is_chosen() -> None:
    retrograde = {"rate": 100.0, "contention": 0.03, "coherency": 0.003}
    assert best(WORKERS, measured(Usl(), retrograde)).law.name == "USL"  # type: ignore[union-attr]
    assert best(WORKERS, measured(Amdahl(), {"rate": 100.0, "serial": 0.1})).law.name == "Amdahl"  # type: ignore[union-attr]
    scaled = measured(Gustafson(), {"rate": 100.0, "serial": 0.3})
    assert best(WORKERS, scaled, scaled=True).law.name == "Gustafson"  # type: ignore[union-attr]


def test_far_away_the_interval_holds_what_rivals_say() -> None:
    params = {"rate": 100.0, "contention": 0.03, "coherency": 0.0005}
    law = best(WORKERS[:5], measured(Usl(), params, workers=WORKERS[:5]))
    assert law is not None
    there = law.throughput(64)
    true = float(Usl().throughput(numpy.array([64.0]), params)[0])
    assert there.low <= true <= there.high


def test_a_law_that_is_plain_to_see_predicts_well() -> None:
    params = {"rate": 100.0, "contention": 0.03, "coherency": 0.003}
    law = best(WORKERS[:5], measured(Usl(), params, workers=WORKERS[:5]))
    assert law is not None
    true = float(Usl().throughput(numpy.array([64.0]), params)[0])
    assert law.throughput(64).value == pytest.approx(true, rel=0.15)


def test_where_more_workers_are_slower() -> None:
    params = {"rate": 1.0, "contention": 0.1, "coherency": 0.01}
    assert peak(params) == pytest.approx(math.sqrt(0.9 / 0.01))
    assert peak(params | {"coherency": 0.0}) == math.inf
    found = of(fit_all(WORKERS, measured(Usl(), params)), "USL").peak
    assert found.low <= peak(params) <= found.high
    assert of(fit_all(WORKERS, measured(Amdahl(), {"rate": 1.0, "serial": 0.1})), "Amdahl").peak.value == math.inf


@pytest.mark.parametrize(("count", "fitted"), [(1, set()), (2, {"Amdahl"}), (3, {"Amdahl", "USL"})])
def test_too_few_worker_counts_are_told(count: int, fitted: set[str]) -> None:
    workers = WORKERS[:count]
    found = fit_all(workers, measured(Amdahl(), {"rate": 9.0, "serial": 0.1}, workers=workers))
    assert {one.law.name for one in found if one.is_fitted} == fitted
    assert len(found) == 3
    for one in found:
        if not one.is_fitted:
            assert "not fitted" in str(one.poor)
            with pytest.raises(BadCall, match="not fitted"):
                one.throughput(8)
    unchecked = [one for one in found if one.is_fitted and len(one.law.parameters) == count]
    assert all("no count is left to check it by" in str(one.poor) for one in unchecked)
    assert (best(workers, [[1.0]] * count) is None) == (count == 1)


def test_a_poor_fit_says_so() -> None:
    zigzag = [[10.0], [40.0], [12.0], [90.0], [30.0], [200.0]]
    assert all("poor" in str(one.poor) for one in fit_all(WORKERS, zigzag) if one.is_fitted)


def test_fits_are_repeatable() -> None:
    data = measured(Usl(), {"rate": 100.0, "contention": 0.03, "coherency": 0.003})
    assert [one.intervals for one in fit_all(WORKERS, data)] == [one.intervals for one in fit_all(WORKERS, data)]


def test_faults_come_together() -> None:
    with pytest.raises(BadCall, match=r"each once.*each above 0"):
        fit_all([1, 1], [[1.0], [-1.0]])
    with pytest.raises(BadCall, match="as many"):
        fit_all([1, 2], [[1.0]])
    with pytest.raises(BadCall, match="at least one repeat"):
        fit_all([1], [[]])


def test_curves_of_a_grid() -> None:
    grid = grids.cells(lambda n, size: size / n, (1, 2, 4), (100, 200, 400), noise=0)
    curve = fixed(grid)
    assert curve.workers == (1, 2, 4)
    assert [values[0] for values in curve.throughput] == pytest.approx([1, 2, 4])
    assert fixed(grid, 100).workers == (1, 2, 4)
    scaled = growing(grid)
    assert scaled is not None
    assert scaled.scaled
    assert scaled.workers == (1, 2, 4)
    assert growing(grid[:1]) is None
    assert growing([]) is None
    assert fixed([]).workers == ()
