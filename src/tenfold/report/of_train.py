"""What is special to the run of one model on many workers: its learning curves, who came and went, and the plan."""

from __future__ import annotations

import json

from tenfold.report import curves, tasks
from tenfold.report.parts import Code, Facts, Section, Table, Text
from tenfold.report.tasks import Run
from tenfold.training.trained import Trained
from tenfold.work.outcome import shorten
from tenfold.work.times import precise


def told(run: Run) -> tuple[str, list[tuple[str, str]], list[Section]]:
    """A sentence, the first numbers, and sections."""
    trained = next((o.value for o in run.journal.outcomes(ok=True) if isinstance(o.value, Trained)), None)
    events = _events(run)
    if trained is None:
        return "The model is not trained to its end yet.", tasks.figures(run), events
    result = trained.result
    ended = ", ".join(f"{name} {value:.4g}" for name, value in result.final.items())
    summary = f"One model was trained for {result.epochs:,} epochs, in {trained.updates:,} updates: {ended}."
    figures = [(name, f"{value:.4g}") for name, value in list(result.final.items())[:4]]
    figures += [("epochs", f"{result.epochs:,}"), ("updates", f"{trained.updates:,}")]
    figures += [("workers", f"{trained.workers:,}"), ("wall time", precise(run.occupied.seconds))]
    params = Facts([(name, shorten(value, 120)) for name, value in result.params.items()])
    sections = [Section("Learning curves", curves.of_model(result.history))]
    sections += [Section("Parameters", [params])] if result.params else []
    sections.append(Section("How it was trained", [Text(result.how), *_plan(run)]))
    return summary, figures, [*sections, *events]


def _plan(run: Run) -> list[Code]:
    """Where, and why so many."""
    lines = [str(found) for found in (run.about.get("plan"), run.journal.meta("choice")) if found]
    return [Code("\n".join(lines))] if lines else []


def _events(run: Run) -> list[Section]:
    """Who came and who was lost."""
    events = json.loads(run.journal.meta("events") or "[]")
    rows = [event.split(": ", 1) if ": " in event else ["", event] for event in map(str, events)]
    return [Section("Who came and who was lost", [Table(("after", "what"), rows)])] if rows else []
