"""How fast is one model trained, by one process and by two, with tenfold and with what people use today?

Three convolutional nets on images of 8 x 8 (`scripts/train_net.py` has them), with SGD. Steps a second are those of a
training under way; seconds to the first step count from the call. One process: own loops of PyTorch and TensorFlow with
one and two threads, Keras `fit`. Two: PyTorch's DDP, TensorFlow's MirroredStrategy with `fit` and
MultiWorkerMirroredStrategy with its own loop, Ray Train; and tenfold's own two also through sockets, as DDP and
MultiWorkerMirroredStrategy are: its ring, and gloo. Asynchronous updates of the small net, also with Ray's actors
and TensorFlow's parameter servers; and how long training stands still when one of two workers is killed, with torchrun.
Every script runs by itself, in turns. Then `train(fit)` and the two best peers, and PyTorch's two workers of both, take
turns again, directly after each other, and these count for their rows: minutes apart, the same script differs by a
tenth.
"""

from __future__ import annotations

import json
import tempfile
from functools import partial

import launch
from contest import Goal, Options, Report, Table, at_least, medians, options, publish, say, take_turns

REPEATS = 1
PEERS = ("torch_1", "torch_2", "tf_1", "tf_2", "keras_fit", "mirrored_fit", "ddp", "mwms", "ray_train")
OURS = (
    "tenfold_torch",
    "tenfold_torch_2",
    "tenfold_torch_ring",
    "tenfold_torch_gloo",
    "tenfold_torch_async",
    "tenfold_keras",
    "tenfold_keras_2",
    "tenfold_keras_ring",
    "tenfold_keras_async",
)
AGAIN = 3  # turns of those whose goals are near
NETS = ("small", "big", "wide")
RAY_ACTORS, SERVERS = "updates/s, Ray actors", "updates/s, TensorFlow's parameter server"
RECOVERED, RESTARTED = "s from a kill to the next step, tenfold", "s from a kill to the next step, torchrun"
Found = dict[str, dict[str, float]]


def main() -> None:
    chosen = options(__doc__, repeats=REPEATS)
    speeds: dict[str, Found] = {}
    for net in NETS[: 1 if chosen.quick else None]:
        speeds[net] = measure(net, chosen)
    others = measure_others(chosen)
    rows = [(name, f"{value:.2f}") for name, value in others.items()]
    tables = [*(table(net, found) for net, found in speeds.items()), Table("others", ("", "measured"), rows)]
    kept = [*goals(speeds), *other_goals(speeds["small"], others)]
    publish(Report(__doc__ or "", tables, kept, {**speeds, "others": others}), chosen)


def measure(net: str, chosen: Options) -> Found:
    """For each contestant: steps a second, and seconds to the first."""
    say(net)
    contestants = (*PEERS, *OURS) if net == "small" else tuple(n for n in (*PEERS, *OURS) if n != "ray_train")
    firsts: dict[str, list[float]] = {}
    with launch.environment() as variables:

        def run(name: str) -> float:
            _, printed = launch.run(launch.command("train_net", name, net), variables)
            found = json.loads(printed.splitlines()[-1])
            firsts.setdefault(name, []).append(found["seconds to the first"])
            return float(found["steps a second"])

        speeds = medians(take_turns({name: partial(run, name) for name in contestants}, chosen.repeats))
        if not chosen.quick:
            names = sorted(PEERS, key=lambda name: speeds.get(name, 0.0))[-2:]
            names.append(max(("tenfold_torch", "tenfold_keras"), key=lambda name: speeds[name]))
            names += ["ddp", "tenfold_torch_2"]
            speeds |= medians(take_turns({name: partial(run, name) for name in names}, AGAIN))
    first = medians(firsts)
    return {name: {"speed": speed, "first": first[name]} for name, speed in speeds.items()}


def measure_others(chosen: Options) -> dict[str, float]:
    """Updates a second of asynchronous peers, and seconds without a step after a kill."""

    def run(script: str, *words: object) -> float:
        with launch.environment() as variables, tempfile.TemporaryDirectory() as folder:
            found = launch.run(launch.command(script, *words, *([folder] if script == "recovery" else [])), variables)
            (value,) = json.loads(found[1].splitlines()[-1]).values()
            return float(value)

    say("updates, recovery")
    scripts = {
        RAY_ACTORS: partial(run, "updates", "ray_actors"),
        SERVERS: partial(run, "updates", "tf_servers"),
        RECOVERED: partial(run, "recovery", "tenfold"),
        RESTARTED: partial(run, "recovery", "torchrun"),
    }
    return medians(take_turns(scripts, chosen.repeats))


def other_goals(small: Found, others: dict[str, float]) -> list[Goal]:
    ours = max(small[name]["speed"] for name in ("tenfold_torch_async", "tenfold_keras_async"))
    goals = [
        at_least(f"small: asynchronous updates, against {name}", ours / others[name], 3)
        for name in (RAY_ACTORS, SERVERS)
    ]
    recovery = others[RESTARTED] / others[RECOVERED]
    return [*goals, at_least("a step again after a kill, against torchrun", recovery, 5)]


def table(net: str, found: Found) -> Table:
    best = max(one["speed"] for name, one in found.items() if name in PEERS)
    rows = [
        (name, f"{one['speed']:.0f}", f"{one['speed'] / best:.2f}", f"{one['first']:.1f}")
        for name, one in found.items()
    ]
    return Table(net, ("contestant", "steps/s", "of the best peer", "s to the first step"), rows)


def goals(speeds: dict[str, Found]) -> list[Goal]:
    kept = []
    for net, found in speeds.items():
        speed = {name: one["speed"] for name, one in found.items()}
        best = max(PEERS, key=lambda name: speed.get(name, 0.0))
        ours = max(speed["tenfold_torch"], speed["tenfold_keras"])
        kept.append(at_least(f"{net}: train(fit), against the best of all ({best})", ours / speed[best], 0.95))
        torch, keras = speed["tenfold_torch_2"] / speed["ddp"], speed["tenfold_keras_2"] / speed["mwms"]
        kept.append(at_least(f"{net}: two workers of PyTorch, against DDP", torch, 1.3 if net == "small" else 1.2))
        kept.append(at_least(f"{net}: two workers of Keras, against MWMS", keras, 2 if net == "small" else 1.2))
    small = speeds["small"]
    fit = small["tenfold_keras"]["speed"] / small["keras_fit"]["speed"]
    kept.append(at_least("small: train(fit), against Keras fit", fit, 1.8))
    if "ray_train" in small:
        first = small["ray_train"]["first"] / small["tenfold_torch_2"]["first"]
        kept.append(at_least("small: seconds to the first step, against Ray Train", first, 3))
    return kept


if __name__ == "__main__":
    main()
