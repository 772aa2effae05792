"""`tenfold tune FILE.py:NAME --space space.toml`: a search for good parameters."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import tenfold
from tenfold.cli import given, load, say
from tenfold.cli.options import settings as call_settings
from tenfold.dispatch.study import shown
from tenfold.errors import BadCall
from tenfold.search import space as spaces

if TYPE_CHECKING:
    from tenfold.dispatch.study import Study
    from tenfold.search.trial import Trial

SHOWN = 5  # trials
TRACEBACKS = 1
KINDS = ("uniform", "loguniform", "integer", "logint", "choice", "constant")


@click.command()
@click.argument("target", metavar="FILE.py:NAME")
@click.option("--space", required=True, metavar="FILE.toml", help="What may be tried; docs/tune.md shows one.")
@click.option("--trials", type=int, help="How many to try; a grid has as many as it has points.")
@click.option("--objective", multiple=True, help="What is looked for, such as val_loss; repeat it for several.")
@click.option(
    "--direction",
    multiple=True,
    type=click.Choice(["minimize", "maximize"]),
    help="By the objective's name where it is not given; one for all objectives, or one for each.",
)
@click.option("--sampler", help="tpe, random, grid, qmc, gp, cma-es, nsga or pbt.")
@click.option("--pruner", help="asha, hyperband, median or patience.")
@click.option("--cv", type=int, metavar="K", help="Hold out each of K folds in turn.")
@click.option("--steps", type=int, help="Of a function: how often a trial reports in all.")
@click.option("--asynchronous", is_flag=True, help="Suggest as trials end, whoever is first.")
@click.option("--set", "sets", multiple=True, metavar="NAME=VALUE", help="A parameter that every trial has; repeat it.")
@call_settings
@say.json_option
def command(target: str, space: str, sets: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Search for good parameters of a Fit or a function of a Python file.

    \b
    tenfold tune train.py:fit --space space.toml --trials 64
    tenfold tune train.py:train --space space.toml --trials 64 --objective loss --run runs/tune
    """
    for name in ("objective", "direction"):
        found = options[name]
        options[name] = list(found) if len(found) > 1 else next(iter(found), None)
    with say.stdout_for_json(as_json):
        wanted = read(space) | {name: spaces.constant(value) for name, value in given.settings(sets).items()}
        study = tenfold.tune(load.function(target), wanted, **options)
    if as_json:
        say.emit(_json(target, study, options))
    else:
        _show(study, options["run"])
    if not study.top(1):
        raise click.exceptions.Exit(1)


def read(path: str) -> dict[str, Any]:
    """A space as it is written in a file."""
    try:
        found = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadCall(f"--space {path!r} cannot be read: {error}") from error
    faults: list[str] = []
    members = {name: _member(name, value, faults) for name, value in found.items()}
    if faults:
        try:
            spaces.Space(members)
        except BadCall as error:
            faults.append(str(error))
        raise BadCall(f"--space {path!r}: {'; '.join(faults)}")
    return members


def _member(name: str, value: Any, faults: list[str]) -> Any:
    """A list is a choice; a table says its kind; anything else is a constant."""
    if not isinstance(value, dict):
        return value
    kind, content = next(iter(value.items())) if len(value) == 1 else ("", None)
    if kind not in KINDS:
        faults.append(f"{name} = {value}: expected one of {', '.join(KINDS)}, such as {{ uniform = [0, 1] }}")
    elif kind == "constant":
        return spaces.constant(content)
    elif kind == "choice" and isinstance(content, dict):
        branches = {key: _branch(f"{name}.{key}", inner, faults) for key, inner in content.items()}
        return spaces.choice(**branches)
    elif not isinstance(content, list) or (kind != "choice" and len(content) != 2):
        faults.append(f"{name} = {value}: expected a list{'' if kind == 'choice' else ' of two numbers'}")
    else:
        return getattr(spaces, kind)(*content)
    return None


def _branch(name: str, space: Any, faults: list[str]) -> Any:
    if not isinstance(space, dict):
        faults.append(f"{name} = {space!r}: expected a table of that branch's own parameters")
        return {}
    return {key: _member(f"{name}.{key}", value, faults) for key, value in space.items()}


def _show(study: Study, folder: str | None) -> None:
    screen = say.screen()
    names = ("trial", *study.objectives, "spread", "steps", "time", "parameters")
    table = say.table(*names, right=("trial", "steps", "time"))
    for trial in study.top(SHOWN) if len(study.objectives) == 1 else _front(study):
        values = [f"{value:.5g}" for value in trial.values or ()]
        spread = f"{trial.spread:.2g}" if trial.spread is not None else ""
        about = (str(trial.steps), say.took(trial.seconds), shown(trial.params))
        table.add_row(str(trial.number), *values, spread, *about)
    if study.top(1):
        say.show(table)
    screen.print(study.summary(), style="bold")
    screen.print(f"kept in {folder}: tenfold show {folder}" if folder else "not kept: --run FOLDER keeps a run")
    failed = [trial for trial in study.trials if trial.error is not None]
    for trial in failed[:TRACEBACKS]:
        say.note(f"\ntrial {trial.number} ({shown(trial.params)}) failed: {trial.error}")
    if len(failed) > TRACEBACKS:
        say.note(f"\n... and {len(failed) - TRACEBACKS} more failures")


def _front(study: Study) -> list[Trial]:
    return sorted(study.front, key=lambda trial: trial.values or ())


def _json(target: str, study: Study, options: dict[str, Any]) -> dict[str, Any]:
    top = study.top(1)
    if len(study.objectives) == 1:
        about: dict[str, Any] = {"objective": study.objective, "direction": study.direction}
        best: dict[str, Any] = {"best": _row(top[0], study) if top else None}
    else:
        about = {"objectives": study.objectives}
        best = {"front": [_row(trial, study) for trial in _front(study)]}
    every = [_row(trial, study) for trial in study.trials]
    return {"function": target, "run": options["run"], **about, "seconds": study.seconds, **best, "trials": every}


def _row(trial: Trial, study: Study) -> dict[str, Any]:
    names = ("number", "params", "state", "spread", "steps", "seconds", "error")
    found = {name: getattr(trial, name) for name in names}
    values = [None if math.isnan(value) else value for value in trial.values or (math.nan,) * len(study.objectives)]
    several = {"values": dict(zip(study.objectives, values, strict=True))}
    return {**found, **({"value": values[0]} if len(values) == 1 else several)}
