"""One Keras model, trained by `model.fit` in this process's backend, on the batches that it would see in a group."""

from __future__ import annotations

import copy
import math
import pickle
from typing import TYPE_CHECKING, Any

import numpy

from tenfold.fuse.building import Member, add_metrics, directed, same_params
from tenfold.fuse.checkpoint import Saved
from tenfold.fuse.columns import Columns, mapped
from tenfold.fuse.outputs import Outputs
from tenfold.fuse.reading import Reading
from tenfold.fuse.result import FitResult
from tenfold.fuse.stopping import Patience
from tenfold.work.leg import Why

if TYPE_CHECKING:
    from tenfold.fuse.fit import Fit


class Loop:
    """The training of one model, or of one leg of it."""

    def __init__(self, fit: Fit, member: Member, model: Any) -> None:
        self._fit = fit
        self._member = member
        self._model = model
        self._reading = Reading(fit, [member], alone=True)
        self._epoch = 0
        self._history: dict[str, list[float]] = {}
        self._watch = Patience(fit.stopping) if fit.stopping is not None else None
        self._best: list[numpy.ndarray] | None = None
        self._ended: Why | None = None
        self._random: Any = None  # where the process's random numbers were
        if fit.metrics:
            add_metrics(model, fit.metrics)
        if member.leg is not None and member.leg.state is not None:
            self._go_on(member.leg.state)

    def train(self, how: str) -> FitResult:
        fit, until = self._fit, self._member.until(self._fit.epochs)
        batches = _batches(fit, self._reading, self._member)
        self._model.fit(
            batches,
            initial_epoch=self._epoch,
            epochs=until,
            validation_data=self._validation(),
            validation_batch_size=fit.batch_size,
            shuffle=False,
            callbacks=[*copy.deepcopy(fit.callbacks), self._callback(batches)],
            verbose=0,
        )
        done = self._epoch == fit.epochs or (self._watch is not None and self._watch.stopped)
        ended: Why = "finished" if done else self._ended or "paused"
        saved = self._saved() if ended == "paused" else None
        best_epoch = None
        if self._best is not None and self._watch is not None:
            best_epoch = self._watch.best_epoch
            self._model.set_weights(self._best)
        weights, outputs = self._model.get_weights(), self._outputs()
        return FitResult(self._member.params, self._history, weights, how, best_epoch, ended, saved, outputs=outputs)

    def _outputs(self) -> Outputs:
        rows = self._reading.shown(self._member) if self._fit.outputs else None
        return None if rows is None else self._model.predict(rows.x, verbose=0)

    # -- between epochs -------------------------------------------------------------------------------------------

    def _callback(self, batches: Any) -> Any:
        import keras

        return keras.callbacks.LambdaCallback(
            on_epoch_begin=lambda epoch, _: self._begin(epoch, batches),
            on_epoch_end=lambda epoch, logs: self._note(epoch, {name: float(value) for name, value in logs.items()}),
        )

    def _begin(self, epoch: int, batches: Any) -> None:
        batches.turn(epoch)
        if self._random is not None:  # not before: Keras looks at a model first, and may draw some
            self._random.__enter__()
            self._random = None

    def _note(self, epoch: int, logs: dict[str, float]) -> None:
        """After an epoch: may ask Keras to stop."""
        self._epoch = epoch + 1
        for name, value in logs.items():
            self._history.setdefault(name, []).append(value)
        watch = self._watch
        if watch is not None:
            watch.rule = directed(watch.rule, self._model)
        if watch is not None and watch.look(epoch, logs) and watch.rule.restore_best:
            self._best = self._model.get_weights()
        self._ended = self._member.tell(epoch, logs)
        if self._ended is not None or (watch is not None and watch.stopped):
            self._model.stop_training = True

    def _validation(self) -> tuple[Any, ...] | None:
        found = self._reading.scored(self._member)
        return None if found is None else found.parts

    # -- legs -----------------------------------------------------------------------------------------------------

    def _saved(self) -> Saved:
        arrays = [numpy.array(value) for value in map(_value, self._variables())]
        rest = [*_drawn(), *(self._best or [])]
        return Saved(self._epoch, [*arrays, *rest], self._history, self._watch, 1, self._member.params, "keras")

    def _go_on(self, saved: Saved) -> None:
        model = self._model
        if not model.built:
            model._symbolic_build(data_batch=self._reading.sample.take(slice(0, 1)).parts)
        model.optimizer.build(model.trainable_variables)
        rate = model.optimizer._learning_rate
        variables = self._variables()
        for variable, value in zip(variables, saved.arrays[: len(variables)], strict=True):
            if variable is not rate or same_params(saved.params, self._member.params):  # a study may go on with another
                variable.assign(value)
        rest = saved.arrays[len(variables) :]
        if _draws():
            self._random = pickle.loads(rest.pop(0).tobytes())
        self._best = rest or None
        self._epoch, self._history, self._watch = saved.begun()

    def _variables(self) -> list[Any]:
        """Everything that training goes on from: weights, states of random generators, the optimizer's own."""
        return [*self._model.variables, *self._model.optimizer.variables]


def _value(variable: Any) -> Any:
    import keras

    return keras.ops.convert_to_numpy(variable.value)


def _draws() -> bool:
    """Whether layers draw from the process's random numbers: dropout does, of Keras on PyTorch."""
    import keras

    return bool(keras.backend.backend() == "torch")


def _drawn() -> list[numpy.ndarray]:
    """Where those are now."""
    if not _draws():
        return []
    from tenfold.fuse.torch_step import Randomness

    return [numpy.frombuffer(pickle.dumps(Randomness(), protocol=5), numpy.uint8)]


def _batches(fit: Fit, reading: Reading, member: Member) -> Any:
    import keras

    class Batches(keras.utils.PyDataset):  # type: ignore[misc]
        """The model's batches, in the order that it would see them in a group."""

        def __init__(self) -> None:
            super().__init__(workers=1, use_multiprocessing=False)
            self.turn(0)

        def __len__(self) -> int:
            return len(self._cuts)

        def __getitem__(self, place: int) -> tuple[Any, ...]:
            block, rows = self._cuts[place]
            found: tuple[Any, ...] = mapped(lambda a: None if a is None else numpy.asarray(a[rows]), block.parts)
            return found[:1] if len(found) == 2 and found[1] is None else found  # TensorFlow takes no None there

        def turn(self, epoch: int) -> None:
            """Called when an epoch begins. Keras's own `on_epoch_end` also comes before the first one."""
            self._cuts = _cuts(fit, reading, member, epoch)

    return Batches()


def _cuts(fit: Fit, reading: Reading, member: Member, epoch: int) -> list[tuple[Columns, numpy.ndarray]]:
    size = fit.batch_size
    return [
        (block, rows[0][start * size : (start + 1) * size])
        for block, rows in reading.orders([member], epoch)
        for start in range(math.ceil(rows.shape[1] / size))
    ]
