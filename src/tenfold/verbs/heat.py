"""One model by a given number of workers: to the end, or until its first steps say that another number is better."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from tenfold.dispatch.feed import Feed
from tenfold.dispatch.pace import Pace
from tenfold.dispatch.results import Results
from tenfold.errors import Abandoned, BadCall
from tenfold.journal.store import Journal
from tenfold.training.checkpoint import Checkpoint
from tenfold.training.rendezvous import Blame
from tenfold.training.roll import Judge, Roll
from tenfold.training.terms import Terms
from tenfold.training.trained import Trained
from tenfold.training.wires import Ticket
from tenfold.training.worker import Worker
from tenfold.verbs.call import Call, Settings, opened
from tenfold.verbs.launch import raise_failure, summary
from tenfold.verbs.serving import Servers

Begin = Callable[[Journal], Judge | None]
"""Called before workers start, with what is kept; returns who is asked when their first steps are timed."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of it."""

    trained: Trained | None
    """None where the workers were sent away."""
    seconds: float
    """From the first worker's start to the end."""


def train(terms: Terms, settings: Settings, begin: Begin | None = None) -> Ended:
    """By `settings.workers`; the ticket of `terms` is made here."""
    count = settings.workers or 1
    terms = replace(terms, ticket=Ticket("", (), 0, b"", count))
    total = None if terms.chosen else count  # a run goes on with the number that was chosen
    with opened("train", Worker(terms), settings, total=total, on_error="collect", parts={}) as call:
        call.check_all_at_once(count)
        judge = None if begin is None else begin(call.journal)
        roll = _run(call, terms, judge)
    if roll.left:
        call.journal.close()
        return Ended(None, call.watch.seconds)
    results = Results(call.journal, count, seconds=call.watch.seconds, workers=count)
    found = [value for value in (roll.result, *results) if isinstance(value, Trained)]
    if not found:
        _raise_first(results)
    terms.fit.received(found[0].result)
    plan, seconds = str(call.plan), call.watch.seconds
    return Ended(replace(found[0], plan=plan, events=tuple(roll.events), seconds=seconds), seconds)


def _run(call: Call, terms: Terms, judge: Judge | None) -> Roll:
    """All workers, to the end; the roll knows what became of them."""
    count = terms.ticket.count
    # One task a worker, or they would wait for each other for ever. What one raises, the others raise as well; and one
    # that took too long would begin its time anew.
    pace = Pace(call.engine.abilities.seconds_per_batch, one_by_one=True)
    call = replace(call, pace=pace, policy=replace(call.policy, raised_again=False))
    folder = call.journal.folder
    checkpoint = Checkpoint(None if folder is None else folder.checkpoint)
    everywhere = any(seat.machine for seat in call.plan.seats)
    servers = Servers(call, count)
    start = servers.start if terms.how == "asynchronous" and not terms.average_every else None
    roll = Roll(count, checkpoint, everywhere=everywhere, judge=judge, start_servers=start)
    with contextlib.closing(servers), contextlib.closing(roll):
        # Those who were journalled as finished when the caller was killed begin again with the others, who need them;
        # unless what has been made is there.
        feed = Feed(range(0 if _is_over(call.journal) else count), call.journal, resumable=False)
        beside = Counter(seat.machine for seat in call.plan.seats)
        task = Worker(replace(terms, ticket=roll.ticket, beside=dict(beside)))
        call.run(lambda: call.crew(task, replace(call.job, together=True)), feed)
    if not roll.left:
        before = json.loads(call.journal.meta("events") or "[]")
        call.journal.set_meta(count=str(count), events=json.dumps([*before, *roll.events]))
    return roll


def _is_over(journal: Journal) -> bool:
    """Whether the worker has returned that has the result: in an earlier call."""
    return any(isinstance(outcome.value, Trained) for outcome in journal.outcomes(ok=True))


def _raise_first(results: Results) -> None:
    """What one of those has to say who did not fail because of another."""
    failures = results.failures
    first = next((error for error in failures if not isinstance(error.__cause__, Abandoned)), failures[0])
    cause = first.__cause__
    if isinstance(cause, BadCall):  # seen only where the model was built
        raise cause from None
    raise_failure(results, Blame(first.index, summary(first) if cause is None else f"{type(cause).__name__}: {cause}"))
