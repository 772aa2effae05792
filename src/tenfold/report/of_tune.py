"""What is special to a study: the best trial, how the search went, and what the parameters have to do with it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from tenfold.report import coordinates, curves, lines, matters, tasks
from tenfold.report.lines import Line
from tenfold.report.parts import Facts, Part, Section, Table, Text
from tenfold.report.style import ramp
from tenfold.report.tasks import Run
from tenfold.report.trials import looked_for, trials
from tenfold.search.objective import Objective
from tenfold.search.trial import Trial
from tenfold.work.outcome import shorten
from tenfold.work.times import precise

TOP = 10  # trials of the table
CURVES = 100  # trials whose curves are drawn


def told(run: Run) -> tuple[str, list[tuple[str, str]], list[Section]]:
    """A sentence, the first numbers, and sections."""
    wanted = looked_for(run.journal)
    return of_trials(run, trials(run.journal, wanted), wanted)


def of_trials(run: Run, found: Sequence[Trial], wanted: Objective) -> tuple[str, list[tuple[str, str]], list[Section]]:
    """The same for trials that are at hand."""
    name = wanted.names[0] or "value"
    ranked = sorted(
        (trial for trial in found if math.isfinite(trial.value)),
        key=lambda trial: (trial.state != "complete", wanted.sign * trial.value, trial.number),
    )
    counts = {state: sum(trial.state == state for trial in found) for state in ("complete", "pruned", "failed")}
    states = ", ".join(f"{count:,} {state}" for state, count in counts.items() if count)
    summary = f"{len(found):,} trials{f': {states}' if states else ''}."
    figures = [("trials", f"{len(found):,}"), *((state, f"{n:,}") for state, n in counts.items() if n)]
    figures += tasks.figures(run)[-4:]
    if not ranked:
        return f"{summary} None of them has an objective yet.", figures, []
    best = ranked[0]
    summary += f" The best {name} is {best.value:.4g}, of trial {best.number}."
    sections = [
        Section("The best trial", _best(best, wanted)),
        Section("The search", [_history(found, name, wanted.sign), *_coordinates(run, ranked, name)]),
        *matters.section(run.journal, ranked, wanted),
        *_curves(ranked, name),
        Section(f"The {min(TOP, len(ranked))} best trials", [_table(ranked[:TOP], wanted)]),
    ]
    return summary, [(f"best {name}", f"{best.value:.4g}"), *figures], sections


def _best(best: Trial, wanted: Objective) -> list[Part]:
    names = [name or "value" for name in wanted.names]
    values = [(name, f"{value:.6g}") for name, value in zip(names, best.values or (), strict=False)]
    spread = [("spread over folds", f"{best.spread:.3g}")] if best.spread is not None else []
    params = [(name, _shown(value)) for name, value in best.params.items()]
    work = [("trial", str(best.number)), ("steps", f"{best.steps:,}"), ("time", precise(best.seconds))]
    several = "There are several objectives; this is the best in the first of them." if len(names) > 1 else ""
    return [*([Text(several)] if several else []), Facts([*values, *spread, *params, *work])]


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else shorten(value, 120).strip("'")


def _history(found: Sequence[Trial], name: str, sign: int) -> Part:
    drawn = []
    for state, colour in (("pruned", "c6"), ("complete", "c1")):
        some = [trial for trial in found if trial.state == state and math.isfinite(trial.value)]
        points = [(float(trial.number), trial.value) for trial in some]
        titles = [f"trial {trial.number}" for trial in some]
        drawn += [Line(state, points, colour, dots=True, joined=False, titles=titles)] if some else []
    ended = [trial for trial in found if trial.state == "complete" and math.isfinite(trial.value)]
    bests = itertools.accumulate((sign * trial.value for trial in ended), min)
    steps = [(float(trial.number), sign * value) for trial, value in zip(ended, bests, strict=True)]
    drawn += [Line("best so far", _stairs(steps), "c2")] if len(steps) > 1 else []
    words = f"Each dot is a trial; {'more' if sign < 0 else 'less'} is better."
    return lines.chart(f"{name} of each trial", words, drawn, labels=("trial", name))


def _stairs(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """It stays as it was until the trial that is better."""
    found = [points[0]]
    for before, after in itertools.pairwise(points):
        found += [(after[0], before[1]), after] if after[1] != before[1] else [after]
    return found


def _coordinates(run: Run, ranked: Sequence[Trial], name: str) -> list[Part]:
    key = f"{name} (result)" if any(name in trial.params for trial in ranked) else name
    rows = [{**trial.params, key: trial.value} for trial in ranked]
    varied = matters.varied(run.journal, ranked)
    if not varied or len(rows) < 2:
        return []
    words = "A line for each trial. Darker, or brighter at night, is better; the best is orange."
    if len(rows) > coordinates.MOST:
        words += f" The best {coordinates.MOST} of {len(rows):,} trials are drawn."
    same = {param: rows[0][param] for param in rows[0] if param not in varied and param != key}
    if same:
        words += f" The same in all: {', '.join(f'{param} {_shown(value)}' for param, value in same.items())}."
    return [coordinates.chart("Parameters and what came of them", words, rows, key, varied)]


def _curves(ranked: Sequence[Trial], name: str) -> list[Section]:
    long = [trial for trial in ranked if len(trial.curve) > 1][:CURVES]
    if not long:
        return []
    chosen = long[::-1]
    colours = [ramp(place / max(1, len(chosen) - 1)) for place in range(len(chosen) - 1)] + ["c2"]
    chart = curves.of_trials(name, [(trial.number, trial.curve) for trial in chosen], colours)
    more = [trial for trial in ranked if len(trial.curve) > 1]
    note = [Text(f"The curves of the best {CURVES} of {len(more):,} trials are drawn.")] if len(more) > CURVES else []
    return [Section("Learning curves", [*note, chart])]


def _table(ranked: Sequence[Trial], wanted: Objective) -> Table:
    params = list(dict.fromkeys(name for trial in ranked for name in trial.params))[:8]
    objectives = tuple(name or "value" for name in wanted.names)
    rows = []
    for trial in ranked:
        values = [f"{value:.5g}" for value in trial.values or ()]
        own = [_short(trial.params[name]) if name in trial.params else "" for name in params]
        rows.append([str(trial.number), *values, *own, trial.state, f"{trial.steps:,}", precise(trial.seconds)])
    given = [f"{name} (given)" if name in objectives else name for name in params]
    columns = ("trial", *objectives, *given, "state", "steps", "time")
    numeric = {key for key in params if all(_is_number(trial.params.get(key)) for trial in ranked)}
    numbers = [name for name, key in zip(given, params, strict=True) if key in numeric]
    return Table(columns, rows, right=(*objectives, *numbers, "steps", "time"))


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else _shown(value)[:40]


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
