"""What a caller says about machines that are not here: checked, and put in place of what was measured."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy

from tenfold.errors import BadCall
from tenfold.scaling import units
from tenfold.scaling.conditions import Conditions, Scaling
from tenfold.scaling.simulate import STRATEGIES, How
from tenfold.scaling.steps import Reduce, Step

MOST = 100_000
"""Workers: more than anybody has, and the slowest simulation still ends in a minute."""

LATENCY = "10us"
"""Of a message between machines, as it usually is in one hall."""
_CHECKS: tuple[tuple[str, str, Callable[[float], bool]], ...] = (
    ("batch", "a number of samples above 0", lambda value: 0 < value < math.inf),
    ("device_speed", "a factor above 0, such as 2.0", lambda value: 0 < value < math.inf),
    ("parameters", "a number, 0 or above", lambda value: 0 <= value < math.inf),
    ("bytes_per_parameter", "a number above 0, such as 4 or 2", lambda value: 0 < value < math.inf),
    ("overlap", "a share from 0 to 1", lambda value: 0 <= value <= 1),
    ("input_rate", "samples a second, above 0", lambda value: value > 0),
    ("spread", "a share such as 0.1, 0 or above and below 3", lambda value: 0 <= value < 3),
    ("failures", "failures of a worker in an hour, 0 or above", lambda value: 0 <= value < math.inf),
    ("activations", "bytes for a sample, 0 or above", lambda value: 0 <= value < math.inf),
    ("uncertainty", "a share such as 0.1, 0 or above and below 1", lambda value: 0 <= value < 1),
)
_WHOLE = ("workers_per_machine", "checkpoint_every", "servers", "microbatches", "steps")


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """As it was given; None where nothing was said, and what was measured or is usual holds."""

    batch: float
    """Samples of a worker in a step ("weak"), or of all of them together ("strong")."""
    how: How = "synchronous"
    """How workers train together."""
    scaling: Scaling | None = None
    """Whether a step has more samples with more workers; "weak" where nothing is said."""
    network: float | str | None = None
    """The link between machines."""
    latency: float | str | None = None
    """Of a message between machines."""
    network_inside: float | str | None = None
    """Between workers of one machine."""
    latency_inside: float | str | None = None
    """Of a message between workers of one machine."""
    workers_per_machine: int | None = None
    """How many share a machine."""
    device_speed: float = 1.0
    """How many times as fast as the device that was measured."""
    parameters: float | None = None
    """Of the model."""
    bytes_per_parameter: float = 4
    """As they are sent."""
    overlap: float | None = None
    """Of compute and communication."""
    reduce: Reduce | None = None
    """How gradients are added up."""
    input_rate: float | None = None
    """Samples a second for all workers together."""
    spread: float = 0.0
    """Of compute from step to step."""
    failures: float = 0.0
    """Of a worker in an hour."""
    restart: float | str = 60.0
    """From a failure until steps go on."""
    checkpoint: float | str = 0.0
    """What writing one takes."""
    checkpoint_every: int | None = None
    """Steps."""
    servers: int = 1
    """Parameter servers."""
    microbatches: int = 1
    """Of a pipeline."""
    activations: float = 0.0
    """Bytes between stages of a pipeline, for a sample."""
    uncertainty: float = 0.1
    """By how much the numbers that were given may be off: a standard deviation, as a share."""
    steps: int = 200
    """That are simulated."""
    seed: int = 0
    """Of the simulation and the intervals."""

    def faults(self) -> list[str]:
        """What is wrong with them, in words."""
        found = [
            f"{name}={value!r}: expected {accepted}"
            for name, accepted, allows in _CHECKS
            if (value := getattr(self, name)) is not None and not (is_number(value) and allows(value))
        ]
        for name in _WHOLE:
            value = getattr(self, name)
            if value is not None and not (_is_whole(value) and value >= 1):
                found.append(f"{name}={value!r}: expected a whole number, 1 or above")
        if not (_is_whole(self.seed) and self.seed >= 0):
            found.append(f"seed={self.seed!r}: expected a whole number, 0 or above")
        for name, accepted in (
            ("how", tuple(STRATEGIES)),
            ("scaling", get_args(Scaling)),
            ("reduce", get_args(Reduce)),
        ):
            value = getattr(self, name)
            if value not in accepted and not (value is None and name != "how"):
                found.append(f"{name}={value!r}: expected {' or '.join(map(repr, accepted))}")
        if self.how == "pipeline" and self.scaling is not None:
            found.append(f"scaling={self.scaling!r}: a pipeline divides the layers, not the batch; leave it out")
        return found + self._unreadable()

    def divided(self, workers: list[int]) -> list[str]:
        """What is wrong with dividing the batch; the batch and the workers are right by themselves."""
        if self.scaling == "strong" and workers[-1] > self.batch:
            return [
                f"workers={workers[-1]}: more than the {self.batch:g} samples that scaling='strong' divides among them"
            ]
        if self.how == "pipeline" and self.microbatches > self.batch:
            return [f"microbatches={self.microbatches}: expected at most one for each of the {self.batch:g} samples"]
        return []

    def _unreadable(self) -> list[str]:
        found = []
        for name, read in (*((n, units.rate) for n in _RATES), *((n, units.seconds) for n in _TIMES)):
            value = getattr(self, name)
            try:
                if value is not None:
                    read(value, name)
            except BadCall as error:
                found.append(str(error))
        return found

    @property
    def conditions(self) -> Conditions:
        """Of the run."""
        return Conditions(
            batch=float(self.batch),
            scaling=self.scaling or "weak",
            spread=float(self.spread),
            failures=float(self.failures),
            restart=units.seconds(self.restart, "restart"),
            checkpoint=units.seconds(self.checkpoint, "checkpoint"),
            checkpoint_every=self.checkpoint_every,
            servers=self.servers,
            microbatches=self.microbatches,
            activations=float(self.activations),
        )

    def over(self, step: Step) -> Step:
        """The step with everything that was said in place of what was known."""
        links: dict[str, Any] = {
            "bandwidth": None if self.network_inside is None else units.rate(self.network_inside, "network_inside"),
            "latency": None if self.latency_inside is None else units.seconds(self.latency_inside, "latency_inside"),
            "bandwidth_between": None if self.network is None else units.rate(self.network, "network"),
            "latency_between": self._latency(step),
            "gradient": None if self.parameters is None else float(self.parameters * self.bytes_per_parameter),
            "workers_per_machine": self._per_machine(step),
            "overlap": self.overlap,
            "input_rate": self.input_rate,
            "reduce": self.reduce,
        }
        return replace(step.faster(self.device_speed), **{k: v for k, v in links.items() if v is not None})

    def _latency(self, step: Step) -> float | None:
        """What is usual, where there is a network now and was none before."""
        measured = not numpy.all(numpy.isinf(step.bandwidth_between))
        if self.latency is None and (self.network is None or measured):
            return None
        return units.seconds(LATENCY if self.latency is None else self.latency, "latency")

    def _per_machine(self, step: Step) -> int | None:
        """A network is between machines: with one worker on each, unless something else is said or was measured."""
        if self.workers_per_machine is not None or self.network is None:
            return self.workers_per_machine
        return step.workers_per_machine or 1


_RATES = ("network", "network_inside")
_TIMES = ("latency", "latency_inside", "restart", "checkpoint")


def counts(workers: Any) -> list[int]:
    """How many workers, from one number or several."""
    several = isinstance(workers, Iterable) and not isinstance(workers, str | bytes)
    found = list(workers) if several else [workers]
    if not found or not all(_is_whole(count) and 1 <= count <= MOST for count in found):
        raise BadCall(f"workers={workers!r}: expected a whole number from 1 to {MOST:,}, or a list of them")
    return sorted({int(count) for count in found})


def is_number(value: object) -> bool:
    """One that can be reckoned with."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and not math.isnan(value)


def _is_whole(value: object) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)
