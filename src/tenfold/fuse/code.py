"""In a worker: the compiled functions of one program, which `xla.Stack` calls. Workers compile one and share it.

Who comes to a function second waits for the lock of the first and finds what it compiled in the cache.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, cast

import numpy

from tenfold.fuse import program
from tenfold.fuse.blueprint import Blueprint, Built, State
from tenfold.fuse.columns import mapped
from tenfold.fuse.fewer import Fewer
from tenfold.work.run import Declined

LEVEL = "xla_backend_optimization_level"  # where the user has chosen one, it is theirs
OLDER = {"xla_cpu_use_fusion_emitters": False}
"""With XLA's older code for fused operations. A step that convolves is a third faster with it."""
_USUAL = {LEVEL: 1}
_HASTY = {LEVEL: 1, "xla_cpu_prefer_vector_width": 128}
_RARE = {LEVEL: 0, "xla_llvm_disable_expensive_passes": True, **OLDER}
PACES = {"usual": (_USUAL, _USUAL), "hasty": (_HASTY, _RARE), "brief": ({**_HASTY, **OLDER}, _RARE)}
"""Options on a CPU, for what runs in every step and for what runs once an epoch.

usual: compiled in three quarters of the time of level 3, and no slower in any of four models
hasty: for training of a few seconds: a fifth less to compile, and a tenth slower; what runs once an epoch, in a sixth
       of the time, and several times slower
brief: where most of that training is given up early: another third less, and 1.1 to 1.6 times as slow
"""


