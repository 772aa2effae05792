"""A Keras model on JAX as one copy among several.

Its values are arrays beside the model's variables, and every step is a pure function of them. A program is compiled
for each number of rows that comes: that of a whole share, and that of the last one of an epoch.

Where the process has several devices, each holds all values, and the rows of a batch are cut evenly among them: XLA
divides the program, adds gradients up itself, and computes what one device would, batch norm and random numbers too.
Rows that cannot be cut evenly are computed by every device. The devices may be those of several processes, which then
call the same programs in the same order, and nothing else that has all devices' values in it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tenfold.frameworks.jax import quick_compilations
from tenfold.fuse import blueprint
from tenfold.fuse.building import Member
from tenfold.fuse.columns import Columns, mapped
from tenfold.fuse.reading import Held
from tenfold.fuse.result import Weights
from tenfold.training import keras_checks
from tenfold.training.keras_pass import Passed, cut, flat, grown, growth
from tenfold.training.learner_keras import KerasLearner, places

if TYPE_CHECKING:
    from tenfold.fuse.fit import Fit

AT_ONCE = 64  # steps that one call can take; the program is the same for fewer

ROWS = "rows"
"""The axis of the mesh, where there are several devices."""
State = tuple[list[Any], list[Any], list[Any], list[Any], list[Any], list[Any]]
"""Values of what is trained, of averages, counters, constants, seeds, and the optimizer's."""


