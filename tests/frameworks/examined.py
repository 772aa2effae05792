"""Run by test_frameworks_contract.py, in an interpreter of its own: one member, before, during and after its import.

    python examined.py torch

Prints one line of JSON: what each step found, or the traceback where it failed.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

from tenfold import frameworks
from tenfold.machine import installed
from tenfold.plan.seats import GpuShare, Seat
from tenfold.work import seeds

SEATS = {
    "one core": Seat(0, 1, (0,)),
    "three cores": Seat(1, 3, (0, 1, 2)),
    "a part of a core": Seat(2, 0.25, ()),
    "a GPU": Seat(3, 1, (), (GpuShare("0", 1.0),)),
    "a part of a GPU": Seat(4, 1, (), (GpuShare("1", 0.3),), 1 << 30),
    "two GPUs": Seat(5, 2, (), (GpuShare("GPU-a", 1.0), GpuShare("GPU-b", 1.0))),
}


def draw_numpy() -> list[float]:
    import numpy

    return numpy.random.rand(4).tolist()


def draw_torch() -> list[float]:
    import torch

    return torch.rand(4).tolist()


def draw_tensorflow() -> list[float]:
    import tensorflow

    return tensorflow.random.uniform([4]).numpy().tolist()


def draw_keras() -> list[float]:
    import keras

    return keras.ops.convert_to_numpy(keras.random.uniform((4,))).tolist()


def draw_cupy() -> list[float]:
    import cupy

    return cupy.random.rand(4).tolist()


DRAWS: dict[str, Callable[[], list[float]]] = {
    "numpy": draw_numpy,
    "sklearn": draw_numpy,  # its estimators use NumPy's global random numbers
    "torch": draw_torch,
    "tensorflow": draw_tensorflow,
    "keras": draw_keras,
    "cupy": draw_cupy,
}


def use_jax() -> None:
    import jax.numpy

    jax.numpy.zeros(2).block_until_ready()


USES: dict[str, Callable[[], Any]] = {"jax": use_jax, "tensorflow": draw_tensorflow}
"""Those whose first use starts what must not be forked."""


class Examined:
    """Each method is a step; they run in this order, and the next ones run whatever becomes of one."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._member = frameworks.every()[name]

    def variables(self) -> dict[str, Any]:
        found = {seat: self._member.variables(SEATS[seat]) for seat in SEATS}
        heads = [member.modules[0] for member in frameworks.every().values()]
        return {"found": found, "imported": [head for head in heads if head in sys.modules]}

    def before_the_import(self) -> bool:
        return frameworks.is_imported(self._member)

    def imports(self) -> list[str]:
        if installed.version(*self._member.distributions) is None:
            raise NotInstalled(f"none of {', '.join(self._member.distributions)} is installed")
        for module in self._member.modules:
            importlib.import_module(module)
        return [module for module in self._member.modules if module in sys.modules]

    def after_the_import(self) -> bool:
        self._needs_it()
        return frameworks.is_imported(self._member)

    def started_after_the_import(self) -> bool:
        self._needs_it()
        return self._member.started()

    def safe_to_fork(self) -> str | None:
        self._needs_it()
        from tenfold.nursery.alone import unsafe

        return unsafe()

    def reducers(self) -> list[Any]:
        self._needs_it()
        table = self._member.reducers()
        return [[isinstance(kind, type), callable(reducer)] for kind, reducer in table.items()]

    def settles(self) -> list[str]:
        self._needs_it()
        undone = []
        for seat in ("three cores", "one core"):
            undo = self._member.settle(SEATS[seat])
            undone.append("nothing" if undo is None else "undone")
            if undo is not None:
                undo()
        return undone

    def seeds(self) -> list[list[float]] | None:
        self._needs_it()
        draw = DRAWS.get(self._name)
        if draw is None:
            self._member.seed(5)
            return None
        drawn = []
        for seed in (5, 5, 6, 2**32 - 1, 0):
            seeds.plant(seed)
            drawn.append(draw())
        return drawn

    def restores(self) -> list[list[float]] | None:
        self._needs_it()
        draw = DRAWS.get(self._name)
        if draw is None:
            return None
        seeds.plant(5)
        expected = [draw(), draw()]
        seeds.plant(5)
        found = [draw()]
        with seeds.restored():
            seeds.plant(77)
            draw()
        found.append(draw())
        return [*expected, *found]

    def started_after_use(self) -> bool | None:
        self._needs_it()
        use = USES.get(self._name)
        if use is None:
            return None
        use()
        return self._member.started()

    def _needs_it(self) -> None:
        if self._member.modules[0] not in sys.modules:
            raise NotInstalled(f"none of {', '.join(self._member.distributions)} is installed")


class NotInstalled(Exception):
    """The framework is not here."""


def main(name: str) -> None:
    examined = Examined(name)
    told: dict[str, Any] = {}
    for step in [step for step in vars(Examined) if not step.startswith("_")]:
        try:
            told[step] = {"found": getattr(examined, step)()}
        except NotInstalled as error:
            told[step] = {"missing": str(error)}
        except BaseException:
            told[step] = {"failed": traceback.format_exc()}
    sys.stdout.write("\n" + json.dumps(told) + "\n")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
