"""A Keras model on PyTorch as one copy among several: gradients by PyTorch, steps by Keras's optimizer."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy
import torch

from tenfold.fuse.building import Member
from tenfold.fuse.columns import Columns, mapped
from tenfold.fuse.reading import Held
from tenfold.fuse.torch_step import Randomness, in_place
from tenfold.training.adding import Vector
from tenfold.training.keras_pass import Passed, assign, cut, flat, grown, growth
from tenfold.training.learner_keras import KerasLearner, standard

if TYPE_CHECKING:
    from tenfold.fuse.fit import Fit


class KerasTorchLearner(KerasLearner):
    """One copy of a model."""

    def __init__(self, fit: Fit, member: Member, built: Any) -> None:
        self._randomness = Randomness()  # dropout draws from the process's random numbers
        super().__init__(fit, member, built)
        self.device = next((variable.value.device for variable in self._variables.trained), torch.device("cpu"))
        self._blocks = Held(_tensors)

    def gradient(self, block: Columns, rows: numpy.ndarray, share: float, into: Vector) -> None:
        into[:] = 0
        if not len(rows):
            return
        known = self._variables
        with self._randomness:
            passed, gradients = self._passed(block, rows, share)
        with torch.no_grad():
            assign(known.seeds, passed.seeds)  # the next piece of a batch draws other numbers
            new, old = [*passed.averages, *passed.counters], [variable.value for variable in known.growing]
            in_place(into).copy_(flat([*gradients, *growth(share, new, old), passed.sums]))

    def apply(self, total: Vector) -> float:
        self._apply(total)
        return self._note(self._sums_of(total))

    def _apply(self, total: Vector) -> None:
        known = self._variables
        with torch.no_grad():
            vector = in_place(total).to(self.device, copy=True)
            old = [variable.value for variable in known.growing]
            assign(known.growing, grown(vector, known, old, self.gradient_size))
            self.optimizer.apply(self._scaled(cut(vector, known.trained)), known.trained)

    def steps(self, block: Columns, batches: Sequence[numpy.ndarray]) -> Sequence[float]:
        with self._randomness:
            return [self._note(self._step(block, rows)) for rows in batches]

    def advance(self, block: Columns, rows: numpy.ndarray, weights: numpy.ndarray, into: numpy.ndarray) -> None:
        self.read_weights(weights)
        with self._randomness:
            into[self.weights_size :] = self._step(block, rows)
        self.write_weights(into)

    def write_weights(self, into: numpy.ndarray) -> None:
        with torch.no_grad():
            into[: self.weights_size] = flat([variable.value for variable in self._variables.learned]).cpu().numpy()

    def read_weights(self, run: numpy.ndarray) -> None:
        import keras

        with torch.no_grad():
            assign(self._variables.learned, cut(keras.ops.convert_to_tensor(run), self._variables.learned))

    def score(self, block: Columns, rows: numpy.ndarray | None, into: Vector) -> None:
        sums = numpy.zeros(self.sums_size, numpy.float32)
        super().score(block, rows, sums)
        vector = in_place(into)
        vector[-len(sums) :] += torch.from_numpy(sums).to(vector.device)

    def logs(self, total: Vector | None = None) -> dict[str, float]:
        return super().logs(None if total is None else self._sums_of(total))

    def _sums_of(self, vector: Vector) -> numpy.ndarray:
        return in_place(vector)[-self.sums_size :].cpu().numpy()  # type: ignore[no-any-return]

    def _score(self, block: Columns, rows: numpy.ndarray, share: float) -> numpy.ndarray:
        self._model.eval()
        with self._randomness, torch.no_grad():
            found = self._passes(block, rows, share, training=False)
            return found.sums.cpu().numpy()  # type: ignore[no-any-return]

    # -- one batch ------------------------------------------------------------------------------------------------

    def _step(self, block: Columns, rows: numpy.ndarray) -> numpy.ndarray:
        """A whole batch; its sums."""
        known = self._variables
        passed, gradients = self._passed(block, rows, 1.0)
        with torch.no_grad():
            assign(known.growing, [*passed.averages, *passed.counters])
            assign(known.seeds, passed.seeds)
            self.optimizer.apply(self._scaled(gradients), known.trained)
            return passed.sums.cpu().numpy()  # type: ignore[no-any-return]

    def _passed(self, block: Columns, rows: numpy.ndarray, share: float) -> tuple[Passed, list[Any]]:
        """What comes of some rows, and the gradient."""
        self._model.train()  # for layers of PyTorch inside
        passed = self._passes(block, rows, share, training=True)
        trained = [variable.value for variable in self._variables.trained]
        loss = self.optimizer.scale_loss(passed.part)
        found = torch.autograd.grad(loss, trained, allow_unused=True)
        gradients = [torch.zeros_like(v) if one is None else one for v, one in zip(trained, found, strict=True)]
        return passed, self._scaled(gradients, back=True)

    def _passes(self, block: Columns, rows: numpy.ndarray, share: float, *, training: bool) -> Passed:
        data = self._blocks(block)
        places = torch.from_numpy(numpy.asarray(rows, numpy.int64))
        batch = mapped(lambda t: None if t is None else t.index_select(0, places.to(t.device)), data)
        values = [variable.value for variable in self._variables.state]
        return self._pass(values, batch, share, float(len(rows)), training=training, watch=torch.no_grad)

    # -- random numbers -------------------------------------------------------------------------------------------

    def _draw_others(self) -> None:
        super()._draw_others()
        self._randomness.divert(self._index)

    def state(self) -> list[Any]:
        return [*super().state(), copy.copy(self._randomness)]

    def put(self, state: list[Any]) -> None:
        *rest, randomness = state
        self._randomness = copy.copy(randomness)
        super().put(rest)


def _tensors(block: Columns) -> Any:
    import keras

    found = standard(block)
    return mapped(
        lambda array: None if array is None else keras.ops.convert_to_tensor(numpy.ascontiguousarray(array)),
        (found.x, found.y, found.weight),
    )
