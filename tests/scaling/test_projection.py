"""Projections: from numbers alone, from measured steps, from laws; and calls that cannot work."""

from __future__ import annotations

import json
import math
import re
import sys
from dataclasses import replace
from typing import Any

import grids
import numpy
import pytest

import tenfold
from tenfold.errors import BadCall, MissingPackage
from tenfold.scaling.fitting import best, fit_all
from tenfold.scaling.laws import Amdahl
from tenfold.scaling.project import from_fit, from_law
from tenfold.scaling.stepfit import fit_step
from tenfold.scaling.steps import Step

NUMBERS: dict[str, Any] = {"seconds_per_step": 0.2, "batch": 64, "parameters": 25e6, "network": "25Gbit"}


def test_numbers_by_hand() -> None:
    found = tenfold.project([1, 8], **NUMBERS, latency=0)
    sent = 2 * 7 / 8 * 1e8 / (25e9 / 8)
    assert found[1].seconds == pytest.approx(0.2)
    assert found[8].seconds == pytest.approx(0.2 + sent)
    assert found[8].throughput == pytest.approx(8 * 64 / (0.2 + sent))
    assert found.efficiency == pytest.approx({1: 1.0, 8: 0.2 / (0.2 + sent)})
    for row in found:
        assert row.low < row.throughput < row.high
        assert sum(row.parts.values()) == pytest.approx(row.seconds)
        assert row.simulated == pytest.approx(row.throughput)


def test_strong_scaling_divides_the_batch() -> None:
    found = tenfold.project(4, **NUMBERS, scaling="strong", latency=0, fixed=0.04)
    assert found[4].parts["compute"] == pytest.approx(0.04 + 0.16 / 4)
    assert found[4].throughput == pytest.approx(64 / found[4].seconds)


def test_a_faster_device_is_held_back_more() -> None:
    plain, fast = (tenfold.project(64, **NUMBERS, device_speed=speed)[64] for speed in (1.0, 4.0))
    assert fast.throughput > plain.throughput
    assert fast.efficiency < plain.efficiency


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "communication takes"),
        ({"network": "1000GB/s"}, "compute decides"),
        ({"network": "1000GB/s", "spread": 0.5}, "waiting takes .* spread"),
        ({"input_rate": 1000}, "waiting for input takes"),
        ({"network": "1000GB/s", "failures": 0.1, "checkpoint": "1min"}, "failures and checkpoints take"),
        ({"how": "parameter servers"}, "waiting takes .* more servers"),
        ({"how": "pipeline", "microbatches": 8}, "waiting takes .* more microbatches"),
        ({"failures": 1e6, "restart": "1h"}, "nothing is ever finished"),
    ],
)
def test_what_holds_it_back(changes: dict[str, Any], words: str) -> None:
    found = tenfold.project([1, 512], **{**NUMBERS, "reduce": "tree", **changes})
    assert found.bottleneck.startswith("At 512 workers")
    assert re.search(words, found.bottleneck), found.bottleneck
    assert found.bottleneck in str(found)


def test_the_simulation_is_heard_where_it_differs() -> None:
    assert "agrees" in tenfold.project(8, **NUMBERS).check
    slow = tenfold.project(16, how="pipeline", seconds_per_step=1, batch=64, microbatches=8, spread=0.5)
    assert "less throughput at 16 workers" in slow.check


def test_a_table_for_people_and_for_machines() -> None:
    found = tenfold.project(range(1, 4), **NUMBERS)
    lines = str(found).splitlines()
    assert lines[0] == "Projection, synchronous"
    assert len(lines) == 1 + 1 + 3 + 2
    assert len({len(line) for line in lines[1:5]}) == 1
    assert len(found) == 3
    assert json.loads(json.dumps(found.as_dict()))["rows"][0]["workers"] == 1
    assert list(found.frame().index) == [1, 2, 3]
    assert "3 workers" in repr(found)
    with pytest.raises(KeyError, match="7 workers were not asked for; there are 1, 2, 3"):
        found[7]


