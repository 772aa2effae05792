"""`tenfold.tune`: a search for good parameters, on every core, resumable, in groups where models can be fused."""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tenfold.dispatch.course import CourseFeed, Manner
from tenfold.dispatch.pair import Pair
from tenfold.dispatch.results import Results
from tenfold.dispatch.study import Study, shown
from tenfold.engines import Crew
from tenfold.errors import BadCall
from tenfold.fuse.fit import Fit
from tenfold.fuse.result import FitResult
from tenfold.fuse.stopping import EarlyStopping
from tenfold.journal import fingerprint
from tenfold.plan.groups import cut
from tenfold.search import folds as folding
from tenfold.search import pruners, suggestions
from tenfold.search.course import Course, Search
from tenfold.search.fits import Fits
from tenfold.search.objective import Objective
from tenfold.search.objective import objective as reading
from tenfold.search.population import Pbt, Population
from tenfold.search.space import Space
from tenfold.search.suggestions import Suggestions
from tenfold.search.trial import Trial
from tenfold.search.trying import Trying
from tenfold.verbs import grouped
from tenfold.verbs.call import Call, Settings, opened
from tenfold.work import seeds
from tenfold.work.here import SHARED, folder_of
from tenfold.work.leg import Leg

AT_ONCE = 16  # trials that a sampler suggests before it is told of the first: the same on every machine


def tune(
    task: Callable[[Any], Any],
    space: Mapping[str, Any],
    *,
    trials: int | None = None,
    objective: str | list[str] | tuple[str, ...] | None = None,
    direction: str | list[str] | tuple[str, ...] | None = None,
    sampler: Any = None,
    pruner: Any = None,
    cv: Any = None,
    steps: int | None = None,
    at_once: int | None = None,
    asynchronous: bool = False,
    cpus: float = 1,
    gpus: float = 0,
    memory: int | str | None = None,
    workers: int | None = None,
    isolate: bool | None = None,
    retries: int = 0,
    timeout: float | None = None,
    seed: int = 0,
    engine: object = None,
    run: str | os.PathLike[str] | None = None,
    fresh: bool = False,
    progress: bool | None = None,
) -> Study:
    """Try parameters from `space`, and return the study of how they did.

    task            a `Fit`, or a function of a dict of parameters that reports with `here().report(step, loss=...)`,
                    or returns a number or a dict of numbers
    space           name -> tenfold.uniform, loguniform, integer, logint, choice, constant, or a list of values
    trials          how many; a grid has as many as it has points
    objective       what is looked for: a name in the history, the reports, or the returned dict; or several
    direction       "minimize" or "maximize"; by the objective's name where it is not given (more accuracy is better)
    sampler         "tpe", "random", "grid", "qmc", "gp", "cma-es", "nsga", "pbt", or a sampler of Optuna's
    pruner          "asha", "hyperband", "median", "patience", or such as tenfold.Asha(factor=4)
    cv              of a Fit: folds that are held out in turn; their mean counts
    steps           of a function: how often a trial reports in all, for pruners that divide it
    at_once         trials that are suggested before the first of them is told of
    asynchronous    suggest as trials end, whoever is first: never waits, and is another study every time

    The others are those of `tenfold.map`. With `run=`, a call that was killed goes on with the same trials.
    """
    settings = Settings(cpus, gpus, memory, workers, isolate, retries, timeout, seed, engine, run, fresh, progress)
    wanted = _wanted(task, space, trials, objective, direction, sampler, pruner, cv, steps, at_once, asynchronous, seed)
    faults = [*wanted.faults, *settings.faults()]
    if faults:
        raise BadCall("; ".join(faults))
    _try_one(wanted, seed)
    with opened("tune", wanted.task, settings, total=None, on_error="collect", parts=wanted.parts()) as call:
        suggested = Suggestions(wanted.space, wanted.source, seed, wanted.objective.directions)
        course = wanted.course(suggested, seed, call)
        feed = _feed(wanted, course, call)
        call.run(lambda: _crew(wanted, call, feed), feed)
        course.close()
        call.journal.set_meta(count=str(feed.drawn))
        if isinstance(wanted.task, Fits) and not any(trial.state == "failed" for trial in course.trials):
            wanted.task.finished(Path(call.job.folder) / SHARED)
    received = wanted.task.received if isinstance(wanted.task, Fits) else None
    results = Results(
        call.journal, feed.drawn, seconds=call.watch.seconds, workers=len(call.plan.seats), received=received
    )
    refit = _refit(wanted.task, seed) if isinstance(wanted.task, Fits) and wanted.folds else None
    return Study(course.trials, wanted.objective, suggested, results, refit)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What the caller has asked for, looked at."""

    task: Fits | Trying
    """What is called with legs."""
    space: Space
    """What may be tried."""
    trials: int | None
    """How many."""
    objective: Objective
    """What is looked for."""
    sampler: Any
    """A name, an object of Optuna's, or `Pbt`."""
    pruner: Any
    """Settings of one; None where all trials come to their end."""
    folds: int | None
    """How many."""
    steps: int | None
    """Of a trial."""
    at_once: int
    """Trials under way."""
    asynchronous: bool
    """In whatever order."""
    faults: list[str]
    """What is wrong, in words."""

    @property
    def source(self) -> Any:
        """What suggests."""
        return "random" if isinstance(self.sampler, Pbt) else self.sampler

    def parts(self) -> dict[str, str]:
        """What identifies the study besides its task."""
        named = self.sampler if isinstance(self.sampler, str | Pbt) else type(self.sampler).__name__
        return {
            "space": fingerprint.of_value(repr(self.space)).hex(),
            "trials": str(self.trials),
            "objective": str(self.objective),
            "sampler": str(named),
            "pruner": str(self.pruner),
            "at_once": str(self.at_once),
            "asynchronous": str(self.asynchronous),
        }

    def course(self, suggested: Suggestions, seed: int, call: Call) -> Course:
        is_fit = isinstance(self.task, Fits)
        name, sign = self.objective.names[0], self.objective.sign
        if isinstance(self.sampler, Pbt):
            assert self.trials is not None
            assert self.steps is not None
            return Population(
                self.space,
                suggested,
                self.sampler,
                trials=self.trials,
                steps=self.steps,
                folds=self.folds,
                objective=name,
                sign=sign,
                numbered=is_fit,
                seed=seed,
                take_over=lambda trial, donor, step: None if is_fit else _copy_files(call, trial, donor, step),
            )
        decides = self.pruner.pruner(self.steps) if self.pruner is not None else pruners.Never()
        return Search(
            suggested, decides, trials=self.trials, folds=self.folds, objective=name, sign=sign, numbered=is_fit
        )