class JaxLearner(KerasLearner):
    """One copy of a model."""

    takes_devices = True

    def __init__(self, fit: Fit, member: Member, built: Any, devices: Sequence[Any] = ()) -> None:
        with quick_compilations():
            super().__init__(fit, member, built)
        self._mesh = Mesh(numpy.array(devices), [ROWS]) if devices else None
        self._blocks = Held(self._on_device)
        self._state: State
        self._spread()
        # What comes out lies where it lay, or the next step would be another program.
        jit = functools.partial(jax.jit, out_shardings=self._placed())
        self._vector_of = jit(self._vector)
        self._total_of = jit(self._total, donate_argnums=0)
        self._step_of = jit(self._step, donate_argnums=0)
        self._steps_of = jit(self._steps, donate_argnums=0)
        self._slow_in_a_loop: bool | None = None
        self._advance_of = jit(self._advance, donate_argnums=0)
        self._scores_of = jit(self._scores)

    def check_shares(self) -> None:
        with quick_compilations():
            keras_checks.check_shares(self._model, self._sample, jax.jit)  # else each operation is compiled by itself

    def gradient(self, block: Columns, rows: numpy.ndarray, share: float, into: numpy.ndarray) -> None:
        into[:] = 0
        if not len(rows):
            return
        vector, seeds = self._vector_of(self._state, self._blocks(block), places(rows), numpy.float32(share))
        into[:] = numpy.asarray(vector)
        self._state = (*self._state[:4], seeds, self._state[5])  # the next piece of a batch draws other numbers

    def _apply(self, total: numpy.ndarray) -> None:
        self._state = self._total_of(self._state, numpy.array(total))  # a copy: others write there before it is read

    def steps(self, block: Columns, batches: Sequence[numpy.ndarray]) -> Sequence[float]:
        losses: list[float] = []
        for _, alike in itertools.groupby(batches, len):
            together = list(alike)
            take = self._one_by_one if self._convolves(block, together[0]) else self._in_a_loop
            losses += [self._note(sums) for sums in take(block, together)]
        return losses

    def _in_a_loop(self, block: Columns, batches: Sequence[numpy.ndarray]) -> list[numpy.ndarray]:
        found: list[numpy.ndarray] = []
        for start in range(0, len(batches), AT_ONCE):
            part = batches[start : start + AT_ONCE]
            self._state, sums = self._steps_of(self._state, self._blocks(block), *_loop(part))
            found += list(numpy.asarray(sums)[: len(part)])
        return found

    def _one_by_one(self, block: Columns, batches: Sequence[numpy.ndarray]) -> list[numpy.ndarray]:
        found = []
        for rows in batches:
            self._state, sums = self._step_of(self._state, self._blocks(block), places(rows))
            found.append(sums)
        return [numpy.asarray(sums) for sums in found]  # only now: until it is read, a step runs beside Python

    def _convolves(self, block: Columns, rows: numpy.ndarray) -> bool:
        """Whether steps are not one loop: on CPUs, XLA has no fast form of convolutions in one (60 steps/s).

        One by one, they were 1,300.
        """
        if self._slow_in_a_loop is None:
            traced = self._steps_of.trace(self._state, self._blocks(block), *_loop([rows]))
            self._slow_in_a_loop = jax.default_backend() == "cpu" and "conv_general_dilated" in str(traced.jaxpr)
        return self._slow_in_a_loop

    def advance(self, block: Columns, rows: numpy.ndarray, weights: numpy.ndarray, into: numpy.ndarray) -> None:
        self._state, found = self._advance_of(self._state, numpy.array(weights), places(rows), self._blocks(block))
        into[:] = numpy.asarray(found)

    def _set(self, variable: Any, value: int) -> None:
        known = self._variables.optimizer
        values = [
            jnp.asarray(value, old.dtype) if one is variable else old
            for one, old in zip(known, self._state[5], strict=True)
        ]
        self._state = (*self._state[:5], values)

    def _score(self, block: Columns, rows: numpy.ndarray, share: float) -> numpy.ndarray:
        return numpy.asarray(self._scores_of(self._state, self._blocks(block), places(rows), numpy.float32(share)))

    def write_weights(self, into: numpy.ndarray) -> None:
        trained, averages, *_ = self._state
        parts = [numpy.asarray(array, numpy.float32).reshape(-1) for array in (*trained, *averages)]
        numpy.concatenate(parts, out=into[: self.weights_size])

    def read_weights(self, run: numpy.ndarray) -> None:
        trained, averages = self._learned(jnp.array(run, copy=True))
        self._state = (trained, averages, *self._state[2:])

    def state(self) -> list[Any]:
        self._collect()
        return super().state()

    def put(self, state: list[Any]) -> None:
        super().put(state)
        self._spread()

    def weights(self) -> Weights:
        self._collect()
        return super().weights()

    def _collect(self) -> None:
        """Let the model's variables have the values of now, in memory that no step gives away."""
        for variable, value in zip(self._kept(), itertools.chain(*self._state), strict=True):
            variable.assign(numpy.array(value))

    def _spread(self) -> None:
        """Take the values of the model's variables."""
        known = self._variables
        groups = (known.trained, known.averages, known.counters, known.constants, known.seeds, known.optimizer)
        first, *rest = ([jnp.array(variable.value, copy=True) for variable in group] for group in groups)
        self._state = self._everywhere((first, *rest))

    # -- devices --------------------------------------------------------------------------------------------------

    def _placed(self, *axes: str) -> NamedSharding | None:
        """Along the axes of the mesh; without one, on all devices."""
        return None if self._mesh is None else NamedSharding(self._mesh, PartitionSpec(*axes))

    def _everywhere(self, arrays: Any) -> Any:
        place = self._placed()
        if place is None or place.is_fully_addressable:
            return arrays if place is None else jax.device_put(arrays, place)

        def put(array: Any) -> Any:  # without asking the other processes whether theirs is the same
            here = numpy.asarray(array)
            return jax.make_array_from_callback(here.shape, place, lambda index: here[index])

        return jax.tree.map(put, arrays)

    def _on_device(self, block: Columns) -> Any:
        x, y, *weight = blueprint.standard(block)
        found = (x, y, weight[0] if weight else None)
        return mapped(lambda array: None if array is None else self._everywhere(jnp.asarray(array)), found)

    def _taken(self, data: Any, rows: Any) -> Any:
        """These rows of the data, each device its own."""
        divides = self._mesh is not None and len(rows) % self._mesh.size == 0

        def take(array: Any) -> Any:
            found = jnp.take(array, rows, axis=0)
            return jax.lax.with_sharding_constraint(found, self._placed(ROWS)) if divides else found

        return mapped(lambda array: None if array is None else take(array), data)

    # -- compiled -------------------------------------------------------------------------------------------------

    def _passed(self, state: State, data: Any, rows: Any, share: Any) -> tuple[Passed, list[Any]]:
        """What comes of some rows, and the gradient."""
        trained, *others, optimizer = state
        known = list(itertools.chain(*others))
        batch = self._taken(data, rows)

        def loss(values: list[Any]) -> tuple[Any, Any]:
            found = self._pass([*values, *known], batch, share, len(rows), training=True)
            rest = (found.part, found.averages, found.counters, found.seeds, found.sums)
            return self._scale(optimizer, found.part), rest

        gradients, rest = jax.grad(loss, has_aux=True)(trained)
        return Passed(*rest), self._scaled(gradients, back=True, scale=functools.partial(self._scale, optimizer))

    def _scale(self, optimizer: list[Any], loss: Any) -> Any:
        import keras

        with keras.StatelessScope(list(zip(self._variables.optimizer, optimizer, strict=True))):
            return self.optimizer.scale_loss(loss)

    def _vector(self, state: State, data: Any, rows: Any, share: Any) -> tuple[Any, list[Any]]:
        passed, gradients = self._passed(state, data, rows, share)
        new = [*passed.averages, *passed.counters]
        return flat([*gradients, *growth(share, new, [*state[1], *state[2]]), passed.sums]), list(passed.seeds)

    def _total(self, state: State, total: Any) -> State:
        trained, averages, counters, constants, seeds, _ = state
        known = self._variables
        values = grown(total, known, [*averages, *counters], self.gradient_size)
        averages, counters = values[: len(averages)], values[len(averages) :]
        trained, optimizer = self._applied(state, cut(total, known.trained))
        return trained, averages, counters, constants, seeds, optimizer

    def _applied(self, state: State, gradients: list[Any]) -> tuple[list[Any], list[Any]]:
        """After a step of the optimizer: what is trained, and its own."""
        trained, *_, optimizer = state
        found = self._scaled(gradients, scale=functools.partial(self._scale, optimizer))
        return self.optimizer.stateless_apply(optimizer, found, trained)  # type: ignore[no-any-return]

    def _step(self, state: State, data: Any, rows: Any) -> tuple[State, Any]:
        """One whole batch; its sums."""
        passed, gradients = self._passed(state, data, rows, 1.0)
        trained, optimizer = self._applied(state, gradients)
        others = (list(passed.averages), list(passed.counters), state[3], list(passed.seeds))
        return (trained, *others, optimizer), passed.sums

    def _steps(self, state: State, data: Any, rows: Any, count: Any) -> tuple[State, Any]:
        def body(place: Any, carried: tuple[State, Any]) -> tuple[State, Any]:
            state, sums = carried
            state, found = self._step(state, data, rows[place])
            return state, sums.at[place].set(found)

        begun = (state, jnp.zeros((AT_ONCE, self.sums_size), jnp.float32))
        return jax.lax.fori_loop(0, count, body, begun)  # type: ignore[no-any-return]

    def _learned(self, run: Any) -> tuple[list[Any], list[Any]]:
        parts = cut(run, self._variables.learned)
        count = len(self._variables.trained)
        return parts[:count], parts[count:]

    def _advance(self, state: State, weights: Any, rows: Any, data: Any) -> tuple[State, Any]:
        state, sums = self._step((*self._learned(weights), *state[2:]), data, rows)
        return state, flat([*state[0], *state[1], sums])

    def _scores(self, state: State, data: Any, rows: Any, share: Any) -> Any:
        values = list(itertools.chain(*state[:5]))
        return self._pass(values, self._taken(data, rows), share, len(rows), training=False).sums


def _loop(batches: Sequence[numpy.ndarray]) -> tuple[numpy.ndarray, numpy.int32]:
    """Rows of batches that are of one length, as a loop takes them, and how many these are."""
    rows = numpy.zeros((AT_ONCE, len(batches[0])), numpy.int32)
    rows[: len(batches)] = batches
    return rows, numpy.int32(len(batches))