def test_numbers_that_are_not_finite_become_none() -> None:
    never = tenfold.project(1000, **NUMBERS, failures=1e6, restart="1h")
    assert never[1000].throughput == 0
    assert never.as_dict()["rows"][0]["seconds"] is None
    json.dumps(never.as_dict(), allow_nan=False)


def test_ten_thousand_workers_with_everything() -> None:
    found = tenfold.project(
        [1, 100, 10_000], **NUMBERS, workers_per_machine=8, network_inside="300GB/s", reduce="tree", overlap=0.5,
        spread=0.05, failures=1e-4, checkpoint="10s", input_rate=5e6, device_speed=2.0,
    )  # fmt: skip
    assert 0 < found.efficiency[10_000] < found.efficiency[100] <= 1
    assert found[10_000].simulated == pytest.approx(found[10_000].throughput, rel=0.05)


def test_without_uncertainty_the_interval_is_a_point() -> None:
    row = tenfold.project(8, **NUMBERS, uncertainty=0)[8]
    assert row.low == pytest.approx(row.high)


def test_all_faults_come_at_once() -> None:
    wrong: dict[str, Any] = {"workers": 0, "seconds_per_step": -1, "batch": 0, "parameters": None, "network": "fast"}
    wrong |= {"latency": "soon", "how": "magic", "scaling": "big", "reduce": "star", "overlap": 2, "device_speed": 0}
    wrong |= {"spread": True, "failures": -1, "servers": 0, "microbatches": 1.5, "uncertainty": 1, "steps": 0}
    wrong |= {"seed": -1, "input_rate": 0, "workers_per_machine": 0, "restart": -1, "checkpoint_every": 0}
    with pytest.raises(BadCall) as caught:
        tenfold.project(**wrong)
    for name, value in wrong.items():
        assert f"{name}={value!r}: expected" in str(caught.value)


@pytest.mark.parametrize("workers", [0, -1, 1.5, True, "4", [], [1, None], 10**9])
def test_workers_that_cannot_be(workers: Any) -> None:
    with pytest.raises(BadCall, match="workers="):
        tenfold.project(workers, **NUMBERS)


def test_what_a_way_needs() -> None:
    with pytest.raises(BadCall, match="network=None"):
        tenfold.project(4, seconds_per_step=1, batch=8, parameters=1)
    with pytest.raises(BadCall, match="leave it out"):
        tenfold.project(4, seconds_per_step=1, batch=8, how="pipeline", scaling="weak")
    with pytest.raises(BadCall, match="network=None"):
        tenfold.project(4, seconds_per_step=1, batch=8, how="pipeline", activations=1e6)
    with pytest.raises(BadCall, match="fixed=2"):
        tenfold.project(4, seconds_per_step=1, batch=8, parameters=1, network="1Gbit", fixed=2)
    piped = tenfold.project(4, seconds_per_step=1, batch=8, how="pipeline", microbatches=4, latency=0)
    assert piped.efficiency[4] == pytest.approx(4 / 7)


def test_a_batch_is_divided_among_those_who_are_there() -> None:
    with pytest.raises(BadCall, match="workers=128: more than the 64 samples"):
        tenfold.project([8, 128], **NUMBERS, scaling="strong")
    with pytest.raises(BadCall, match="microbatches=16: expected at most one for each of the 8 samples"):
        tenfold.project(2, seconds_per_step=1, batch=8, how="pipeline", microbatches=16)


def test_numbers_need_no_scipy_and_fits_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    assert tenfold.project(8, **NUMBERS)[8].throughput > 0
    with pytest.raises(MissingPackage, match=r"tenfold\[measure\]"):
        fit_step(grids.steps(HERE, (1, 2), (16, 64)))


# -- from measurements ------------------------------------------------------------------------------------------------

HERE = Step(1e-3, fixed=5e-3, gradient=4e7, latency=1e-4, bandwidth=5e9)


