"""Projections to machines that are not here: from a fitted step, or from numbers alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy

from tenfold.errors import BadCall
from tenfold.scaling.conditions import Conditions, Split
from tenfold.scaling.estimate import REPLICATES, Array, interval
from tenfold.scaling.fitting import Fitted
from tenfold.scaling.given import Given, counts, is_number
from tenfold.scaling.projection import Projection, Row
from tenfold.scaling.simulate import STRATEGIES, simulate
from tenfold.scaling.stepfit import COUNTED, FittedStep
from tenfold.scaling.steps import Step

_UNCHECKED = 0.2
"""How far off a fit is taken to be that nothing was left to check by."""
_SAID = {
    "per_sample": "device_speed",
    "bandwidth": "network_inside",
    "bandwidth_between": "network",
    "latency": "latency_inside",
    "latency_between": "latency",
    "input_rate": "input_rate",
}
"""What may be off where it was said and not measured, and the argument that says it."""
_PARTS = ("compute", "communication", "waiting", "input", "faults")


def from_fit(fitted: FittedStep, workers: int | Sequence[int], *, batch: float, **given: Any) -> Projection:
    """What measured steps say about other machines: `study.project` ends here.

    fitted    what `stepfit.fit_step` gives
    workers   a number, or several
    batch     samples of a worker in a step; of all of them together with scaling="strong"
    given     whatever differs from what was measured, as `tenfold.project` takes it: `network`, `latency` (between
              machines; one worker on each, unless `workers_per_machine` is given), `network_inside`, `latency_inside`,
              `device_speed`, `parameters` and `bytes_per_parameter`, `overlap`, `reduce`, `input_rate`, `how`,
              `scaling`, `spread`, `failures`, `restart`, `checkpoint`, `checkpoint_every`, `servers`, `microbatches`,
              `activations`, `uncertainty`, `steps`, `seed`. What is not given stays as it was measured.

    The interval is that of the fit's bootstrap, made wider by its error for cells that it had not seen, and by how far
    what is given may be off.
    """
    unknown = sorted(set(given) - set(Given.__slots__))
    if unknown:
        raise BadCall(f"{', '.join(unknown)}: unknown to project, which takes {', '.join(Given.__slots__)}")
    asked = Given(batch=batch, **given)
    chosen = _checked(workers, asked.faults() + _not_measured(fitted.step, asked), asked)
    error = fitted.error if math.isfinite(fitted.error) else _UNCHECKED
    random = numpy.random.default_rng(asked.seed)
    off = numpy.exp(error * random.standard_normal((numpy.size(fitted.draws.per_sample), 1)))
    step, draws = (asked.over(_in_bytes(one, asked)) for one in (fitted.step, fitted.draws))
    said = [name for name, argument in _SAID.items() if getattr(asked, argument) not in (None, 1.0)]
    return _projected(step, _uncertain(draws, asked, said), asked, chosen, off=off, poor=fitted.poor)


def from_numbers(
    workers: int | Sequence[int], given: Given, *, seconds_per_step: float, fixed: float = 0.0
) -> Projection:
    """What numbers alone say: `tenfold.project` ends here. `fixed` is what a smaller batch does not shorten."""
    faults = given.faults() + _needed(given, seconds_per_step, fixed)
    chosen = _checked(workers, faults, given)
    plain = Step(per_sample=(seconds_per_step - fixed) / given.batch, fixed=fixed, workers_per_machine=1)
    step = given.over(plain)
    draws = _uncertain(step, given, list(_SAID))
    return _projected(step, draws, given, chosen, off=numpy.ones((REPLICATES, 1)), poor=None)


def from_law(law: Fitted, workers: int | Sequence[int], *, device_speed: float = 1.0, **others: Any) -> Projection:
    """What a law says about more workers, each of which works for itself: `study.project` where no model is shared.

    `law` is what `fitting.best` gives. A row's seconds are those of a worker for one item, its throughput is in items.
    `others` are refused: a law knows nothing of them.
    """
    faults = [] if law.is_fitted else [f"{law.law.name}: {law.poor}"]
    if others:
        faults.append(
            f"{', '.join(others)}: no model was trained here, so the law of the measured calls is drawn out, and it "
            "knows device_speed alone; tenfold.project(...) takes all of them"
        )
    if not is_number(device_speed) or not 0 < device_speed < math.inf:
        faults.append(f"device_speed={device_speed!r}: expected a factor above 0, such as 2.0")
    chosen = _checked(workers, faults)
    alone = law.throughput(1).value * device_speed
    rows = []
    for count in chosen:
        found = law.throughput(count)
        value, low, high = (device_speed * each for each in (found.value, found.low, found.high))
        parts = {"compute": 1 / alone, "waiting": count / value - 1 / alone}
        rows.append(Row(count, count / value, value, value / count / alone, low, high, math.nan, parts))
    return Projection(tuple(rows), "tasks", law.poor)


def _checked(workers: Any, faults: list[str], given: Given | None = None) -> list[int]:
    """All faults of one call in one message."""
    chosen: list[int] = []
    try:
        chosen = counts(workers)
    except BadCall as error:
        faults = [str(error), *faults]
    if not faults and given is not None:
        faults = given.divided(chosen)
    if faults:
        raise BadCall("; ".join(faults))
    return chosen


def _needed(given: Given, seconds_per_step: Any, fixed: Any) -> list[str]:
    found = []
    for name, value, least in (("seconds_per_step", seconds_per_step, False), ("fixed", fixed, True)):
        if not is_number(value) or not value < math.inf or value < 0 or (value == 0 and not least):
            found.append(f"{name}={value!r}: expected a number of seconds{', 0 or above' if least else ' above 0'}")
    if not found and fixed >= seconds_per_step:
        found.append(
            f"fixed={fixed!r}: expected less than seconds_per_step={seconds_per_step!r}, of which it is a part"
        )
    sends = given.how != "pipeline"
    if sends and given.parameters is None:
        found.append("parameters=None: expected how many the model has, such as 25_000_000; they are what is sent")
    if given.network is None and (sends or given.activations):
        found.append('network=None: expected the link between machines, such as "25Gbit"')
    return found


def _not_measured(step: Step, given: Given) -> list[str]:
    """What must be said, because the fit does not know it."""
    found = []
    if step.per_sample == 0 and step.fixed == 0:
        found.append(
            "the fit has found no compute in these steps: cells with one worker are missing; measure workers=1"
        )
    links = [name for name in ("latency", "workers_per_machine") if getattr(given, name) is not None]
    if links and given.network is None and step.bandwidth_between == math.inf:
        found.append(f'{" and ".join(links)} without network: all was on one machine; give a link such as "25Gbit"')
    if step.gradient == COUNTED and given.parameters is None and given.how != "pipeline":
        found += [
            f"{name}={getattr(given, name)!r}: how many bytes are sent in a step is not known; give parameters= as well"
            for name in ("network", "network_inside")
            if getattr(given, name) is not None
        ]
    return found


def _in_bytes(step: Step, given: Given) -> Step:
    """A fit that counted gradients, now that their size is said."""
    if step.gradient != COUNTED or given.parameters is None:
        return step
    size = float(given.parameters * given.bytes_per_parameter)
    return replace(step, bandwidth=step.bandwidth * size, bandwidth_between=step.bandwidth_between * size)


def _uncertain(step: Step, given: Given, said: list[str]) -> Step:
    """The same, as it might be if what was said is somewhat off."""
    random = numpy.random.default_rng([given.seed, 1])
    drawn = numpy.exp(given.uncertainty * random.standard_normal((len(_SAID), REPLICATES, 1)))
    factors = dict(zip(_SAID, drawn, strict=True))
    columns = {name: getattr(step, name) * factors[name] for name in said}
    if "per_sample" in said:
        columns["fixed"] = step.fixed * factors["per_sample"]  # the device decides both
    return replace(step, **columns)


def _projected(
    step: Step, draws: Step, given: Given, workers: list[int], *, off: Array, poor: str | None
) -> Projection:
    conditions, strategy = given.conditions, STRATEGIES[given.how]
    split = strategy.expected(step, conditions, numpy.array(workers, dtype=float))
    ends = strategy.expected(draws, conditions, numpy.array(workers, dtype=float)).throughput / off
    alone = _alone(step, conditions)
    rows = [
        _row(count, split, place, numpy.broadcast_to(ends, (len(ends), len(workers)))[:, place], alone)
        for place, count in enumerate(workers)
    ]
    simulated = [simulate(step, conditions, n, how=given.how, steps=given.steps, seed=given.seed) for n in workers]
    samples = numpy.broadcast_to(split.samples, len(workers))
    found = [replace(row, simulated=float(n) / s) for row, n, s in zip(rows, samples, simulated, strict=True)]
    return Projection(tuple(found), given.how, poor)


def _row(workers: int, split: Split, place: int, ends: Array, alone: float) -> Row:
    def at(values: Any) -> float:
        return float(numpy.atleast_1d(values)[place if numpy.size(values) > 1 else 0])

    low, high = interval(ends)
    throughput = at(split.throughput)
    parts = {name: at(getattr(split, name)) for name in _PARTS}
    efficiency = throughput / (workers * alone)
    bounds = (min(low, throughput), max(high, throughput))
    return Row(workers, at(split.seconds), throughput, efficiency, *bounds, math.nan, parts)


def _alone(step: Step, conditions: Conditions) -> float:
    """Samples a second of one worker that nothing holds back."""
    return conditions.batch / float(step.compute(conditions.batch))
