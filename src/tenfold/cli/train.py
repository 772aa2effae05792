"""`tenfold train FILE.py:NAME`: one model on many workers."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import tenfold
from tenfold.cli import given, load, say
from tenfold.cli.options import settings_without
from tenfold.errors import BadCall
from tenfold.fuse.result import OF_KERAS, OF_TORCH, name_fault
from tenfold.nursery import used
from tenfold.training.sharding import Sharded

if TYPE_CHECKING:
    from tenfold.training.trained import Trained

SHOWN = 8  # epochs


@click.command()
@click.argument("target", metavar="FILE.py:NAME")
@click.option("--how", type=click.Choice(["synchronous", "asynchronous", "sharded"]), default="synchronous")
@click.option("--set", "sets", multiple=True, metavar="NAME=VALUE", help="A parameter of the model; repeat it.")
@click.option("--workers", type=int, help="How many; the fastest number, as measured, where it is not given.")
@click.option("--devices", type=int, help="Of each worker's process, for Keras on JAX or TensorFlow: GPUs, or cores.")
@click.option("--cpus", type=float, help="Cores for each worker; divided evenly where it is not given.")
@click.option("--retries", type=int, default=2, show_default=True, help="How often a lost worker is started again.")
@click.option("--checkpoint", metavar="STEPS|TIME", help='How often the state is written, such as 500 or "5min".')
@click.option("--accumulate", type=int, default=1, show_default=True, help="Pieces of a worker's share of a batch.")
@click.option("--clip", type=float, help="The largest norm of the gradient.")
@click.option("--precision", help='"bfloat16": what a module of PyTorch computes in, where it may.')
@click.option(
    "--exchange", help='How workers add up gradients: "ring", "gloo", "nccl" or "framework"; chosen where not given.'
)
@click.option("--staleness", type=int, help="Of asynchronous: steps that a worker may be ahead of another.")
@click.option("--average-every", type=int, help="Of asynchronous: steps between two averages of the weights.")
@click.option("--mesh", type=int, nargs=2, metavar="ROWS MODEL", help="Of sharded: parts of the rows and of the model.")
@click.option(
    "--layout", multiple=True, metavar="PATTERN=AXES", help="Of sharded: 0.weight=model,- cuts it so; repeat."
)
@click.option("--stages", type=int, help="Of sharded: parts of a pipeline, each with some layers of a Sequential.")
@click.option("--save", "path", metavar="FILE", help="Write the model: .keras, .weights.h5, .pt or .npz.")
@settings_without("cpus", "isolate", "retries", "workers")
@say.json_option
def command(
    target: str,
    sets: tuple[str, ...],
    layout: tuple[str, ...],
    checkpoint: str | None,
    path: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Train one model of a Fit of a Python file, on several workers.

    \b
    tenfold train train.py:fit --workers 4 --set lr=0.001 --save model.keras
    tenfold train train.py:fit --engine dask --workers 8 --run runs/big --checkpoint 5min
    tenfold train train.py:fit --how sharded --workers 4 --mesh 2 2
    """
    often = int(checkpoint) if checkpoint is not None and checkpoint.isdigit() else checkpoint
    with say.stdout_for_json(as_json):
        fit: Any = load.function(target)  # whatever it is: train says what it expects
        if path is not None:
            _check(path, fit)
        trained = tenfold.train(fit, given.settings(sets), checkpoint=often, layout=_layout(layout), **options)
        if path is not None:
            _save(trained, path)
    if as_json:
        say.emit({"target": target, **_facts(trained), "saved": path})
    else:
        _show(trained, path)


def _check(path: str, fit: Any) -> None:
    """Before anything is trained: whether a model of this kind, as far as that is known, can be written there."""
    frameworks = used.members(fit) if isinstance(fit, tenfold.Fit) else ()
    accepted = OF_KERAS if "keras" in frameworks else OF_TORCH if "torch" in frameworks else OF_KERAS[:-1] + OF_TORCH
    if fault := name_fault(path, accepted):
        raise BadCall(f"--save {path!r}: {fault}")
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadCall(f"--save {path!r}: its folder cannot be made: {error}") from error


def _save(trained: Trained, path: str) -> None:
    """Where that fails, the weights alone beside it: what was trained is not to be lost."""
    try:
        trained.save(path)
    except Exception as error:
        beside = trained.save(f"{path}.npz")
        raise BadCall(f"--save {path!r}: {type(error).__name__}: {error}; its weights are in {beside}") from error


def _layout(texts: tuple[str, ...]) -> dict[str, tuple[str | None, ...]] | None:
    """Axes of a weight by its name's pattern; "-" is one that is not cut."""
    found = {}
    for text in texts:
        pattern, equals, axes = text.rpartition("=")
        if not equals:
            raise BadCall(f"--layout {text!r}: expected PATTERN=AXES, such as 0.weight=model,-")
        found[pattern] = tuple(None if axis == "-" else axis for axis in axes.split(","))
    return found or None


def _facts(trained: Trained) -> dict[str, Any]:
    shares = {"shares": [asdict(share) for share in trained.shares]} if isinstance(trained, Sharded) else {}
    return {
        "params": trained.params,
        "history": trained.history,
        "updates": trained.updates,
        "workers": trained.workers,
        "seconds": trained.seconds,
        "plan": trained.plan,
        "events": list(trained.events),
        **shares,
    }


def _show(trained: Trained, path: str | None) -> None:
    screen = say.screen()
    table = say.table("epoch", *trained.history, right=("epoch", *trained.history))
    epochs = trained.result.epochs
    for epoch in sorted({*range(min(SHOWN // 2, epochs)), *range(max(0, epochs - SHOWN // 2), epochs)}):
        table.add_row(str(epoch), *(f"{values[epoch]:.5g}" for values in trained.history.values()))
    say.show(table)
    screen.print(
        f"{epochs} epochs, {trained.updates} updates, {trained.workers} workers, {say.took(trained.seconds)}",
        style="bold",
    )
    for reason in trained.plan.splitlines()[1:]:
        screen.print(reason)
    for event in trained.events[1:]:
        screen.print(event)
    screen.print(f"written to {path}" if path else "not written: --save FILE keeps the model")
