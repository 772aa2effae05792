"""In a worker: a group of Keras models in training, so many at a time in one compiled program.

    models ──> chunks of equal size ──> order ──> batches ──> train, train, ... in one call ──> state
                                                              └ vmap over the models of a chunk

The program is compiled once, for one chunk, and called for each. A model alone cannot keep a device busy where layers
are small, so a few at a time are faster (fused); convolutions on a CPU have no fast form for several models, so there
a chunk is one model (looped), and each step is a call. The last chunk is filled up with copies whose results nobody
reads. When models have stopped, those that are left move together, and a last chunk that is not full goes to `fewer`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy

from tenfold.fuse.blueprint import Built, standard
from tenfold.fuse.code import Code
from tenfold.fuse.columns import Columns, leaves, mapped
from tenfold.fuse.outputs import Outputs, each, joined
from tenfold.fuse.reading import Held
from tenfold.work.run import Declined

TEST_ROWS = 512  # in a batch of scoring, where the size of batches makes no difference to the scores
MANY_STEPS = 1024  # of an epoch: from here on, twice as many places for their rows would be worth some memory


class Stack:
    """Models of one program, in training. Arrays have a row for each model of a chunk."""

    def __init__(
        self, code: Code, models: Sequence[Built], chunk: int, *, exact: bool, scored: Columns | None = None
    ) -> None:
        """`scored` is a block that all of them will be scored on, where that is known."""
        self._code = code
        self._models = list(models)
        self._chunk = chunk
        self._exact = exact  # chunks are filled up, always, so that every run has the same bits
        self._fewer = False
        self._states = [_stacked(part) for part in self._cut([model.state for model in models])]
        self._best = [state[:2] for state in self._states]
        self._numbers: dict[tuple[str, int], list[Any]] = {}
        self._on_device = Held(_on_device)
        self._divided = False
        self._scored = scored
        self.step_seconds: float | None = None
        """How long a step of all models takes, where it was measured."""

    def __len__(self) -> int:
        return len(self._models)

    # -- an epoch -------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Metrics start anew."""
        zero = self._code.blueprint.metrics
        for place, state in enumerate(self._states):
            own = [numpy.broadcast_to(value, (self._width(place), *value.shape)) for value in zero]
            self._states[place] = (*state[:3], own)

    def train(self, block: Columns, order: numpy.ndarray) -> None:
        """One pass over the rows of a block: `order` has a row for each model."""
        self._divide(block, order)
        data, size = self._on_device(block), self._code.batch_size
        steps = order.shape[1] // size
        rest = order.shape[1] - steps * size
        for place, rows in enumerate(self._cut(order)):
            part = numpy.stack(rows)
            if steps:
                self._states[place] = self._advanced(place, self._states[place], _batches(part, size), steps, data)
            if rest:
                self._call("tail", place, "train", rest, numpy.ascontiguousarray(part[:, -rest:]), data, rarely=True)
        if block.passing:
            self._wait()  # or the next blocks would gather in memory before this one is used up

    def test(self, block: Columns, rows: numpy.ndarray | None) -> None:
        """Score the block, or each model's own rows of it."""
        for place, count, places, some in self._batches_to_score(block, rows):
            self._call("score", place, "test", count, places, some)

    def _batches_to_score(
        self, block: Columns, rows: numpy.ndarray | None
    ) -> Iterator[tuple[int, int, numpy.ndarray | None, Any]]:
        """The place of a chunk, how many rows it is scored on, which, and the data."""
        data = self._on_device(block)
        count = len(block) if rows is None else rows.shape[1]
        size = min(count, TEST_ROWS if self._code.blueprint.averages else self._code.batch_size)
        for start in range(0, count, size):
            stop = min(start + size, count)
            some = data if rows is not None or stop - start == count else _sliced(data, start, stop)
            for place, own in enumerate(self._states if rows is None else self._cut(rows)):
                yield place, stop - start, None if rows is None else numpy.stack(own)[:, start:stop], some

    def logs(self) -> dict[str, numpy.ndarray]:
        """Loss and metrics since `begin`: an array each, one number a model."""
        numbers = self._given("logs", self._code.batch_size)
        pairs = enumerate(zip(numbers, self._states, strict=True))
        parts = [self._run("logs", place, given, state[3], rarely=True) for place, (given, state) in pairs]
        return {name: self._joined([part[name] for part in parts]) for name in parts[0]}

    def close(self, logs: dict[str, numpy.ndarray]) -> None:
        """Nothing: a schedule of Keras is a part of its optimizer, and so of the program."""

    # -- between epochs -------------------------------------------------------------------------------------------

    def remember(self, better: Sequence[int]) -> None:
        """The weights of these models are their best so far."""
        import jax

        chosen = numpy.isin(numpy.arange(len(self._states) * self._chunk), better).reshape(-1, self._chunk)

        def pick(rows: numpy.ndarray, now: Any, best: Any) -> Any:
            return numpy.where(rows.reshape(-1, *[1] * (now.ndim - 1)), now, best)

        for place, rows in enumerate(chosen):
            if rows.any():
                now, own = self._states[place][:2], rows[: self._width(place)]
                self._best[place] = jax.tree.map(lambda a, b: pick(own, a, b), now, self._best[place])  # noqa: B023

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with these models only, in as few chunks as they fill."""
        arrays = self.snapshot()
        self._fewer = not self._exact
        self._models = [self._models[row] for row in rows]
        self._numbers.clear()
        self.restore([array[list(rows)] for array in arrays])

    def weights(self, row: int, *, best: bool) -> list[numpy.ndarray]:
        """Of one model, as `get_weights` orders them: those of now, or of when it was last remembered."""
        place, within = divmod(row, self._chunk)
        trainable, others = self._best[place] if best else self._states[place][:2]
        # A row of JAX's array would be a program of its own for each shape: 0.1 s.
        parts = ([numpy.asarray(array)[within] for array in arrays] for arrays in (trainable, others))
        return self._models[row].blueprint.weights(*parts)

    def outputs(self, block: Columns, rows: numpy.ndarray | None, done: Sequence[int], *, best: bool) -> list[Outputs]:
        """What models give for the block, or their own rows of it."""
        count = len(block) if rows is None else rows.shape[1]
        size = -(-count // -(-count // TEST_ROWS))  # equal batches, so that one program does for all of them
        if rows is None:
            rows = numpy.broadcast_to(numpy.arange(count, dtype=numpy.int32), (len(self), count))
        filled = numpy.pad(rows, ((0, 0), (0, -count % size)), mode="edge")
        x = self._on_device(block)[0]
        found = {}
        for place, own in enumerate(self._cut(filled)):
            if any(row // self._chunk == place for row in done):
                weights = self._best[place] if best else self._states[place][:2]
                found[place] = self._predicted(place, weights, numpy.stack(own), size, x)
        return [each(lambda a: a[row % self._chunk, :count], found[row // self._chunk]) for row in done]  # noqa: B023

    def _predicted(self, place: int, weights: Any, rows: numpy.ndarray, size: int, x: Any) -> Outputs:
        numbers = self._given("predict", size)[place]
        starts = range(0, rows.shape[1], size)
        batches = [numpy.ascontiguousarray(rows[:, start : start + size]) for start in starts]
        parts = [self._run("predict", place, numbers, weights, batch, x, rarely=True) for batch in batches]
        return joined([each(numpy.asarray, part) for part in parts], axis=1)

    def snapshot(self) -> list[numpy.ndarray]:
        """Everything that training goes on from: arrays with a row for each model."""
        import jax

        parts = [jax.tree.leaves((state[:3], best)) for state, best in zip(self._states, self._best, strict=True)]
        return [self._joined(column) for column in zip(*parts, strict=True)]

    def restore(self, arrays: Sequence[numpy.ndarray]) -> None:
        """Go on from a snapshot."""
        import jax

        structure = jax.tree.structure((self._states[0][:3], self._best[0]))
        rows = [jax.tree.unflatten(structure, list(row)) for row in zip(*arrays, strict=True)]
        for model, ((_, _, optimizer), _) in zip(self._models, rows, strict=True):
            for place in model.blueprint.rate_at:  # as it was built: a study may go on with another
                optimizer[place] = model.state[2][place]
        parts = [_stacked(part) for part in self._cut(rows)]
        self._states = [(*state, []) for state, _ in parts]
        self._best = [best for _, best in parts]

    def seconds_a_step(self, block: Columns, order: numpy.ndarray, steps: int) -> float:
        """How long a step of all models takes, measured on a copy of the first chunk."""
        import jax

        size = self._code.batch_size
        full = order.shape[1] // size
        self._divide(block, order)
        batches = _batches(numpy.stack(self._cut(order)[0]), size)
        best = float("inf")
        for _ in range(3):  # the first call compiles
            copy = jax.tree.map(numpy.array, self._states[0])
            began = time.perf_counter()
            jax.block_until_ready(self._advanced(0, copy, batches, min(steps, full), self._on_device(block)))
            best = min(best, time.perf_counter() - began)
        return float(best * len(self._states) / min(steps, full))

    def compile_steps(self, block: Columns, count: int) -> None:
        """Compile what trains on so many rows of the block, unless another worker is at it."""
        size = self._code.batch_size
        if count < size or not self._code.claim(self._code.training):
            return
        self.begin()
        batches = _batches(numpy.zeros((self._chunk, count), numpy.int32), size)
        name, *arguments = self._stepping(0, self._states[0], batches, 1, self._on_device(block))
        self._code.function(name, *arguments)

    def _divide(self, block: Columns, order: numpy.ndarray) -> None:
        """Compile what comes after the first steps, where another worker is at these: each finds the other's."""
        steps, rest = divmod(order.shape[1], self._code.batch_size)
        if self._divided or not (steps and rest):
            return
        self._divided = True
        if not self._code.claim(self._code.training):
            rows = numpy.ascontiguousarray(numpy.stack(self._cut(order)[0])[:, -rest:])
            numbers = self._given("train", rest)[0]
            self._code.function("tail", numbers, self._states[0], rows, self._on_device(block), rarely=True)
            self._code.function("logs", self._given("logs", self._code.batch_size)[0], self._states[0][3], rarely=True)
            if self._scored is not None:
                _, count, places, some = next(self._batches_to_score(self._scored, None))
                self._code.function("score", self._given("test", count)[0], self._states[0], places, some)

    def _wait(self) -> None:
        import jax

        jax.block_until_ready([leaf for leaf in jax.tree.leaves(self._states) if isinstance(leaf, jax.Array)])

    # -- inside ---------------------------------------------------------------------------------------------------

    def _advanced(self, place: int, state: Any, batches: numpy.ndarray, steps: int, data: Any) -> Any:
        """The state of a chunk after the first so many batches."""
        name, *arguments = self._stepping(place, state, batches, steps, data)
        if name == "advance":
            return self._run(name, place, *arguments)
        numbers = arguments[0]
        if self._width(place) < self._chunk:
            for rows in batches[:steps]:
                state = self._run(name, place, numbers, state, rows, data)
            return state
        step = self._code.function(name, *arguments)  # looked for once: that takes a while
        for rows in batches[:steps]:
            state = step(numbers, state, rows, data)
        return state

    def _stepping(self, place: int, state: Any, batches: numpy.ndarray, steps: int, data: Any) -> tuple[Any, ...]:
        """The function that trains, and its arguments; of one that takes a single step, for the first."""
        numbers = self._given("train", self._code.batch_size)[place]
        if self._code.training == "advance":
            return "advance", numbers, state, batches, numpy.int32(steps), data
        return "step", numbers, state, batches[0], data

    def _call(self, name: str, place: int, step: str, rows: int, *arguments: Any, rarely: bool = False) -> None:
        numbers = self._given(step, rows)[place]
        self._states[place] = self._run(name, place, numbers, self._states[place], *arguments, rarely=rarely)

    def _run(self, name: str, place: int, *arguments: Any, rarely: bool = False) -> Any:
        width = self._width(place)
        if width == self._chunk:
            return self._code.call(name, *arguments, rarely=rarely)
        self._wait()  # until the other chunks are done with the device: how long this one takes is looked at
        return self._code.fewer.call(name, width, self._chunk, *arguments, rarely=rarely)

    def _width(self, place: int) -> int:
        """How many rows the arrays of a chunk have."""
        return min(self._chunk, len(self) - place * self._chunk) if self._fewer else self._chunk

    def _given(self, step: str, rows: int) -> list[Any]:
        """The numbers that distinguish the models, by chunk."""
        if (step, rows) not in self._numbers:
            every = [self._code.numbers(model, step, rows) for model in self._models]
            self._numbers[step, rows] = [_stacked(part) for part in self._cut(every)]
        return self._numbers[step, rows]

    def _cut(self, rows: Sequence[Any] | numpy.ndarray) -> list[list[Any]]:
        """In chunks; the last one is filled up with its last, unless models have stopped."""
        parts = [list(rows[start : start + self._chunk]) for start in range(0, len(rows), self._chunk)]
        parts[-1] += [parts[-1][-1]] * (self._width(len(parts) - 1) - len(parts[-1]))
        return parts

    def _joined(self, parts: Sequence[Any]) -> numpy.ndarray:
        return numpy.concatenate([numpy.asarray(part) for part in parts])[: len(self)]