class Code:
    """The compiled functions of one program, for any number of models of it."""

    cache: Path
    """Where workers that compile the same program find each other; of the call that uses it."""

    def __init__(self, blueprint: Blueprint, batch_size: int, *, lifted: bool, pace: str) -> None:
        self.blueprint = blueprint
        self._identity = blueprint.traced("train", batch_size).key.hex()
        self.batch_size = batch_size
        self._lifted = lifted
        self._options = PACES[pace]
        self._compiled: dict[Any, Any] = {}
        self._claims: dict[str, IO[bytes]] = {}
        self.compiling = 0.0
        """Seconds spent on compilation."""
        self.took: dict[str, float] = {}
        """Seconds of each function's last one."""
        self.fewer = Fewer(self)

    @functools.cached_property
    def convolves(self) -> bool:
        return "conv_general_dilated" in self.blueprint.traced("train", self.batch_size).operations

    @property
    def training(self) -> str:
        """The function that trains: "advance", many steps in one call, or "step" by step.

        XLA has no fast form of convolutions in a loop, on CPUs: 130 steps/s of a small net, and 1,300 outside of one.
        """
        import jax

        return "step" if self.convolves and jax.default_backend() == "cpu" else "advance"

    def numbers(self, built: Built, name: str, rows: int) -> tuple[Any, ...]:
        """What distinguishes the program of one model from its neighbours'."""
        if not self._lifted:
            return ()
        derived = self._derived(built.blueprint, name, rows)
        if derived is not None:
            return derived
        found = built.blueprint.note(name, rows)
        if found.key != self.blueprint.note(name, rows).key:
            raise Declined(f"for a batch of {rows} rows it is another program than its neighbours")
        return found.numbers

    def _derived(self, own: Blueprint, name: str, rows: int) -> tuple[Any, ...] | None:
        """The numbers for a batch of another size, without a trace: half of what a model with numbers of its own costs.

        A number is the neighbours', or does not depend on the size; None where that cannot be told, or where code of
        the user's may do anything.
        """
        if own.signature is None or rows == self.batch_size:
            return None
        full, there = (one.note(name, self.batch_size).numbers for one in (self.blueprint, own))
        here = self.blueprint.note(name, rows).numbers
        if len(here) != len(full):
            return None
        found = []
        for neighbour, mine, neighbour_here in zip(full, there, here, strict=True):
            if numpy.array_equal(neighbour, mine):
                found.append(neighbour_here)
            elif numpy.array_equal(neighbour, neighbour_here):
                found.append(mine)
            else:
                return None
        return tuple(found)

    def call(self, name: str, *arguments: Any, rarely: bool = False) -> Any:
        """Run one of the functions below, on arguments that have a row for each model, but for the data."""
        return self.function(name, *arguments, rarely=rarely)(*arguments)

    def has(self, name: str, *arguments: Any) -> bool:
        """Whether it is compiled for arguments like these."""
        return _key(name, arguments) in self._compiled

    def fitting(self, count: int) -> int | None:
        """The least number of models at a time, from `count` on, for which this process has compiled the training."""
        sizes = [shapes[-1][0][0] for name, _, shapes in self._compiled if name == "logs" and shapes]
        return min((size for size in sizes if size >= count), default=None)

    def claim(self, name: str) -> bool:
        """Be the one who compiles this function of the program; False where another worker is at it."""
        lock = open(self._lock(name), "ab")  # noqa: SIM115  # held until it is compiled
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return False
        self._claims[name] = lock
        return True

    def function(self, name: str, *arguments: Any, rarely: bool = False) -> Any:
        """One of the functions below, compiled for arguments like these."""
        key = _key(name, arguments)
        claim = self._claims.pop(name, None)
        if key not in self._compiled:
            began = time.perf_counter()
            with claim or open(self._lock(name), "ab") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # who comes second finds it in the cache
                self._compiled[key] = self._compile(name, arguments, rarely)
            self.took[name] = time.perf_counter() - began
            self.compiling += self.took[name]
        elif claim is not None:
            claim.close()
        return self._compiled[key]

    def _compile(self, name: str, arguments: tuple[Any, ...], rarely: bool) -> Any:
        import jax

        every = (self._advance, self._tail, self._score, self._logs, self._predict)
        named = {function.__name__.removeprefix("_"): function for function in every}
        function = {**named, "step": self._tail}[name]
        donated = (1,) if name in ("advance", "step", "tail") else ()
        lowered = jax.jit(function(), donate_argnums=donated).lower(*arguments)
        if jax.default_backend() != "cpu" or LEVEL in os.environ.get("XLA_FLAGS", ""):
            return lowered.compile()
        options = {**self._options[rarely], **(OLDER if name == "step" else {})}
        return compiled(lowered, options)

    def _lock(self, name: str) -> Path:
        self.cache.mkdir(mode=0o700, parents=True, exist_ok=True)  # it may be deleted at any time
        return self.cache / f"{self._identity}-{name}.lock"

    def _step(self, name: str, rows: int) -> Callable[[Any, State, Any], State]:
        found = self.blueprint.traced(name, rows)
        step = program.replay(found)
        return step if self._lifted else lambda _numbers, state, batch: step(found.numbers, state, batch)

    def _gathered(self, name: str, rows: int) -> Callable[..., State]:
        import jax

        step = self._step(name, rows)

        def one(numbers: Any, state: State, places: Any, data: Any) -> State:
            return step(numbers, state, mapped(lambda array: None if array is None else array[places], data))

        return cast("Callable[..., State]", jax.vmap(one, in_axes=(0, 0, 0, None)))

    def _advance(self) -> Callable[..., State]:
        import jax

        many = self._gathered("train", self.batch_size)

        def advance(numbers: Any, state: State, order: Any, steps: Any, data: Any) -> State:
            return cast("State", jax.lax.fori_loop(0, steps, lambda n, now: many(numbers, now, order[n], data), state))

        return advance

    def _tail(self) -> Callable[..., State]:
        def tail(numbers: Any, state: State, rows: Any, data: Any) -> State:
            return self._gathered("train", rows.shape[-1])(numbers, state, rows, data)

        return tail

    def _score(self) -> Callable[..., State]:
        import jax

        def score(numbers: Any, state: State, rows: Any, data: Any) -> State:
            if rows is not None:
                return self._gathered("test", rows.shape[-1])(numbers, state, rows, data)
            step = self._step("test", jax.tree.leaves(data)[0].shape[0])
            return cast("State", jax.vmap(step, in_axes=(0, 0, None))(numbers, state, data))

        return score

    def _predict(self) -> Callable[..., Any]:
        def predict(numbers: Any, weights: Any, rows: Any, x: Any) -> Any:
            return self._gathered("predict", rows.shape[-1])(numbers, weights, rows, x)

        return predict

    def _logs(self) -> Callable[..., dict[str, Any]]:
        import jax

        found = self.blueprint.traced("logs", self.batch_size)
        logs = program.replay(found)
        plain = lambda _numbers, metrics: logs(found.numbers, metrics)  # noqa: E731
        return cast("Callable[..., dict[str, Any]]", jax.vmap(logs if self._lifted else plain))


def compiled(lowered: Any, options: dict[str, Any]) -> Any:
    """A function with these options, as far as XLA knows them: it may have its older code no more."""
    with contextlib.suppress(Exception):
        return lowered.compile(options)
    return lowered.compile({name: value for name, value in options.items() if name not in OLDER})


def _key(name: str, arguments: tuple[Any, ...]) -> Any:
    """Equal for calls of one compiled function."""
    import jax

    shapes = tuple((leaf.shape, str(leaf.dtype)) for leaf in jax.tree.leaves(arguments))
    return name, jax.tree.structure(arguments), shapes
