"""The report of a run, read from its journal: what every run has, with what is special to the verb that made it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from tenfold.journal import records
from tenfold.journal.store import Journal
from tenfold.report import curves, of_rows, of_train, of_tune, origin, scaling_study, tasks
from tenfold.report.parts import Report, Section
from tenfold.report.tasks import Run
from tenfold.search.objective import Objective
from tenfold.search.trial import Trial

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
    return _whole(run, _OF.get(verb, _of_map)(run), shown)


def of_study(journal: Journal, trials: Sequence[Trial], wanted: Objective) -> Report:
    """Of a study that is at hand, which may have no run folder."""
    path = journal.folder.path if journal.folder is not None else None
    run = tasks.read(journal, path, "tune")
    return _whole(run, of_tune.of_trials(run, trials, wanted), path)


def _whole(run: Run, told: Told, shown: Path | None) -> Report:
    summary, figures, sections = told
    named = run.record.function if run.record.verb not in ("train", "evaluate") else ""
    title = " ".join([run.record.verb, *([f"of {named}"] if named else []), *([f"in {shown}"] if shown else [])])
    call, words = _call(run, shown)
    ends = [origin.section(run.about, elsewhere=shown is not None), origin.repeat(call, words, run.about)]
    every = [*sections, *tasks.when(run), *tasks.failures(run), *ends]
    return Report(title, f"{summary} {tasks.worked(run)}", every, figures)


def _call(run: Run, shown: Path | None) -> tuple[str, str]:
    """Python that makes this run again, and what it would do."""
    record = run.record
    seed = json.loads(run.journal.meta("fingerprint") or "{}").get("seed")
    given = {
        "map": f"{record.function}, items",
        "tune": f"{record.function or 'task'}, space",
        "train": "fit, params",
        "prepare": f"{record.function}, source",
        "predict": "model, source",
        "evaluate": "model, source, metrics",
    }.get(record.verb, "...")
    others = [given, *([f"workers={run.workers}"] if run.workers else [])]
    others += [f"engine={str(run.about.get('engine', 'local'))!r}", *([f"seed={seed}"] if seed is not None else [])]
    if shown is None:
        return f"tenfold.{record.verb}({', '.join(others)})", "With run=FOLDER, a call that is killed can be continued."
    others.append(f"{'to' if record.verb in ('prepare', 'predict') else 'run'}={str(shown)!r}")
    makes = "What is finished is kept: the same call runs what is missing"
    again = makes + (", and tries failed tasks again" if record.failed and record.verb != "tune" else "")
    return f"tenfold.{record.verb}({', '.join(others)})", f"{again}; with fresh=True it begins anew."