def _wanted(
    task: Any,
    space: Any,
    trials: Any,
    objective: Any,
    direction: Any,
    sampler: Any,
    pruner: Any,
    cv: Any,
    steps: Any,
    at_once: Any,
    asynchronous: bool,
    seed: int,
) -> _Wanted:
    faults = [] if callable(task) else [f"task={task!r}: expected a Fit, or a function of a dict of parameters"]
    for name, value in (("trials", trials), ("steps", steps), ("at_once", at_once)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            faults.append(f"{name}={value!r}: expected a whole number above 0")
    found = Space(space)
    sampler = sampler or ("grid" if trials is None and found.is_grid else "tpe")
    sampler = Pbt() if sampler == "pbt" else sampler
    fit = task if isinstance(task, Fit) else None
    looked_for, wrong = reading(objective, direction, _default_objective(fit, cv))
    faults += wrong
    steps = fit.epochs if fit is not None else steps
    if isinstance(sampler, Pbt):
        faults += sampler.faults(trials, steps)
    else:
        faults += suggestions.check(sampler, found, trials, len(looked_for.names))
    pruner = pruners.chosen(pruner)
    faults += pruners.check(pruner)
    faults += _faults_together(fit, pruner, sampler, cv, steps, looked_for)
    parts = None
    if fit is not None:
        parts = folding.folds(cv, fit.data.x, fit.data.y, len(fit.data), seed) if cv is not None else None
        if isinstance(pruner, pruners.Patience) and not faults:
            fit, pruner = _patient(fit, pruner, looked_for), None
    uninformed = sampler in suggestions.UNINFORMED or isinstance(sampler, Pbt)
    most = at_once or (10**9 if uninformed else AT_ONCE)
    wrapped = Fits(fit, parts) if fit is not None else Trying(task)
    few = len(parts) if parts else None
    return _Wanted(wrapped, found, trials, looked_for, sampler, pruner, few, steps, most, asynchronous, faults)


def _faults_together(
    fit: Fit | None, pruner: Any, sampler: Any, cv: Any, steps: Any, looked_for: Objective
) -> list[str]:
    """What does not go with what."""
    found = []
    if cv is not None and fit is None:
        found.append("cv=: folds are of a Fit; a function divides its rows itself")
    if cv is not None and fit is not None and fit.data.streams:
        found.append("cv=: folds need data that fits in memory, and this is streamed")
    if cv is not None and isinstance(pruner, pruners.Median):
        found.append("pruner=Median with cv=: folds would be stopped one by one; take Asha, which compares their means")
    if len(looked_for.names) > 1 and (pruner is not None or isinstance(sampler, Pbt)):
        found.append("objective=: with several, trials cannot be pruned; leave pruner= out")
    if getattr(pruner, "needs_steps", False) and steps is None:
        found.append(f"steps=None: {type(pruner).__name__} has to know how often a trial reports in all; give steps=")
    if pruner is not None and isinstance(sampler, Pbt):
        found.append("pruner=: with sampler='pbt', all trials go on; leave it out")
    if isinstance(pruner, pruners.Patience) and fit is not None and fit.stopping is not None:
        found.append("pruner=Patience: the Fit has an EarlyStopping already; leave one of them out")
    return found


def _default_objective(fit: Fit | None, cv: Any) -> str | None:
    if fit is None:
        return None
    scored = fit.validation is not None or fit.validation_columns is not None or cv is not None
    return "val_loss" if scored else "loss"


def _patient(fit: Fit, pruner: pruners.Patience, looked_for: Objective) -> Fit:
    """A model that stops improving is given back as it was at its best."""
    found = copy.copy(fit)
    mode = "max" if looked_for.sign < 0 else "min"
    found.stopping = EarlyStopping(str(looked_for.names[0]), pruner.steps, pruner.min_delta, mode)
    return found


def _try_one(wanted: _Wanted, seed: int) -> None:
    """Refuse parameters that the task cannot take, before anything starts."""
    if isinstance(wanted.task, Fits):
        source = "grid" if wanted.sampler == "grid" else "random"
        params = Suggestions(wanted.space, source, seed, ["minimize"]).ask()
        wanted.task.check([Leg(0, params or {}, None)])


# -- running ----------------------------------------------------------------------------------------------------------


def _feed(wanted: _Wanted, course: Course, call: Call) -> CourseFeed:
    task, workers = wanted.task, len(call.plan.seats)
    together = isinstance(task, Fits) and grouped.refusal(task, call) is None

    def groups(legs: dict[int, Leg]) -> list[list[int]]:
        if not together or not isinstance(task, Fits):
            return [[index] for index in legs]
        return cut({index: task.likeness(leg) for index, leg in legs.items()}, workers)

    def told() -> None:
        call.watch.headline = _headline(course.trials, wanted)

    at_once = min(wanted.at_once, 2 * workers) if wanted.asynchronous and not together else wanted.at_once
    manner = Manner(at_once, whole=together and not wanted.asynchronous, in_order=not wanted.asynchronous)
    resumable = call.journal.folder is not None
    read = wanted.objective.read
    return CourseFeed(course, call.journal, manner, resumable=resumable, cut=groups, read=read, told=told)


def _crew(wanted: _Wanted, call: Call, feed: CourseFeed) -> Crew:
    task = wanted.task
    job = replace(call.job, scratch=False)  # files of a trial's folder come home, for its next leg
    if not isinstance(task, Fits):
        return call.crew(task, job)
    if grouped.refusal(task, call) is not None:
        return call.crew(task.alone({}), job)
    together = call.crew(task, grouped.job_of_groups(task, call))
    return Pair(together, lambda: call.crew(task.alone({}), job), lambda batch: batch.trials[0] in feed.loners)


def _headline(trials: list[Trial], wanted: _Wanted) -> str:
    complete = [trial for trial in trials if trial.values is not None]
    if not complete or len(wanted.objective.names) > 1:
        return f"{len(trials)} trials"
    best = min(complete, key=lambda trial: (wanted.objective.sign * trial.value, trial.number))
    name = wanted.objective.names[0] or "value"
    return f"{len(trials)} trials, best {name} {best.value:.4g} (trial {best.number}: {shown(best.params)})"


def _copy_files(call: Call, trial: int, donor: int, step: int) -> None:
    """A trial goes on with another's files; once, however often the study is repeated."""
    done = Path(call.job.folder) / SHARED / "taken" / f"{trial:06d}-{step}"
    if done.exists():
        return
    source, target = folder_of(call.job.folder, donor), folder_of(call.job.folder, trial)
    shutil.rmtree(target, ignore_errors=True)
    if source.is_dir():
        shutil.copytree(source, target)
    done.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    done.touch()


def _refit(task: Fits, seed: int) -> Callable[[Trial], FitResult]:
    """Train a trial's model on all rows, here and now."""

    def refit(trial: Trial) -> FitResult:
        result = task.fit({"seed": seeds.number(seed, trial.number), **trial.params})
        return task.received(result)  # type: ignore[no-any-return]

    return refit
