"""`tenfold.tune`: a search for good parameters, on every core, resumable, in groups where models can be fused."""

from __future__ import annotations

import copy
import math
import os
import shutil
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tenfold.dispatch.course import CourseFeed, Manner, known_legs
from tenfold.dispatch.pair import Pair
from tenfold.dispatch.results import Results
from tenfold.dispatch.study import Study, shown
from tenfold.engines import Crew
from tenfold.errors import RunDiffers
from tenfold.fuse.fit import ONLY_ON_JAX, Fit
from tenfold.fuse.result import FitResult
from tenfold.plan.groups import cut
from tenfold.search import pruners
from tenfold.search.course import Course, Search
from tenfold.search.fits import Fits
from tenfold.search.legs import Legs
from tenfold.search.objective import Objective
from tenfold.search.population import Pbt, Population
from tenfold.search.suggestions import Suggestions, is_informed
from tenfold.search.trial import Trial
from tenfold.verbs import grouped
from tenfold.verbs.call import Call, Settings, opened
from tenfold.verbs.wanted import Wanted, look
from tenfold.work import seeds
from tenfold.work.here import SHARED, folder_of
from tenfold.work.leg import Leg


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

    A function may be stopped in `here().report`, and called again to go on: it finds its files in `here().folder`. It
    should write its checkpoint before it reports a step, and report that step again when it goes on from it: so nothing
    is lost, whenever it is killed. A report that has come before does not count twice.
    """
    settings = Settings(cpus, gpus, memory, workers, isolate, retries, timeout, seed, engine, run, fresh, progress)
    wanted = look(
        task,
        space,
        trials=trials,
        objective=objective,
        direction=direction,
        sampler=sampler,
        pruner=pruner,
        cv=cv,
        steps=steps,
        at_once=at_once,
        asynchronous=asynchronous,
        seed=seed,
        others=settings.faults(),
    )
    _try_one(wanted, seed)
    with opened("tune", wanted.task, settings, total=None, on_error="collect", parts=wanted.parts()) as call:
        _check_length(call, wanted.trials)
        about = {"objective": wanted.objective.to_json(), "space": wanted.space.to_json()}
        call.journal.set_meta(trials=str(wanted.trials), **about)
        known = [leg for leg in known_legs(call.journal).values() if leg is not None] if asynchronous else []
        begun = {leg.trial: leg.params for leg in known if leg.start == 0}
        if asynchronous:
            _forget_files(call, begun)
        suggested = Suggestions(wanted.space, wanted.source, seed, wanted.objective.directions, begun)
        course = _course(wanted, suggested, seed, call, {(leg.trial, leg.start) for leg in known})
        feed = _feed(wanted, course, call)
        call.run(lambda: _crew(wanted, call), feed)
        feed.close()
        call.journal.set_meta(count=str(feed.drawn))
        if isinstance(wanted.task, Fits) and not any(trial.state == "failed" for trial in course.trials):
            wanted.task.finished(Path(call.job.folder) / SHARED)
    received = wanted.task.received if isinstance(wanted.task, Fits) else None
    results = Results(
        call.journal, feed.drawn, seconds=call.watch.seconds, workers=len(call.plan.seats), received=received
    )
    _tell_repeated(course.trials)
    _tell_backend(feed.declined.values())
    refit = _refit(wanted.task, seed) if isinstance(wanted.task, Fits) and wanted.folds else None
    return Study(course.trials, wanted.objective, suggested, results, refit)


def _tell_repeated(trials: list[Trial]) -> None:
    count = sum(trial.repeated for trial in trials)
    if count:
        warnings.warn(
            f"{count} of {len(trials)} trials began again from their first step where they were to go on. The results "
            "are right, but it took longer: keep a checkpoint in tenfold.here().folder, and go on from what is there",
            stacklevel=3,
        )


def _tell_backend(reasons: Collection[str]) -> None:
    told = next((reason for reason in reasons if reason.endswith(ONLY_ON_JAX)), None)
    if told is not None:
        warnings.warn(
            f"{told}. Each was trained alone, from other initial weights: this study is another one than "
            "on engines with processes. Set KERAS_BACKEND=jax before Keras is imported for the same",
            stacklevel=3,
        )


def _try_one(wanted: Wanted, seed: int) -> None:
    """Refuse parameters that the task cannot take, before anything starts."""
    if isinstance(wanted.task, Fits):
        source = "grid" if wanted.sampler == "grid" else "random"
        params = Suggestions(wanted.space, source, seed, ["minimize"]).ask()
        wanted.task.check([Leg(0, params or {}, None, fold=0 if wanted.folds else None)])


# -- running ----------------------------------------------------------------------------------------------------------


def _check_length(call: Call, trials: int | None) -> None:
    """A study may become longer; of a shorter one, the folder would tell what it does not have."""
    before = call.journal.meta("trials")
    if before is not None and trials is not None and (before == "None" or int(before) > trials):
        had = "all" if before == "None" else before
        raise RunDiffers(
            f"the run differs: trials={trials}, and there were {had}; a study can be made longer. "
            "Give run= another folder, or fresh=True to start this one anew"
        )


def _forget_files(call: Call, begun: Collection[int]) -> None:
    """Of trials that were under way when the study was stopped: without an order, others are suggested for them."""
    folder = Path(call.job.folder)
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.name.isdecimal() and int(path.name) not in begun:
            shutil.rmtree(path, ignore_errors=True)


def _course(
    wanted: Wanted, suggested: Suggestions, seed: int, call: Call, known: Collection[tuple[int, int]]
) -> Course:
    is_fit = isinstance(wanted.task, Fits)
    legs = Legs(wanted.objective.names[0], folds=wanted.folds, numbered=is_fit)
    sign = wanted.objective.sign
    if isinstance(wanted.sampler, Pbt):
        assert wanted.trials is not None
        assert wanted.steps is not None
        return Population(
            wanted.space,
            suggested,
            wanted.sampler,
            legs,
            trials=wanted.trials,
            steps=wanted.steps,
            sign=sign,
            seed=seed,
            take_over=lambda trial, donor, step: None if is_fit else _copy_files(call, trial, donor, step),
        )
    decides = wanted.pruner.pruner(wanted.steps) if wanted.pruner is not None else pruners.Never()
    return Search(suggested, decides, legs, trials=wanted.trials, sign=sign, known=known)


def _feed(wanted: Wanted, course: Course, call: Call) -> CourseFeed:
    task, workers = wanted.task, len(call.plan.seats)
    together = isinstance(task, Fits) and grouped.refusal(task, call) is None

    def groups(legs: dict[int, Leg]) -> list[list[int]]:
        if not together or not isinstance(task, Fits):
            return [[index] for index in legs]
        return cut({index: task.likeness(leg) for index, leg in legs.items()}, workers)

    def told() -> None:
        call.watch.headline = headline(course.trials, wanted.objective)

    at_once = min(wanted.at_once, 2 * workers) if wanted.asynchronous and not together else wanted.at_once
    in_order = not wanted.asynchronous
    again = wanted.plain and not is_informed(wanted.sampler)
    manner = Manner(at_once, whole=together and in_order, in_order=in_order, again=again)
    resumable = call.journal.folder is not None
    read = wanted.objective.read
    lighter = task.lighter if isinstance(task, Fits) else None
    return CourseFeed(
        course, call.journal, manner, resumable=resumable, cut=groups, read=read, told=told, lighter=lighter
    )


def _crew(wanted: Wanted, call: Call) -> Crew:
    task = wanted.task
    job = replace(call.job, scratch=False)  # files of a trial's folder come home, for its next leg
    if not isinstance(task, Fits):
        return call.crew(task, job)
    if grouped.refusal(task, call) is not None:
        return call.crew(task.alone({}), job)
    together = call.crew(task, grouped.job_of_groups(task, call))
    return Pair(together, lambda: call.crew(task.alone({}), job), lambda batch: batch.items[0].alone is not None)


def headline(trials: list[Trial], objective: Objective) -> str:
    """How far it is; and the best so far, of those that have come to their end if there are any."""
    known = [trial for trial in trials if not math.isnan(trial.value)]
    if not known or len(objective.names) > 1:
        return f"{len(trials)} trials"
    ended = [trial for trial in known if trial.state == "complete"] or known
    best = min(ended, key=lambda trial: (objective.sign * trial.value, trial.number))
    name = objective.names[0] or "value"
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
        fit = _without_held_out(task.fit, trial)
        return task.received(fit({"seed": seeds.number(seed, trial.number), **trial.params}))  # type: ignore[no-any-return]

    return refit


def _without_held_out(fit: Fit, trial: Trial) -> Fit:
    """Where no rows are held out, nothing says when to stop: then after as many epochs as the folds took on average."""
    if fit.stopping is None or fit.validation is not None or fit.validation_columns is not None:
        return fit
    ends = [one.epochs if one.best_epoch is None else one.best_epoch + 1 for one in trial.result]
    found = copy.copy(fit)
    found.stopping, found.epochs = None, round(sum(ends) / len(ends))
    return found
