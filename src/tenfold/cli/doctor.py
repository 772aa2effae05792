"""`tenfold doctor`: what is here, and whether it works; with --engine, what is there."""

from __future__ import annotations

from typing import Any

import click
from rich.text import Text

from tenfold.cli import clusters, examine, say
from tenfold.cli.examine import Trial
from tenfold.errors import WorkersUnavailable
from tenfold.nursery import warming
from tenfold.plan.needs import readable

AT_ONCE = 0.01  # seconds; another framework had imported it already


@click.command()
@click.option(
    "--engine",
    metavar="ADDRESS",
    help='Look at the machines of this engine instead: a name, or an address such as "dask://host:8786".',
)
@say.json_option
def command(engine: str | None, as_json: bool) -> None:
    """What is here: cores, memory, GPUs, frameworks, and how fast workers start.

    Starts a nursery that imports every installed framework, which takes some seconds. Exits with 1 where no worker
    can be started.

    \b
    tenfold doctor --engine dask://host:8786
    tenfold doctor --engine ray://auto --json
    """
    if engine is not None:
        _look_at(engine, as_json)
    else:
        _look_here(as_json)


def _look_at(engine: str, as_json: bool) -> None:
    with say.stdout_for_json(as_json), say.screen(stderr=True).status(engine) as status:
        found = clusters.look(engine, status.update)
    if as_json:
        say.emit(found)
    else:
        clusters.show(found)


def _look_here(as_json: bool) -> None:
    with say.stdout_for_json(as_json), say.screen(stderr=True).status("looking at the machine") as status:
        found: dict[str, Any] = {
            "software": examine.software(),
            "cores": examine.processors(),
            "memory": examine.memory(),
            "gpus": examine.gpus(),
            "frameworks": examine.found_frameworks(),
            "engines": examine.found_engines(),
            "warm": _waiting(),
        }
        status.update("starting workers")
        found["workers"] = examine.time_workers()
        trial = examine.try_nursery(status.update)
    for name, facts in found["frameworks"].items():
        facts |= {"import_seconds": trial.seconds.get(name), "import_error": trial.failed.get(name)}
    found["fork"] = {"safe": trial.forks, "reason": trial.reason}
    if as_json:
        say.emit(found)
    else:
        _show(found, trial)
    if found["workers"]["error"]:
        raise click.exceptions.Exit(1)


def _waiting() -> dict[str, Any]:
    try:
        state = warming.state()
    except WorkersUnavailable as error:
        return {"waiting": True, "note": str(error)}
    if state is None:
        return {"waiting": False}
    return {"waiting": True, "pid": state["pid"], "imported": list(state["imported"])}


def _show(found: dict[str, Any], trial: Trial) -> None:
    screen = say.screen()
    software = found["software"]
    screen.print(f"tenfold {software['tenfold']}, Python {software['python']}, {software['system']}", style="bold")
    table = say.table("what", "found", "note")
    table.add_row("cores", f"{found['cores']['usable']:g}", _limits(found["cores"], str(found["cores"]["machine"])))
    free = f"{readable(found['memory']['free'])} free now"
    limits = _limits(found["memory"], readable(found["memory"]["machine"]))
    table.add_row("memory", readable(found["memory"]["usable"]), f"{free}; {limits}")
    for gpu in found["gpus"]:
        name = "pretended (TENFOLD_GPUS)" if gpu["pretended"] else gpu["name"]
        table.add_row(f"GPU {gpu['address']}", readable(gpu["memory"]), name)
    if not found["gpus"]:
        table.add_row("GPUs", "none", "")
    table.add_section()
    for name, facts in found["frameworks"].items():
        table.add_row(name, *_framework(facts))
    table.add_section()
    for name, facts in found["engines"].items():
        table.add_row(f"engine {name}", *_engine(facts))
    table.add_section()
    table.add_row("workers", *_workers(found["workers"], found["warm"]))
    table.add_row("forked workers", *_fork(trial))
    table.add_row("warm nursery", *_warm(found["warm"]))
    say.show(table)


def _limits(facts: dict[str, Any], whole: str) -> str:
    if facts["limited_by"]:
        return f"the machine has {whole}; limited by {', '.join(facts['limited_by'])}"
    return "all that the machine has"


def _framework(facts: dict[str, Any]) -> tuple[Text, str]:
    if facts["version"] is None:
        return Text("not installed", style="dim"), facts["install"]
    if facts["import_error"]:
        return Text(facts["version"], style="red"), f"cannot be imported: {facts['import_error']}"
    return Text(facts["version"], style="green"), _imported(facts["import_seconds"])


def _imported(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"imported in {say.took(seconds)}" if seconds >= AT_ONCE else "imported with those above"


def _engine(facts: dict[str, Any]) -> tuple[Text, str]:
    if facts["install"] is not None:
        return Text("not installed", style="dim"), facts["install"]
    return Text(facts["version"] or "ready", style="green"), ""


def _workers(facts: dict[str, Any], warm: dict[str, Any]) -> tuple[Text, str]:
    if facts["error"]:
        return Text("none", style="red"), facts["error"]
    source = "takes the warm nursery" if warm["waiting"] else "starts a nursery"
    first = f"the first call of a script, which {source}: {say.took(facts['first'])}"
    return Text(say.took(facts["next"]), style="green"), f"a call with 2 tasks; {first}"


def _fork(trial: Trial) -> tuple[Text, str]:
    if trial.forks:
        return Text("safe", style="green"), "with every installed framework imported"
    return Text("no", style="yellow"), f"{trial.reason}; workers are fresh interpreters, which start in seconds"


def _warm(facts: dict[str, Any]) -> tuple[str, str]:
    if not facts["waiting"]:
        return "none", "tenfold warm keeps frameworks imported for the next scripts"
    return "waiting", facts.get("note") or f"process {facts['pid']}, with {', '.join(facts['imported'])}"
