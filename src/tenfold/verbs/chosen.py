"""`tenfold.train` without `workers=`: how many is found out by timing the first steps of real trainings.

One worker with everything begins. When its first steps are timed, it goes on; or, where much is left, it is sent away,
and one with fewer cores begins, or more workers, or one with several devices. Whoever is the fastest trains to the end.
Each begins anew, so what was only tried counts for nothing. Fewer cores are another process, too: TensorFlow and XLA
have as many threads as they started with, and to pin those to one core made them no faster.
"""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass, field, replace
from pathlib import Path

from tenfold import machine
from tenfold.dispatch.using import choice
from tenfold.errors import BadCall, TasksFailed
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
    """What could be tried, in that order."""
    verdict: Verdict
    """What is done next."""
    timings: dict[Candidate, Timing] = field(default_factory=dict)
    """Of those that were."""

    def begin(self, journal: Journal) -> Judge | None:
        """The next number of workers is about to start; who is asked when they are timed."""
        if not self.verdict.settled:
            return functools.partial(self._judge, journal)
        self._remember(journal)
        return None

    def _judge(self, journal: Journal, timing: Timing) -> bool:
        tried = self.verdict.candidate
        self.timings[tried] = timing
        self.verdict = decide(self.among, self.timings)
        stays = self.verdict.settled and self.verdict.candidate == tried
        if stays:
            self._remember(journal)
        return stays

    def give_up(self, why: str) -> None:
        """Those who were tried last could not train at all; it is the best of the others."""
        failed = self.verdict.candidate
        self.among = list(self.timings)
        best = decide(self.among, self.timings)
        self.verdict = replace(best, why=f"{best.why}; {failed}: {why}")

    def _remember(self, journal: Journal) -> None:
        """A run that goes on after a kill does so with the same number, and as many cores and devices."""
        candidate = self.verdict.candidate
        workers, cpus, devices = str(candidate.workers), repr(candidate.cpus), str(candidate.devices)
        journal.set_meta(count=workers, workers=workers, cpus=cpus, devices=devices, choice=self.verdict.why)

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
        settings = replace(settings, cpus=candidate.cpus, gpus=candidate.gpus, workers=candidate.workers)
        devices = candidate.devices if candidate.devices > 1 else None
        try:
            ended = heat.train(replace(terms, chosen=True, devices=devices), settings, choosing.begin)
        except (TasksFailed, BadCall) as error:
            if choosing.verdict.settled or not choosing.timings:
                raise
            choosing.give_up(str(error).splitlines()[0])
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
        count, kept, why = journal.meta("workers"), journal.meta("cpus"), journal.meta("choice")
        devices = int(journal.meta("devices") or 1)  # of a run from before there were any
    if count is None:
        return None
    whole = machine.look().cpus  # fewer than there were, perhaps
    each = cpus or min(float(kept or whole), share(whole, int(count)))
    gpus = devices if devices > 1 and settings.gpus else settings.gpus
    candidate = Candidate(int(count), each, gpus, devices)
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
    return Choosing(found, decide(found, {}))