def _batches(order: numpy.ndarray, size: int) -> numpy.ndarray:
    """Full batches, as (step, model, row): of a number of steps that other numbers of rows come to as well."""
    models, steps = len(order), order.shape[1] // size
    found = numpy.zeros((_room(steps), models, size), order.dtype)
    found[:steps] = order[:, : steps * size].reshape(models, steps, size).swapaxes(0, 1)
    return found


def _room(steps: int) -> int:
    """The next power of two; of many steps, the next multiple of one."""
    return 1 << (steps - 1).bit_length() if steps < MANY_STEPS else -(-steps // MANY_STEPS) * MANY_STEPS


def _on_device(block: Columns) -> Any:
    import jax.numpy as jnp

    if not all(map(_fits, leaves(block.parts))):
        raise Declined("the data has whole numbers that need more than 32 bits, which Keras on JAX would cut off")
    return mapped(lambda array: None if array is None else jnp.asarray(array), standard(block))


def _fits(array: numpy.ndarray | None) -> bool:
    """Whether whole numbers stay what they are where they become int32."""
    if array is None or array.dtype.kind not in "iu" or numpy.can_cast(array.dtype, numpy.int32) or not array.size:
        return True
    return bool(array.min() >= -(1 << 31) and array.max() < 1 << 31)


def _stacked(rows: Sequence[Any]) -> Any:
    """Trees of arrays as one tree, whose arrays have a row for each."""
    import jax

    return jax.tree.map(lambda *arrays: numpy.stack(arrays), *rows)


def _sliced(data: Any, start: int, stop: int) -> Any:
    return mapped(lambda array: None if array is None else array[start:stop], data)