def test_measured_steps_say_what_a_cluster_does() -> None:
    fitted = fit_step(grids.steps(HERE, (1, 2, 4, 8), (16, 64, 256)), gradient=4e7)
    cluster = Step(
        5e-4, fixed=2.5e-3, gradient=4e7, latency=1e-4, bandwidth=5e9, latency_between=5e-6, bandwidth_between=25e9 / 8,
        workers_per_machine=8,
    )  # fmt: skip
    options: dict[str, Any] = {"network": "25Gbit", "latency": "5us", "device_speed": 2.0, "workers_per_machine": 8}
    found = from_fit(fitted, [8, 64, 4096], batch=64, **options)
    for row in found:
        true = row.workers * 64 / float(cluster.seconds(row.workers, 64))
        assert row.low <= true <= row.high
        assert row.throughput == pytest.approx(true, rel=0.1)
        assert row.simulated == pytest.approx(row.throughput, rel=0.01)


def test_what_is_not_said_stays_as_it_was_measured() -> None:
    fitted = fit_step(grids.steps(HERE, (1, 2, 4, 8), (16, 64, 256)), gradient=4e7)
    found = from_fit(fitted, 8, batch=64)[8]
    assert found.seconds == pytest.approx(fitted.seconds(8, 64).value)
    other = from_fit(fitted, 8, batch=64, parameters=20e6, bytes_per_parameter=2)[8]
    assert other.seconds == pytest.approx(found.seconds)  # 40 MB as before


def test_a_gradient_of_unknown_size() -> None:
    fitted = fit_step(grids.steps(HERE, (1, 2, 4, 8), (16, 64, 256)))
    with pytest.raises(BadCall, match=r"network='1Gbit': how many bytes .* give parameters="):
        from_fit(fitted, 8, batch=64, network="1Gbit")
    here = from_fit(fitted, 8, batch=64)[8].seconds
    assert from_fit(fitted, 8, batch=64, parameters=1e7)[8].seconds == pytest.approx(here)
    assert from_fit(fitted, 8, batch=64, parameters=1e7, network="1Gbit")[8].seconds > here


def test_what_a_fit_does_not_know_must_be_said() -> None:
    fitted = fit_step(grids.steps(HERE, (1, 2, 4, 8), (16, 64, 256)), gradient=4e7)
    with pytest.raises(BadCall, match="latency and workers_per_machine without network"):
        from_fit(fitted, 64, batch=64, latency="5us", workers_per_machine=8)
    usual, said = (from_fit(fitted, 64, batch=64, network="25Gbit", **more)[64] for more in ({}, {"latency": "10us"}))
    assert usual.seconds == pytest.approx(said.seconds)
    nothing = replace(fitted, step=replace(fitted.step, per_sample=0.0, fixed=0.0))
    with pytest.raises(BadCall, match="measure workers=1"):
        from_fit(nothing, 64, batch=64)


def test_a_poor_fit_is_told_with_the_projection() -> None:
    fitted = fit_step(grids.steps(HERE, (1, 2), (64,)), gradient=4e7)
    found = from_fit(fitted, 64, batch=64)
    assert found.poor == fitted.poor
    assert "The fit behind it" in str(found)
    assert found[64].high / found[64].low > 1.3  # nothing was left to check it by
    with pytest.raises(BadCall, match=r"workers=0.*batch=-1"):
        from_fit(fitted, 0, batch=-1)


def test_laws_say_what_more_workers_do() -> None:
    workers = (1, 2, 4, 8, 16)
    true = Amdahl().throughput(numpy.array(workers, dtype=float), {"rate": 100.0, "serial": 0.05})
    random = numpy.random.default_rng(0)
    law = best(workers, [grids.noisy(value, random) for value in true])
    assert law is not None
    found = from_law(law, [16, 64], device_speed=2.0)
    assert found[16].throughput == pytest.approx(2 * float(true[-1]), rel=0.1)
    assert found.efficiency[64] == pytest.approx(1 / (1 + 0.05 * 63), rel=0.2)
    assert math.isnan(found[64].simulated)
    assert "not simulated" in str(found)
    assert "waiting takes" in found.bottleneck
    assert json.loads(json.dumps(found.as_dict(), allow_nan=False))["rows"][0]["simulated"] is None


def test_a_law_that_is_not_fitted_says_nothing() -> None:
    (law, *_) = fit_all([1], [[1.0]])
    with pytest.raises(BadCall, match=r"not fitted.*device_speed=0"):
        from_law(law, 8, device_speed=0)
