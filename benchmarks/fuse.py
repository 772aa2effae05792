"""How long does it take to train 128 small models, with tenfold's fused training and in the usual ways?

4 learning rates x 32 seeds, 5 epochs on the digits (1,797 rows), batches of 32: a dense model, the same with batch
norm and dropout, the convolutional model of the question "How does Keras/TensorFlow parallelization scale?", a small
GRU, and a dense model in PyTorch. Whole scripts (benchmarks/scripts/many_models.py) from a cold interpreter to its
exit: imports and compilation included, 2 workers. Peers: a plain loop of model.fit and joblib, with Keras on TensorFlow
and on JAX, and Ray tasks; for PyTorch a plain loop and joblib.

Peers of Keras take minutes each, and as long again for twice as many models. So they train 16 models and 4, and their
time for all is extended from the two (--sample 128 has them train all); tenfold trains all in any case, and so do
PyTorch's peers, in three turns: they take seconds. `--only torch` has one kind alone, without the growth curve.
"""

from __future__ import annotations

import argparse
import atexit
import functools
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import contest
import launch
import numpy
from contest import TENFOLD, Goal, Options, Report, Table, at_least, medians, publish, say, spread, take_turns

REPEATS = 1
MODELS, EPOCHS = 128, 5
SAMPLE = 16
GROWTH = (1, 8, 64, 512)
KINDS = {"dense": (30, 7), "norm": (20, 8), "conv": (8, 3), "gru": (20, 8), "torch": (6, 3)}
"""Kind -> how many times the loop's speed (on TensorFlow, or PyTorch), and the best peer's."""
TURNS = {"torch": 3}
"""Of each contestant, where it is not one: these train all models, whatever the sample."""
TOLERANCE = 0.25  # of the mean losses: random numbers differ between frameworks

launch.LIMIT = 1800.0


@dataclass(frozen=True, slots=True)
class Peer:
    """One way to train the models."""

    name: str
    """For people."""
    contestant: str
    """For the script."""
    backend: str = ""
    """Of Keras."""


LOOP = Peer("loop, TensorFlow", "loop", "tensorflow")
KERAS = (
    LOOP,
    Peer("loop, JAX", "loop", "jax"),
    Peer("joblib, TensorFlow", "joblib", "tensorflow"),
    Peer("joblib, JAX", "joblib", "jax"),
    Peer("Ray, TensorFlow", "ray", "tensorflow"),
)
TORCH = (Peer("loop", "loop"), Peer("joblib", "joblib"))
OURS = Peer(TENFOLD, "tenfold")


def main() -> None:
    sample, kinds = _own_options()
    chosen = contest.options(__doc__, repeats=REPEATS)
    models, epochs = (4, 1) if chosen.quick else (MODELS, EPOCHS)
    samples = {kind: models if chosen.quick or kind in TURNS else sample for kind in kinds}
    found = {kind: measure(kind, models, epochs, samples[kind], chosen) for kind in kinds}
    tables = [table(kind, seconds, models, samples[kind]) for kind, seconds in found.items()]
    if not chosen.quick and len(kinds) == len(KINDS):
        tables += [growth(), share()]
    goals = [goal for kind, seconds in found.items() for goal in judged(kind, seconds)]
    publish(Report(__doc__ or "", tables, goals, {"seconds": found}), chosen)


def _own_options() -> tuple[int, tuple[str, ...]]:
    """The options that only this benchmark has, taken off the command line: the sample, and which kinds."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--sample", type=int, default=SAMPLE)
    parser.add_argument("--only", choices=KINDS)
    found, sys.argv[1:] = parser.parse_known_args()
    if found.sample % 4 or not 4 < found.sample <= MODELS:
        raise SystemExit(f"--sample {found.sample}: expected a multiple of 4 from 8 to {MODELS}")
    return int(found.sample), (found.only,) if found.only else tuple(KINDS)


def measure(kind: str, models: int, epochs: int, sample: int, chosen: Options) -> dict[str, list[float]]:
    """Seconds of everybody's turns."""
    say(f"{kind}: {models} models")
    losses: list[float] = []
    with launch.environment() as cold:
        runs: dict[str, Callable[[], float]] = {TENFOLD: partial(once, kind, OURS, models, epochs, cold, losses)}
        for peer in TORCH if kind == "torch" else KERAS:
            runs[peer.name] = partial(extended, kind, peer, models, epochs, sample, cold, losses)
        return take_turns(runs, chosen.repeats if chosen.quick else max(chosen.repeats, TURNS.get(kind, 1)))


