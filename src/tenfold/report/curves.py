"""Learning curves: of tasks that reported, of models that were trained, of trials by how good they were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tenfold.fuse.result import FitResult
from tenfold.journal.store import Journal
from tenfold.report import lines
from tenfold.report.lines import Line, Point
from tenfold.report.parts import Chart, Part, Section, Text
from tenfold.report.style import SERIES

MOST = 40  # tasks whose curves are drawn
METRICS = 6  # charts of one section

Curves = Mapping[str, Mapping[str, Sequence[Point]]]
"""Metric -> name of a task -> its points."""


def section(journal: Journal, step: str = "step") -> Section | None:
    """Of the tasks of a run: what they reported, else the histories of models that they trained."""
    reporting = journal.reporting()
    if reporting:
        chosen = _some(reporting)
        found = _by_metric({f"task {task}": _reported(journal, task) for task in chosen})
        return _section(found, len(chosen), len(reporting), step)
    histories = _histories(journal)
    if histories is None:
        return None
    models, count = histories
    found = _by_metric({name: {key: list(enumerate(v, 1)) for key, v in of.items()} for name, of in models.items()})
    return _section(found, len(models), count, "epoch")


def _some(tasks: Sequence[int]) -> list[int]:
    """At most so many, evenly from all."""
    if len(tasks) <= MOST:
        return list(tasks)
    return [tasks[round(place * (len(tasks) - 1) / (MOST - 1))] for place in range(MOST)]


def _reported(journal: Journal, task: int) -> dict[str, list[Point]]:
    """What its last attempt has reported, by name. A step that was reported twice counts once."""
    found: dict[str, dict[float, float]] = {}
    attempt = 0
    for report in journal.reports(task):
        if report.attempt != attempt:
            found, attempt = {}, report.attempt
        for name, value in report.values.items():
            found.setdefault(name, {})[report.step] = value
    return {name: sorted(points.items()) for name, points in found.items()}


def _histories(journal: Journal) -> tuple[dict[str, dict[str, list[float]]], int] | None:
    """Of results that are trained models; the first of them tells whether there are any."""
    first = next(iter(journal.outcomes(ok=True)), None)
    if first is None or not isinstance(first.value, FitResult):
        return None
    done = [index for start, count in journal.finished() for index in range(start, start + count)]
    found = {}
    for index in _some(done):
        value = journal.outcome(index).value
        if isinstance(value, FitResult):
            found[f"task {index}"] = value.history
    return found, len(done)


def _by_metric(tasks: Mapping[str, Mapping[str, Sequence[Point]]]) -> Curves:
    names = dict.fromkeys(name for found in tasks.values() for name in found)
    return {name: {task: found[name] for task, found in tasks.items() if name in found} for name in names}


def _section(found: Curves, drawn: int, count: int, step: str) -> Section:
    parts: list[Part] = [of_tasks(name, tasks, step) for name, tasks in list(found.items())[:METRICS]]
    if drawn < count:
        parts.insert(0, Text(f"The curves of {drawn} of {count:,} tasks are drawn, taken evenly from all of them."))
    if len(found) > METRICS:
        parts.append(Text(f"Not drawn: {', '.join(list(found)[METRICS:])}."))
    return Section("Learning curves", parts)


def of_tasks(metric: str, tasks: Mapping[str, Sequence[Point]], step: str) -> Chart:
    """One metric of several tasks: each in a colour of its own while there are colours."""
    told = len(tasks) <= len(SERIES)
    drawn = [
        Line(name if told else "", points, colour, "" if told else "thin", titles=(name,))
        for place, (name, points) in enumerate(tasks.items())
        for colour in (SERIES[place % len(SERIES)] if told else "c1",)
    ]
    ends = [points[-1][1] for points in tasks.values() if points]
    words = f"The last values are between {min(ends):.4g} and {max(ends):.4g}." if len(ends) > 1 else ""
    return lines.chart(metric, words or f"The last value is {ends[0]:.4g}.", drawn, labels=(step, ""))


def of_model(history: Mapping[str, Sequence[float]]) -> list[Chart]:
    """Of one model: each metric beside what it is on rows that were held out."""
    found = []
    for name in [name for name in history if not name.startswith("val_") or name[4:] not in history][:METRICS]:
        pair = [own for own in (name, f"val_{name}") if own in history]
        drawn = [
            Line(own, [(float(epoch), value) for epoch, value in enumerate(history[own], 1)], colour)
            for own, colour in zip(pair, SERIES, strict=False)
        ]
        words = ", ".join(f"{own} {history[own][-1]:.4g}" for own in pair if len(history[own]))
        found.append(lines.chart(name, f"In the end: {words}.", drawn, labels=("epoch", "")))
    return found


def of_trials(name: str, curves: Sequence[tuple[Any, Mapping[int, float]]], colours: Sequence[str]) -> Chart:
    """Of a study: the best last, so that it is on top."""
    drawn = [
        Line("", sorted(curve.items()), colour, "thick" if colour == "c2" else "thin", titles=(f"trial {number}",))
        for (number, curve), colour in zip(curves, colours, strict=True)
    ]
    words = "Darker, or brighter at night, is better; the best is orange."
    return lines.chart(f"{name} of the trials, step by step", words, drawn, labels=("step", name))
