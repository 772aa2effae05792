"""`tenfold.train` without `workers=`: how many is found out by timing the first steps of real trainings.

One worker with everything begins. When its first steps are timed, it goes on; or, where much is left, it is sent away,
and more workers begin. Whoever is the fastest trains to the end. Each begins anew, so what was only tried counts for
nothing.
"""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass, field, replace
from pathlib import Path

from tenfold import machine
from tenfold.dispatch.using import choice
from tenfold.errors import TasksFailed
from tenfold.journal.folder import Folder, is_run
from tenfold.journal.store import Journal
from tenfold.plan.needs import needs
from tenfold.plan.workers import Candidate, Timing, Verdict, candidates, decide, share
from tenfold.training.roll import Judge
from tenfold.training.terms import Terms
from tenfold.training.trained import Trained
from tenfold.verbs import heat
from tenfold.verbs.call import Settings


@dataclass(slots=True)
class Choosing:
    """What is known about the number of workers."""

    among: list[Candidate]
    """The numbers that could be tried, in that order."""
    verdict: Verdict
    """What is done next."""
    timings: list[Timing] = field(default_factory=list)
    """Of the first of them."""

    def begin(self, journal: Journal) -> Judge | None:
        """The next number of workers is about to start; who is asked when they are timed."""
        if not self.verdict.settled:
            return functools.partial(self._judge, journal)
        self._remember(journal)
        return None

    def _judge(self, journal: Journal, timing: Timing) -> bool:
        tried = self.verdict.candidate
        self.timings.append(timing)
        self.verdict = decide(self.among, self.timings)
        stays = self.verdict.settled and self.verdict.candidate == tried
        if stays:
            self._remember(journal)
        return stays

    def give_up(self, why: str) -> None:
        """Those who were tried last could not train at all; it is the best of the others."""
        failed = self.verdict.candidate
        self.among = self.among[: len(self.timings)]
        best = decide(self.among, self.timings)
        self.verdict = replace(best, why=f"{best.why}; {failed}: {why}")

    def _remember(self, journal: Journal) -> None:
        """A run that goes on after a kill does so with the same number."""
        workers = str(self.verdict.candidate.workers)
        journal.set_meta(count=workers, workers=workers, choice=self.verdict.why)

    @property
    def why(self) -> str:
        """In words, when all is over."""
        verdict = self.verdict
        return verdict.why if verdict.settled else f"{verdict.candidate}: it was over before its steps were timed"


def train(terms: Terms, settings: Settings, cpus: float | None) -> Trained:
    """To the end, by the number of workers that is the fastest; `cpus` are those that were asked for."""
    chosen = choice(settings.engine, None)
    settings = replace(settings, engine=chosen.engine)
    choosing = _kept(settings, cpus) or _open(settings, cpus, chosen.workers)
    seconds = 0.0
    while True:
        candidate = choosing.verdict.candidate
        settings = replace(settings, cpus=candidate.cpus, workers=candidate.workers)
        try:
            ended = heat.train(replace(terms, chosen=True), settings, choosing.begin)
        except TasksFailed as error:
            if choosing.verdict.settled or not choosing.timings:
                raise
            choosing.give_up(str(error.failures[0]).splitlines()[0])
        else:
            seconds += ended.seconds
            if ended.trained is not None:
                return replace(ended.trained, plan=f"{ended.trained.plan}\n{choosing.why}", seconds=seconds)
        settings = replace(settings, fresh=settings.run is not None)  # what was tried has left nothing of worth


def _kept(settings: Settings, cpus: float | None) -> Choosing | None:
    """What an earlier call has chosen for this run."""
    if settings.run is None or settings.fresh or not is_run(Path(settings.run)):
        return None
    with contextlib.closing(Journal(Folder(settings.run), read_only=True)) as journal:
        count, why = journal.meta("workers"), journal.meta("choice")
    if count is None:
        return None
    candidate = Candidate(int(count), cpus or share(machine.look().cpus, int(count)), settings.gpus)
    return Choosing([candidate], Verdict(candidate, settled=True, why=why or ""))


def _open(settings: Settings, cpus: float | None, most: int | None) -> Choosing:
    """Everything that could be tried here; or one worker, and why it is not measured."""
    wanted = needs(settings.cpus, settings.gpus, settings.memory)
    engine = choice(settings.engine, None).engine
    machines = engine.machines()
    why = ""
    if not engine.abilities.parallel or not engine.abilities.processes:
        why = "1 worker, because this engine has no processes for more"
    elif len(machines) != 1:
        why = f"1 worker: how fast more are on {len(machines)} machines is not measured; workers= says how many"
    if why:
        one = Candidate(1, settings.cpus, settings.gpus)
        return Choosing([one], Verdict(one, settled=True, why=why))
    found = candidates(machines[0], wanted, cpus, most)
    return Choosing(found, decide(found, ()))
