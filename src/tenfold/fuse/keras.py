"""In a worker: groups of Keras models. How many are trained at a time is measured on the models themselves."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy

from tenfold.frameworks.jax import keep_compilations
from tenfold.fuse import blueprint as blueprints
from tenfold.fuse import chunks
from tenfold.fuse.blueprint import Blueprint, Built, Drawings, Samples
from tenfold.fuse.building import add_metrics, directed, watching
from tenfold.fuse.code import Code
from tenfold.fuse.columns import leaves, mapped
from tenfold.fuse.notes import Notebook
from tenfold.fuse.portrait import Portrait
from tenfold.fuse.reading import Reading
from tenfold.fuse.stopping import EarlyStopping
from tenfold.fuse.xla import Stack

if TYPE_CHECKING:
    from tenfold.fuse.fit import Fit

AT_A_TIME = 8  # models on a CPU: enough to share each operation's cost, few enough to stay in its caches (measured)
TRIAL_STEPS = 8
HASTY_BELOW = 5.0  # seconds of training, roughly guessed, that are not worth the best compilation
BYTES_A_SECOND = 1e10  # that a core computes, for that guess
WORTH_TRYING = 5  # times what a compilation takes that training must take before another way is tried

_drawings: dict[str, Drawings] = {}
_codes: dict[Any, Code] = {}  # of this process: the next batch of the same program finds it compiled


class KerasWorkshop:
    """A `Workshop` for Keras on JAX."""

    def __init__(self, fit: Fit, reading: Reading, cache: Path) -> None:
        blueprints.check_backend()
        keep_compilations(cache)
        self._fit = fit
        self._cache = cache
        self._notebook = Notebook(cache)
        self._block = reading.sample
        self._scored = reading.scored_by_all
        self._rows = reading.rows
        self._begun = not fit.steady
        asked = (("test", reading.scores), ("predict", fit.outputs))
        self._parts = ("train", "logs", *(name for name, wanted in asked if wanted))  # compared of two models
        one = slice(0, 1)
        samples = (reading.sample, reading.scored_sample, reading.shown_sample)
        training, scoring, shown = (blueprints.standard(block.take(one)) for block in samples)
        shapes = str(mapped(lambda array: array if array is None else (array.shape, array.dtype), (training, scoring)))
        self._drawings = _drawings.setdefault(shapes, Drawings(Samples(training, scoring, shown[0])))

    def take(self, built: Any) -> Built:
        if self._fit.metrics:
            add_metrics(built, self._fit.metrics)
        found = self._drawings.copy(built)
        if not self._begun:
            self._begun = True
            self._begin(found)
        # Traced here, where what cannot be traced is declined by itself.
        found.blueprint.learn(self._notebook, self._parts, self._fit.batch_size)
        return found

    def _begin(self, first: Built) -> None:
        """In a study, one worker compiles the steps while others, who come second, still look at their models."""
        with contextlib.suppress(Exception):  # what is wrong with it is told where it is trained
            code = self._code([first], self._rows)
            stack = self._stack(code, [first], self._sizes(code, [first])[0])
            stack.compile_steps(self._block, min(self._rows, len(self._block)))

    def same(self, models: Sequence[Built]) -> list[list[int]]:
        groups: dict[Any, list[int]] = {}
        for place, built in enumerate(models):
            groups.setdefault(self._keys(built.blueprint), []).append(place)
        return list(groups.values())

    def nbytes(self, model: Built) -> int:
        """Its variables twice, and what a step computes."""
        state = sum(array.nbytes for array in leaves(model.state))
        return int(2 * state + model.blueprint.traced("train", self._fit.batch_size).nbytes)

    def portrait(self, model: Built) -> Portrait:
        return model.blueprint.portrait()

    def stopping(self, model: Built) -> EarlyStopping | None:
        rule = self._fit.stopping
        return None if rule is None else directed(watching(rule, model.blueprint.names), model.blueprint.model)

    def stack(self, models: Sequence[Built], rows: int, chunk: int | None) -> tuple[Stack, int, str]:
        code = self._code(models, rows)
        if self._fit.steady:
            chunk = chunk or self._sizes(code, models)[0]
            return self._stack(code, models, chunk), chunk, chunks.words(len(models), chunk)
        if chunk is None and len(models) <= AT_A_TIME:
            chunk = code.fitting(len(models))
        if chunk is not None:
            return self._stack(code, models, chunk), chunk, f"{chunks.words(len(models), chunk)}, as before"
        best: tuple[float, int, Stack] | None = None
        tried = []
        for size in self._sizes(code, models):
            stack = self._stack(code, models, size)
            before = code.compiling
            seconds = self._seconds_a_step(stack, rows)
            if seconds is None:  # less than a batch: nothing to measure, and nothing to gain
                best = (0.0, size, stack)
                break
            tried.append(f"{1e3 * seconds:.3g} ms a step {chunks.at_a_time(size)}")
            if best is None or seconds < best[0]:
                best = (seconds, size, stack)
            steps = self._fit.epochs * (rows // self._fit.batch_size)
            if seconds * steps < WORTH_TRYING * (code.compiling - before):
                break
        assert best is not None
        seconds, size, stack = best
        stack.step_seconds = seconds or None
        return stack, size, chunks.words(len(models), size) + (f" ({', '.join(tried)})" if tried else "")

    # -- inside ---------------------------------------------------------------------------------------------------

    def _stack(self, code: Code, models: Sequence[Built], chunk: int) -> Stack:
        exact = self._fit.steady or self._fit.how != "auto"
        return Stack(code, models, chunk, exact=exact, scored=self._scored)

    def _keys(self, blueprint: Blueprint) -> tuple[bytes, ...]:
        size = self._fit.batch_size
        return tuple(blueprint.note(name, size).key for name in self._parts)

    def _code(self, models: Sequence[Built], rows: int) -> Code:
        """The compiled program of these models; with their numbers as inputs where those differ."""
        size = self._fit.batch_size
        unique = list({id(built.blueprint): built.blueprint for built in models}.values())
        numbers = {tuple(_bytes(b.note(name, size).numbers) for name in self._parts) for b in unique}
        lifted = len(numbers) > 1 or self._fit.steady
        count = AT_A_TIME if self._fit.steady else len(models)
        work = unique[0].traced("train", size).nbytes * count * self._fit.epochs * max(1, rows // size)
        pace = "usual" if work / BYTES_A_SECOND > HASTY_BELOW else "brief" if self._fit.brief else "hasty"
        own = (self._keys(unique[0]), size, pace)
        lifted |= (*own, True) in _codes  # compiled for others, and good for this one, too
        key = (*own, lifted or numbers.pop())
        if key not in _codes:
            while len(_codes) >= 8:
                _codes.pop(next(iter(_codes)))
            _codes[key] = Code(unique[0], size, lifted=lifted, pace=pace)
        _codes[key].cache = self._cache
        return _codes[key]

    def _sizes(self, code: Code, models: Sequence[Built]) -> list[int]:
        """How many at a time, the likely best first."""
        import jax

        count = AT_A_TIME if self._fit.steady else len(models)
        if self._fit.how == "looped":
            return [1]
        fit_in = max(1, int(chunks.room() / self.nbytes(models[0])))
        if jax.default_backend() != "cpu":
            return [chunks.even(count, min(count, fit_in))]
        few = _shared_size(chunks.even(count, min(fit_in, AT_A_TIME)), min(fit_in, AT_A_TIME))
        if self._fit.how == "fused":
            return [few]
        return list(dict.fromkeys([1, few] if code.convolves else [few, 1]))

    def _seconds_a_step(self, stack: Stack, rows: int) -> float | None:
        count = min(rows, len(self._block))
        if count < self._fit.batch_size:
            return None
        order = numpy.broadcast_to(numpy.arange(count, dtype=numpy.int32), (len(stack), count))
        return stack.seconds_a_step(self._block, order, TRIAL_STEPS)


def _shared_size(size: int, most: int) -> int:
    """A size that workers with a model more or less come to as well, so that one of them compiles for both."""
    return next((step for step in (1, 2, 3, 5, 8) if size <= step <= most), size)


def _bytes(numbers: Sequence[Any]) -> bytes:
    return b"".join(numpy.asarray(number).tobytes() for number in numbers)