def extended(
    kind: str, peer: Peer, models: int, epochs: int, sample: int, cold: dict[str, str], losses: list[float]
) -> float:
    """What all models take, from what `sample` of them and a quarter of those take."""
    many = once(kind, peer, sample, epochs, cold, losses)
    if sample == models:
        return many
    few = once(kind, peer, sample // 4, epochs, cold, [])
    return many + (many - few) / (sample - sample // 4) * (models - sample)


def once(kind: str, peer: Peer, models: int, epochs: int, cold: dict[str, str], losses: list[float]) -> float:
    variables = cold | ({"KERAS_BACKEND": peer.backend} if peer.backend else {})
    words = launch.command("many_models", kind, peer.contestant, models, epochs, digits())
    seconds, printed = launch.run(words, variables)
    losses.append(float(printed.rpartition(" ")[2]))
    if abs(losses[-1] - losses[0]) > TOLERANCE * losses[0] and models == MODELS:
        raise launch.ScriptFailed(
            f"{kind}: {peer.name} ends with a mean loss of {losses[-1]}, the first with {losses[0]}"
        )
    say(f"{kind}, {peer.name}: {models} models in {seconds:.1f} s")
    return seconds


@functools.cache
def digits() -> str:
    """The data, in a file that goes when this benchmark ends."""
    from sklearn.datasets import load_digits

    folder = tempfile.mkdtemp(prefix="digits-")
    atexit.register(shutil.rmtree, folder)
    x, y = load_digits(return_X_y=True)
    numpy.savez(Path(folder, "digits.npz"), x=(x / 16).astype("float32"), y=y)
    return str(Path(folder, "digits.npz"))


# -- reporting --------------------------------------------------------------------------------------------------------


def table(kind: str, seconds: dict[str, list[float]], models: int, sample: int) -> Table:
    middle = medians(seconds)
    note = "" if sample == models else f"; peers extended from {sample // 4} and {sample} models"
    rows = [
        (name, f"{value:.1f}", spread(seconds[name]), f"{value / middle[TENFOLD]:.1f}")
        for name, value in middle.items()
    ]
    return Table(f"{kind}: {models} models{note}", ("contestant", "median s", "turns", "s / tenfold's s"), rows)


def judged(kind: str, seconds: dict[str, list[float]]) -> list[Goal]:
    middle = medians(seconds)
    loop, best = KINDS[kind]
    ours = middle.pop(TENFOLD)
    first = "loop" if kind == "torch" else LOOP.name
    return [
        at_least(f"{kind}: faster than the {first}", middle[first] / ours, loop),
        at_least(f"{kind}: faster than the best of all peers", min(middle.values()) / ours, best),
    ]


def growth() -> Table:
    rows = []
    with launch.environment() as cold:
        for models in GROWTH:
            seconds = once("dense", OURS, models, EPOCHS, cold, [])
            rows.append((str(models), f"{seconds:.2f}", f"{1e3 * seconds / models:.0f}"))
    return Table(
        "dense, with tenfold: time grows slower than the number of models", ("models", "s", "ms a model"), rows
    )


def share() -> Table:
    with launch.environment() as cold:
        _, printed = launch.run(launch.command("matmul_share", "dense", "tenfold", 64, EPOCHS, digits()), cold)
    fused, peak = map(float, printed.splitlines()[-1].split())
    rows = [(f"{fused / 1e9:.1f}", f"{peak / 1e9:.1f}", f"{fused / peak:.0%}")]
    head = ("fused dense training, GFLOP/s of one core", "matrix multiplication, GFLOP/s", "share")
    return Table("how much of a core's speed the fused program reaches", head, rows, words=0)


if __name__ == "__main__":
    main()
