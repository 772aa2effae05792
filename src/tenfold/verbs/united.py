"""`tenfold.train(exchange="framework")`: one model on the devices of several processes.

They add up gradients by the framework's own collectives. They start together, and start together again from the last
checkpoint when one of them is lost.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from tenfold.dispatch.using import choice
from tenfold.errors import BadCall, TasksFailed
from tenfold.fuse.fit import Fit
from tenfold.nursery import used
from tenfold.training import opening
from tenfold.training.in_group import InGroup
from tenfold.training.terms import Terms
from tenfold.training.trained import Trained
from tenfold.verbs.call import Settings
from tenfold.verbs.lasting import lasting
from tenfold.verbs.launch import engine_faults

FRAMEWORK = "framework"


def train(terms: Terms, settings: Settings) -> Trained:
    """By `settings.workers`."""
    engine = choice(settings.engine, None).engine
    if faults := engine_faults(engine):
        raise BadCall("; ".join(faults))
    how = f"in a group of {settings.workers}, accumulate={terms.accumulate}, clip={terms.clip}"
    frameworks = {*used.members(terms.fit), "keras"}
    try:
        done = lasting(InGroup(terms), replace(settings, engine=engine), sorted(frameworks), how=how, parts=1)
    except TasksFailed as error:
        if isinstance(error.__cause__, BadCall):  # seen only where the model was built
            raise error.__cause__ from None
        raise
    trained = cast("Trained", done.value)
    terms.fit.received(trained.result)
    return replace(trained, plan=done.plan, events=done.events, seconds=done.seconds)


def faults(fit: object, workers: object, devices: object) -> list[str]:
    """What is wrong with a call that asks for it."""
    found = []
    if workers is None:
        found.append('exchange="framework": give workers=, such as one for each GPU')
    if devices is not None:
        found.append(f'devices={devices}: not with exchange="framework", where the GPUs of a worker are its devices')
    if not isinstance(fit, Fit):
        return found
    if opening.on_torch(fit) or ("keras" in used.members(fit) and opening.keras_backend() == "torch"):
        found.append(opening.no_group())
    return found
