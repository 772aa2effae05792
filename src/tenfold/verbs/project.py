"""`tenfold.project`: how training would scale on machines that are not here, from numbers alone."""

from __future__ import annotations

from collections.abc import Sequence

from tenfold.scaling.conditions import Scaling
from tenfold.scaling.given import LATENCY, Given
from tenfold.scaling.project import from_numbers
from tenfold.scaling.projection import Projection
from tenfold.scaling.simulate import How
from tenfold.scaling.steps import Reduce


def project(
    workers: int | Sequence[int],
    *,
    seconds_per_step: float,
    batch: float,
    parameters: float | None = None,
    bytes_per_parameter: float = 4,
    network: float | str | None = None,
    latency: float | str = LATENCY,
    workers_per_machine: int = 1,
    network_inside: float | str = float("inf"),
    latency_inside: float | str = 0.0,
    how: How = "synchronous",
    scaling: Scaling | None = None,
    reduce: Reduce = "ring",
    overlap: float = 0.0,
    fixed: float = 0.0,
    device_speed: float = 1.0,
    input_rate: float | None = None,
    spread: float = 0.0,
    failures: float = 0.0,
    restart: float | str = "1min",
    checkpoint: float | str = 0.0,
    checkpoint_every: int | None = None,
    servers: int = 1,
    microbatches: int = 1,
    activations: float = 0.0,
    uncertainty: float = 0.1,
    steps: int = 200,
    seed: int = 0,
) -> Projection:
    """How training one model would scale to so many workers: in closed form, and checked by a simulation.

    workers               how many; a number or a list
    seconds_per_step      what one worker computes for a step of `batch` samples
    batch                 samples of each worker in a step; of all of them together with scaling="strong"
    parameters, bytes_per_parameter   of the model: what is sent in a step
    network, latency      the link of each machine, such as "25Gbit" or "3GB/s", and the time of a message: "5us"
    workers_per_machine   how many share a machine and its link
    network_inside, latency_inside    the same between the workers of a machine
    how                   "synchronous" (all-reduce), "parameter servers" (asynchronous), or "pipeline" (layers divided)
    scaling               "weak": a step has more samples with more workers; "strong": it has `batch` of them
    reduce                gradients are added up around a "ring" or in a "tree", which has fewer rounds
    overlap               share of communication that is hidden behind compute, 0 to 1
    fixed                 seconds of `seconds_per_step` that a smaller batch does not save
    device_speed          how many times as fast as the device that `seconds_per_step` is from
    input_rate            samples a second that storage gives to all workers together
    spread                of compute times from step to step: 0.1 is about 10 %
    failures, restart     failures of a worker in an hour, and the time until steps go on
    checkpoint, checkpoint_every      the time to write one, and the steps between two: those that cost least by default
    servers               parameter servers, each with a link like a machine's
    microbatches, activations         of a pipeline: parts of a batch, and bytes for a sample between two stages
    uncertainty           by how much these numbers may be off, as a share; the interval comes from it
    steps, seed           of the simulation
    """
    given = Given(
        batch=batch,
        how=how,
        scaling=scaling,
        network=network,
        latency=latency,
        network_inside=network_inside,
        latency_inside=latency_inside,
        workers_per_machine=workers_per_machine,
        device_speed=device_speed,
        parameters=parameters,
        bytes_per_parameter=bytes_per_parameter,
        overlap=overlap,
        reduce=reduce,
        input_rate=input_rate,
        spread=spread,
        failures=failures,
        restart=restart,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        servers=servers,
        microbatches=microbatches,
        activations=activations,
        uncertainty=uncertainty,
        steps=steps,
        seed=seed,
    )
    return from_numbers(workers, given, seconds_per_step=seconds_per_step, fixed=fixed)
