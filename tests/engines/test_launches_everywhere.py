"""The workers of a launch find each other on every engine that has processes, and end together."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import pytest

import tenfold
from tenfold.errors import BadCall, TasksFailed
from tenfold.plan.choose import Abilities


def in_torch() -> tuple[int, float]:
    import torch
    from torch import distributed

    vector = torch.full((1,), tenfold.here().rank + 1.0)
    distributed.all_reduce(vector)
    tenfold.here().report(0, sum=vector)
    return tenfold.here().rank, float(vector)


def in_jax() -> tuple[int, float]:
    import jax
    from jax.experimental import multihost_utils

    own = jax.numpy.array([tenfold.here().rank + 1.0])
    return jax.process_count(), float(multihost_utils.process_allgather(own).sum())


def in_tensorflow() -> tuple[int, float]:
    import tensorflow

    strategy = tensorflow.distribute.MultiWorkerMirroredStrategy()
    own = tensorflow.constant(tenfold.here().rank + 1.0)
    found = strategy.run(lambda: tensorflow.distribute.get_replica_context().all_reduce("sum", own))
    return strategy.num_replicas_in_sync, float(found)


def fall(how: str) -> None:
    if tenfold.here().rank == 1:
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise KeyError("mislaid")
    threading.Event().wait(120)


def launches(engine: str, abilities: Abilities) -> bool:
    """Whether the engine can; one that cannot must say so."""
    if abilities.parallel and abilities.processes:
        return True
    with pytest.raises(BadCall, match="are processes that run at once"):
        tenfold.launch(in_torch, workers=2, engine=engine, progress=False)
    return False


def test_all_are_in_the_group(engine: str, abilities: Abilities) -> None:
    if launches(engine, abilities):
        assert tenfold.launch(in_torch, workers=2, engine=engine, progress=False) == [(0, 3.0), (1, 3.0)]


@pytest.mark.parametrize("function", [in_jax, in_tensorflow])
def test_groups_of_other_frameworks(engine: str, abilities: Abilities, function: Callable[[], object]) -> None:
    if engine == "joblib":
        pytest.skip("its workers import frameworks anew, which takes long; with PyTorch they are tested above")
    if launches(engine, abilities):
        assert tenfold.launch(function, workers=2, engine=engine, progress=False) == [(2, 3.0), (2, 3.0)]


@pytest.mark.parametrize(("how", "said"), [("kill", "ended without a word"), ("raise", "KeyError: 'mislaid'")])
def test_one_falls_and_all_are_ended(engine: str, abilities: Abilities, how: str, said: str) -> None:
    if launches(engine, abilities):
        with pytest.raises(TasksFailed, match=f"worker 1 of 2 failed first: .*{said}"):
            tenfold.launch(fall, {"how": how}, workers=2, engine=engine, progress=False)
