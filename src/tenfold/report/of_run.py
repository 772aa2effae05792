"""The report of a run, read from its journal: what every run has, with what is special to the verb that made it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tenfold.journal import records
from tenfold.journal.store import Journal
from tenfold.report import curves, of_rows, of_train, of_tune, origin, scaling_study, tasks
from tenfold.report.parts import Report, Section
from tenfold.report.tasks import Run

Told = tuple[str, list[tuple[str, str]], list[Section]]
"""A sentence, the first numbers, and sections: what is special to a verb."""


def _of_map(run: Run) -> Told:
    found = curves.section(run.journal)
    return tasks.counted(run), tasks.figures(run), [found] if found is not None else []


_OF: dict[str, Callable[[Run], Told]] = {
    "tune": of_tune.told,
    "train": of_train.told,
    "prepare": of_rows.told,
    "predict": of_rows.told,
}
"""Verb -> what is special to it; for any other, a run is its tasks."""


def of_run(path: Path) -> Report:
    """Of the run in a folder, or of the prepared set in it."""
    place = records.place(path)
    records.check(place)
    with records.opened(place) as journal:
        return report(journal, place, shown=path)


def report(journal: Journal, path: Path, shown: Path) -> Report:
    """`shown` is what people call the folder."""
    run = tasks.read(journal, path)
    verb = run.record.verb
    if verb == "measure":
        return scaling_study.study_of(journal).report()
    summary, figures, sections = _OF.get(verb, _of_map)(run)
    name = "" if verb == "train" else f" of {run.record.function}"
    call, words = _call(run, shown)
    ends = [origin.section(run.about), origin.repeat(call, words, run.about)]
    every = [*sections, *tasks.when(run), *tasks.failures(run), *ends]
    return Report(f"{verb}{name} in {shown}", f"{summary} {tasks.worked(run)}", every, figures)


def _call(run: Run, shown: Path) -> tuple[str, str]:
    """Python that makes this run again, and what it would do."""
    record = run.record
    seed = json.loads(run.journal.meta("fingerprint") or "{}").get("seed", "0")
    given = {
        "map": f"{record.function}, items",
        "tune": f"{record.function}, space",
        "train": "fit, params",
        "prepare": f"{record.function}, source",
        "predict": "model, source",
    }.get(record.verb, "...")
    rows = record.verb in ("prepare", "predict")
    workers = f"workers={run.workers}, " if run.workers else ""
    where = f"to={str(shown)!r}" if rows else f"run={str(shown)!r}"
    others = f"{workers}engine={str(run.about.get('engine', 'local'))!r}, seed={seed}, {where}"
    makes = "What is finished is kept: the same call runs what is missing"
    again = makes + (", and tries failed tasks again" if record.failed and record.verb != "tune" else "")
    return f"tenfold.{record.verb}({given}, {others})", f"{again}; with fresh=True it begins anew."
