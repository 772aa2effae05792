"""Whether a model has room, on invented machines: also where nobody has said how much memory a worker has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch._dynamo  # noqa: F401  # the first optimizer would, which sets an environment variable in a test

import tenfold
from tenfold.errors import DoesNotFit
from tenfold.machine import Gpu, Machine
from tenfold.plan.needs import Needs
from tenfold.plan.seats import cut
from tenfold.training import room

GB = 10**9
MACHINE = Machine((0, 1, 2, 3), 4.0, 16 * GB, (Gpu("0", "invented", 8 * GB), Gpu("1", "invented", 8 * GB)))


class Adam:
    """It remembers two numbers for each parameter."""


def learner(parameters: int) -> Any:
    return SimpleNamespace(weights_size=parameters, optimizer=Adam())


def rooms(needs: Needs, workers: int) -> list[room.Room]:
    return [room.of(seat, MACHINE, workers) for seat in cut(MACHINE, needs, workers)]


def test_workers_share_the_memory_of_their_machine() -> None:
    for workers in (1, 2, 4):
        for found in rooms(Needs(cpus=1), workers):
            assert found.memory == 16 * GB // workers
    found = rooms(Needs(cpus=1), 4)[0]
    room.check(learner(250_000_000), found)  # 4 GB: weights, gradients and Adam's two
    with pytest.raises(DoesNotFit) as caught:
        room.check(learner(251_000_000), found)
    assert str(caught.value) == (
        "16.0 GB on the machine, for 4 workers: the model has 251,000,000 parameters, and each worker would hold all "
        "of them, their gradients and 2 numbers of the optimizer's for each: about 4.0 GB. Give more memory, or train "
        'with how="sharded", where each worker holds a part'
    )
    room.check(learner(251_000_000), rooms(Needs(cpus=1), 2)[0])


def build() -> Any:
    """In a worker, on a machine that is smaller than it is: 1,001,000 parameters, and room for 937,500."""
    import torch

    from tenfold import machine

    machine.look = lambda: Machine((0,), 1.0, 30_000_000, ())
    module = torch.nn.Linear(1000, 1000)
    return module, torch.nn.MSELoss(), torch.optim.Adam(module.parameters())


def test_workers_refuse_what_they_have_no_room_for() -> None:
    data = numpy.zeros((8, 1000), "float32")
    fit = tenfold.Fit(build, (data, data), epochs=1)
    tenfold.train(fit, {"seed": 1}, workers=1, progress=False)
    with pytest.raises(DoesNotFit, match=r'30\.0 MB on the machine, for 2 workers: .* train with how="sharded"'):
        tenfold.train(fit, {"seed": 1}, workers=2, retries=0, progress=False)


def test_a_gpu_has_memory_of_its_own() -> None:
    whole, other = rooms(Needs(cpus=1, gpus=1), 2)
    assert whole.memory == other.memory == 8 * GB
    half = rooms(Needs(cpus=1, gpus=0.5), 4)[0]
    with pytest.raises(DoesNotFit, match=r"4\.0 GB on a GPU: the model has 300,000,000 parameters"):
        room.check(learner(300_000_000), half)
    room.check(learner(300_000_000), whole)


def test_what_was_asked_for_counts_first() -> None:
    found = rooms(Needs(cpus=1, memory=GB), 2)[0]
    with pytest.raises(DoesNotFit, match=r"memory=1\.0 GB: the model has 50,000,000 parameters"):
        room.check(learner(50_000_000), found)
