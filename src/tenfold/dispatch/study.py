"""What `tenfold.tune` gives back: the trials, the best of them, and what they tell about the space."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from tenfold.dispatch.results import Results
from tenfold.errors import BadCall, TenfoldError
from tenfold.machine.installed import missing
from tenfold.search import importance
from tenfold.search.objective import Objective
from tenfold.search.suggestions import Suggestions
from tenfold.search.trial import Trial
from tenfold.work.times import duration

if TYPE_CHECKING:
    import optuna
    import pandas
    from matplotlib.figure import Figure

Plot = Literal["history", "parallel", "slices", "importance"]


class Study:
    """The trials of a search, in the order in which they were suggested."""

    def __init__(
        self,
        trials: list[Trial],
        objective: Objective,
        suggestions: Suggestions,
        results: Results,
        refit: Callable[[Trial], Any] | None,
    ) -> None:
        self.trials = trials
        """All of them: complete, pruned and failed."""
        self.objectives = {
            name or "value": direction for name, direction in zip(objective.names, objective.directions, strict=True)
        }
        """All that was looked for -> "minimize" or "maximize"."""
        self.objective, self.direction = next(iter(self.objectives.items()))
        """The first of them."""
        self.results = results
        """What every leg of every trial brought back, as `tenfold.map` gives it."""
        self.seconds = results.seconds
        """How long it took."""
        self._objective = objective
        self._suggestions = suggestions
        for trial in trials:
            trial.bind(results, refit)

    # -- the best -------------------------------------------------------------------------------------------------

    @property
    def best(self) -> Trial:
        """The complete trial with the best objective: `.params`, `.value`, `.model`."""
        if len(self._objective.names) > 1:
            raise BadCall("best: there are several objectives; .front has the trials that no other is better than")
        found = self.top(1)
        if not found:
            failed = [trial for trial in self.trials if trial.error is not None]
            ended = sum(trial.state == "complete" for trial in self.trials)
            why = f": {failed[0].error}" if failed else ""
            nan = f" with a number as its {self.objective}; {ended} ended with NaN" if ended else ""
            raise TenfoldError(f"no trial of {len(self.trials)} came to its end{nan}{why}")
        return found[0]

    def top(self, n: int = 5) -> list[Trial]:
        """The best complete trials, the best one first."""
        complete = [trial for trial in self.trials if trial.state == "complete" and not math.isnan(trial.value)]
        return sorted(complete, key=lambda trial: (self._objective.sign * trial.value, trial.number))[:n]

    @property
    def front(self) -> list[Trial]:
        """For several objectives: the complete trials that no other is better than in all of them; none with a NaN."""
        ended = [trial for trial in self.trials if trial.state == "complete" and trial.values]
        complete = [trial for trial in ended if not any(map(math.isnan, trial.values or ()))]
        signs = [-1 if direction == "maximize" else 1 for direction in self._objective.directions]
        points = {t.number: [s * v for s, v in zip(signs, t.values or (), strict=True)] for t in complete}

        def is_beaten(number: int) -> bool:
            own = points[number]
            return any(
                all(a <= b for a, b in zip(other, own, strict=True)) and other != own for other in points.values()
            )

        return [trial for trial in complete if not is_beaten(trial.number)]

    # -- tables and pictures ----------------------------------------------------------------------------------------

    def frame(self) -> pandas.DataFrame:
        """A table: one row per trial."""
        try:
            import pandas
        except ImportError as error:
            raise missing("pandas, which Study.frame() needs,", "pandas") from error
        numbers = pandas.Index([trial.number for trial in self.trials], name="trial")
        return pandas.DataFrame([self._row(trial) for trial in self.trials], index=numbers)

    def _row(self, trial: Trial) -> dict[str, Any]:
        names = list(self.objectives)
        values = trial.values or (math.nan,) * len(names)
        spread = {f"{names[0]} spread": trial.spread} if trial.spread is not None else {}
        told = {"state": trial.state, "steps": trial.steps, "seconds": trial.seconds}
        row = dict(trial.params)
        for key, value in {**dict(zip(names, values, strict=True)), **spread, **told}.items():
            row[f"{key} (result)" if key in trial.params else key] = value
        return row

    def importance(self) -> dict[str, float]:
        """How much each parameter matters for the objective, the most important first: Optuna's fANOVA."""
        return importance.of_study(self.to_optuna())

    def plot(self, what: Plot = "history") -> Figure:
        """A matplotlib figure: "history", "parallel", "slices" or "importance"."""
        if what not in get_args(Plot):
            raise BadCall(f"plot({what!r}): expected one of {', '.join(map(repr, get_args(Plot)))}")
        try:
            from tenfold.report import studies
        except ImportError as error:
            raise missing("matplotlib, which Study.plot() needs,", "tune") from error
        name, sign = self.objective, self._objective.sign
        if what == "importance":
            return studies.importance(self.importance(), name)
        draw = {"history": studies.history, "parallel": studies.parallel, "slices": studies.slices}[what]
        return draw(self.trials, name, sign)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a report of the study: `.html`, a page that needs nothing else; `.md`, `.json` or `.png`."""
        from tenfold.report.of_run import of_study

        return of_study(self.results.journal, self.trials, self._objective).save(path)

    def to_optuna(self) -> optuna.Study:
        """The same trials as a study of Optuna's, for everything that Optuna can do with one."""
        return self._suggestions.study()

    # -- for people -------------------------------------------------------------------------------------------------

    def summary(self) -> str:
        """One line."""
        counts = {state: sum(t.state == state for t in self.trials) for state in ("complete", "pruned", "failed")}
        words = [f"{len(self.trials)} trials", *(f"{count} {state}" for state, count in counts.items() if count)]
        top = self.top(1)
        if top and len(self._objective.names) == 1:
            words.append(f"best {self.objective} {top[0].value:.4g} (trial {top[0].number}: {shown(top[0].params)})")
        elif top:
            words.append(f"{len(self.front)} on the front")
        return f"{', '.join(words)}; {duration(self.seconds)}"

    def __repr__(self) -> str:
        return f"<Study: {self.summary()}>"


def shown(params: dict[str, Any]) -> str:
    """Parameters for people."""
    return ", ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in params.items())
