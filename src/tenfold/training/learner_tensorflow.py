"""A Keras model on TensorFlow as one copy among several.

Everything is a compiled function, traced once for data of one form, whatever the number of rows: a block is held as
tensors, row numbers go in, and one vector comes out. Its values are in the model's own variables.

Gradients of embeddings are dense here, as on the other backends. Keras's own `fit` leaves them as slices on TensorFlow,
where a word that comes twice in a batch has two, and Adam, RMSprop and clipping square each of them by itself. So with
those, an embedding comes out otherwise than by `fit`; there is no such thing as a slice's sum over workers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy
import tensorflow

from tenfold.fuse.building import Member
from tenfold.fuse.columns import Columns, leaves, mapped
from tenfold.fuse.reading import Held
from tenfold.training.keras_pass import Passed, assign, cut, flat, grown, growth, nested
from tenfold.training.learner_keras import KerasLearner, places, standard

if TYPE_CHECKING:
    from tenfold.fuse.fit import Fit

ROWS = tensorflow.TensorSpec([None], tensorflow.int32)
NUMBER = tensorflow.TensorSpec([], tensorflow.float32)


@dataclass(frozen=True, slots=True)
class Block:
    """A block of data, held as tensors."""

    tensors: list[Any]
    """One for each column."""
    specs: list[Any]
    """What they are like, but for the number of rows."""
    form: Any
    """How they are nested: None where there is none."""
    key: Any
    """Equal for blocks that one compiled function takes."""


class TensorFlowLearner(KerasLearner):
    """One copy of a model."""

    takes_devices = True

    def __init__(self, fit: Fit, member: Member, built: Any) -> None:
        super().__init__(fit, member, built)
        self._blocks = Held(tensors)
        self._compiled: dict[Any, Any] = {}
        vector = tensorflow.TensorSpec([self.size], tensorflow.float32)
        self._take = tensorflow.function(self._take_total, input_signature=[vector], autograph=False)

    def gradient(self, block: Columns, rows: numpy.ndarray, share: float, into: numpy.ndarray) -> None:
        into[:] = 0
        if len(rows):
            into[:] = self._call(self._vector, [ROWS, NUMBER], block, places(rows), numpy.float32(share))

    def _apply(self, total: numpy.ndarray) -> None:
        self._take(tensorflow.constant(total))

    def steps(self, block: Columns, batches: Sequence[numpy.ndarray]) -> Sequence[float]:
        ends = numpy.cumsum([len(rows) for rows in batches], dtype=numpy.int32)
        sums = self._call(self._steps, [ROWS, ROWS], block, places(numpy.concatenate(batches)), ends)
        return [self._note(row) for row in sums]

    def advance(self, block: Columns, rows: numpy.ndarray, weights: numpy.ndarray, into: numpy.ndarray) -> None:
        run = tensorflow.TensorSpec([self.weights_size], tensorflow.float32)
        into[:] = self._call(self._advance, [run, ROWS], block, weights, places(rows))

    def _score(self, block: Columns, rows: numpy.ndarray, share: float) -> numpy.ndarray:
        return self._call(self._scored, [ROWS, NUMBER], block, places(rows), numpy.float32(share))

    def write_weights(self, into: numpy.ndarray) -> None:
        into[: self.weights_size] = flat([variable.value for variable in self._variables.learned]).numpy()

    def read_weights(self, run: numpy.ndarray) -> None:
        assign(self._variables.learned, cut(run, self._variables.learned))

    # -- compiled -------------------------------------------------------------------------------------------------

    def _call(self, function: Callable[..., Any], takes: list[Any], block: Columns, *given: Any) -> numpy.ndarray:
        """A function of a block and more, compiled for blocks of this form: of any number of rows."""
        held = self._blocks(block)
        key = (function.__name__, held.key)
        if key not in self._compiled:
            self._compiled[key] = tensorflow.function(
                functools.partial(_with_data, function, held.form),
                input_signature=[*takes, *held.specs],
                autograph=False,
            )
        return self._compiled[key](*map(tensorflow.constant, given), *held.tensors).numpy()  # type: ignore[no-any-return]

    def _passed(self, data: Any, rows: Any, share: Any, *, training: bool) -> tuple[Passed, list[Any] | None]:
        """What comes of some rows; and the gradient, in training."""
        known = self._variables
        batch = self._taken(data, rows)
        values = self._values()
        count = tensorflow.cast(tensorflow.shape(rows)[0], tensorflow.float32)
        if not training:
            return self._pass(values, batch, share, count, training=False), None
        trained = values[: len(known.trained)]
        with tensorflow.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(trained)
            passed = self._pass(values, batch, share, count, training=True, watch=tape.stop_recording)
            loss = self.optimizer.scale_loss(passed.part)
        zeros = tensorflow.UnconnectedGradients.ZERO
        found = tape.gradient(loss, trained, unconnected_gradients=zeros)
        return passed, self._scaled([tensorflow.convert_to_tensor(one) for one in found], back=True)

    def _taken(self, data: Any, rows: Any) -> Any:
        return mapped(lambda tensor: None if tensor is None else tensorflow.gather(tensor, rows), data)

    def _values(self) -> list[Any]:
        """What a pass reads."""
        return [tensorflow.convert_to_tensor(variable.value) for variable in self._variables.state]

    def _vector(self, rows: Any, share: Any, data: Any) -> Any:
        vector, seeds = self._vector_of(rows, share, data)
        assign(self._variables.seeds, seeds)  # the next piece of a batch draws other numbers
        return vector

    def _vector_of(self, rows: Any, share: Any, data: Any) -> tuple[Any, Sequence[Any]]:
        """With the seeds that come next."""
        passed, gradients = self._passed(data, rows, share, training=True)
        new = [*passed.averages, *passed.counters]
        return flat([*(gradients or ()), *growth(share, new, self._growing()), passed.sums]), passed.seeds

    def _growing(self) -> list[Any]:
        return [tensorflow.convert_to_tensor(variable.value) for variable in self._variables.growing]

    def _take_total(self, total: Any) -> None:
        known = self._variables
        values = grown(total, known, self._growing(), self.gradient_size)
        self.optimizer.apply(self._scaled(cut(total, known.trained)), known.trained)
        assign(known.growing, values)

    def _step(self, rows: Any, data: Any) -> Any:
        """One whole batch; its sums."""
        known = self._variables
        passed, gradients = self._passed(data, rows, tensorflow.ones([]), training=True)
        self.optimizer.apply(self._scaled(gradients or []), known.trained)
        assign(known.growing, [*passed.averages, *passed.counters])
        assign(known.seeds, passed.seeds)
        return passed.sums

    def _steps(self, rows: Any, ends: Any, data: Any) -> Any:
        """Batches that follow each other, in a loop of TensorFlow's."""
        count = tensorflow.shape(ends)[0]
        begun = tensorflow.TensorArray(tensorflow.float32, count, element_shape=[self.sums_size])

        def body(step: Any, start: Any, found: Any) -> tuple[Any, Any, Any]:
            stop = ends[step]
            return step + 1, stop, found.write(step, self._step(rows[start:stop], data))

        *_, found = tensorflow.while_loop(
            lambda step, *_: step < count, body, (0, 0, begun), parallel_iterations=1, maximum_iterations=count
        )
        return found.stack()

    def _advance(self, weights: Any, rows: Any, data: Any) -> Any:
        learned = self._variables.learned
        assign(learned, cut(weights, learned))
        sums = self._step(rows, data)
        return flat([*(tensorflow.convert_to_tensor(variable.value) for variable in learned), sums])

    def _scored(self, rows: Any, share: Any, data: Any) -> Any:
        return self._passed(data, rows, share, training=False)[0].sums


def _with_data(function: Callable[..., Any], form: Any, *given: Any) -> Any:
    """The data's tensors come last, and are nested again."""
    count = sum(leaf is not None for leaf in leaves(form))
    return function(*given[: len(given) - count], nested(form, given[len(given) - count :]))


def tensors(block: Columns) -> Block:
    """Held so."""
    found = standard(block)
    columns = (found.x, found.y, found.weight)
    arrays = [numpy.ascontiguousarray(array) for array in leaves(columns) if array is not None]
    tensors = [tensorflow.convert_to_tensor(array) for array in arrays]
    specs = [tensorflow.TensorSpec([None, *tensor.shape[1:]], tensor.dtype) for tensor in tensors]
    form = mapped(lambda array: None if array is None else True, columns)
    return Block(tensors, specs, form, (repr(form), *specs))
