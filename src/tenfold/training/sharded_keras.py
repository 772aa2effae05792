"""In a worker: a Keras model on JAX, divided among the devices of this one process.

Every large matrix is cut along one of its axes, so is what the optimizer remembers of it, and XLA puts the
communication between. Steps are Keras's own `train_step`, on the batches that the model would see by itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy

from tenfold.errors import BadCall
from tenfold.fuse import settings
from tenfold.fuse.building import Member, add_metrics, construct, kind_of
from tenfold.fuse.columns import Columns, mapped
from tenfold.fuse.reading import Reading
from tenfold.fuse.result import Weights
from tenfold.training import diverging
from tenfold.training.keeper import Keeper, Turns
from tenfold.training.learner_keras import trained_weights
from tenfold.training.record import Record
from tenfold.training.sharding import MODEL, ROWS, Layout, Sharded, Share, cut
from tenfold.training.strategy import Progress
from tenfold.training.terms import Checkpointing
from tenfold.work.clock import Clock
from tenfold.work.here import here

if TYPE_CHECKING:
    from tenfold.fuse.fit import Fit


class KerasShards:
    """The function of the one worker."""

    def __init__(
        self,
        fit: Fit,
        params: Mapping[str, Any],
        mesh: tuple[int, int],
        layout: Layout | None,
        often: Checkpointing | None = None,
    ) -> None:
        self._fit = fit
        self._params = params
        self._mesh = mesh
        self._layout = layout or {}
        self._often = often

    def __call__(self, keeper: Keeper | None = None) -> Sharded:
        with settings.applied(self._fit.settings):
            return self._train(keeper)

    def _train(self, keeper: Keeper | None) -> Sharded:
        import keras

        check_backend(keras.backend.backend())
        distribution = _distribution(self._mesh, self._layout)
        member = self._fit.member(self._params, here())
        keras.distribution.set_distribution(distribution)
        try:
            model = construct(self._fit.build, member.params)
            if kind_of(model) != "keras":
                raise BadCall("build: that it uses PyTorch is not seen in its code; import torch in it")
            loop = _Loop(self._fit, member, model, distribution)
            _check_layout(model, self._layout)  # only now: one without an Input is built from data
            return loop.train(keeper, self._often)
        finally:
            keras.distribution.set_distribution(None)

    def __tenfold_parts__(self) -> dict[str, Any]:
        return {"fit": self._fit, "params": dict(self._params)}

    @property
    def __name__(self) -> str:
        return f"train({self._fit.__name__})"


def check_backend(backend: str) -> None:
    """Refuse one on which Keras cannot divide a model."""
    if backend != "jax":
        raise BadCall(
            f'how="sharded": Keras divides a model among devices on JAX only, and its backend here is {backend}; '
            "set KERAS_BACKEND=jax before Keras is imported. A module of PyTorch is divided without Keras"
        )


def _distribution(mesh: tuple[int, int], layout: Layout) -> Any:
    import keras

    from tenfold.training.jax_devices import begin

    count = mesh[0] * mesh[1]
    begin(count)
    places = keras.distribution.DeviceMesh(mesh, [ROWS, MODEL], keras.distribution.list_devices()[:count])

    class Distribution(keras.distribution.ModelParallel):  # type: ignore[misc]
        """Cuts what the caller has not said how to cut."""

        def get_variable_layout(self, variable: Any) -> Any:
            known = getattr(variable, "_layout", None)
            if known is not None:
                return known
            given = (axes for pattern, axes in layout.items() if re.search(pattern, variable.path))
            axes = next(given, None) or cut(tuple(variable.shape), mesh[1])
            return keras.distribution.TensorLayout(tuple(axes), places)

        def get_data_layout(self, data_shape: Any) -> Any:
            """Rows are divided where that is even; the last batch of an epoch may not be."""
            first = ROWS if data_shape and data_shape[0] % mesh[0] == 0 else None
            return keras.distribution.TensorLayout((first, *[None] * (len(data_shape) - 1)), places)

    return Distribution(layout_map=keras.distribution.LayoutMap(places), batch_dim_name=ROWS)


def _check_layout(model: Any, layout: Layout) -> None:
    """Refuse patterns that say nothing of this model."""
    paths = [variable.path for variable in model.variables]
    for pattern in layout:
        if not any(re.search(pattern, path) for path in paths):
            raise BadCall(f"layout: {pattern!r} is in the path of no variable: {', '.join(paths)}")


class _Loop:
    """The training of one model."""

    def __init__(self, fit: Fit, member: Member, model: Any, distribution: Any) -> None:
        import jax

        self._fit = fit
        self._member = member
        self._model = model
        self._distribution = distribution
        self._reading = Reading(fit, [member], alone=True)
        if fit.metrics:
            add_metrics(model, fit.metrics)
        model._symbolic_build(data_batch=self._reading.sample.take(slice(0, 1)).parts)
        model.optimizer.build(model.trainable_variables)
        self._variables = [model.trainable_variables, model.non_trainable_variables, model.optimizer.variables]
        self._state = [[variable.value for variable in some] for some in self._variables]
        # What comes out lies where it lay, or the next step would be another program; nothing is there twice.
        places = tuple([value.sharding for value in some] for some in (*self._state, self._fresh()))
        self._places = places
        self._train = jax.jit(model.train_step, donate_argnums=0, out_shardings=(None, places))
        self._test = jax.jit(model.test_step)
        self._metrics = self._fresh()
        self._logs: dict[str, Any] = {}
        self._taken: numpy.ndarray | None = None  # rows of the last step, until its loss is looked at
        self._progress = Progress(Record.fresh(fit.stopping))

    def train(self, keeper: Keeper | None, often: Checkpointing | None) -> Sharded:
        """From what was kept, if something was."""
        self._clock = Clock() if keeper is None else keeper.clock
        kept = None if keeper is None else keeper.recall()
        if kept is not None:
            self._go_on(*kept)
        self._keeper, self._turns = keeper, Turns(often, self._progress.step, lambda number: number)
        progress = self._progress
        while progress.epoch < self._fit.epochs and not progress.record.stopped:
            logs = self._epoch() | self._scores()
            progress.record.add(progress.epoch, logs, self._weights)
            self._member.tell(progress.epoch, logs)
            progress.epoch, progress.batch = progress.epoch + 1, 0
        result = progress.record.result(self._member.params, self._weights, "sharded")
        shares, whole = self._shares()
        self._clock.lap("compute")
        return Sharded(result, progress.step, len(shares), spent=self._clock.spent, shares=shares, whole=whole)

    def _epoch(self) -> dict[str, float]:
        progress = self._progress
        if progress.batch == 0:
            self._metrics, self._logs = self._fresh(), {}
        self._taken = None
        for block, rows in self._reading.batches(self._member, progress.epoch, progress.batch):
            self._clock.lap("input")
            taken, before = (*self._state, self._metrics), (self._logs, self._taken)
            self._logs, (*self._state, self._metrics) = self._train(taken, self._batch(block, rows))
            self._taken = block.numbers(rows)
            self._check(*before)  # the one that is under way is not waited for
            self._clock.stepped()
            progress.batch, progress.step = progress.batch + 1, progress.step + 1
            if self._keeper is not None and self._turns.due(progress.step):
                self._check(self._logs, self._taken)
                self._keeper.keep(progress.step, self._kept())
                self._clock.lap("communication")
        self._check(self._logs, self._taken)
        return {name: float(value) for name, value in self._logs.items()}

    def _check(self, logs: Mapping[str, Any], rows: numpy.ndarray | None) -> None:
        """After a step: its number, and the mean loss of the epoch up to it, which stays what it is if that is NaN."""
        if rows is not None and "loss" in logs:
            place = self._progress
            number, step = place.batch - 1, place.step - 1
            diverging.check(float(logs["loss"]), rows, epoch=place.epoch, batch=number, step=step)

    def _kept(self) -> tuple[Progress, list[list[numpy.ndarray]], dict[str, float]]:
        """What it goes on from: the parts of all devices, put together in this machine's memory."""
        arrays = [[numpy.asarray(value) for value in some] for some in (*self._state, self._metrics)]
        return self._progress, arrays, {name: float(value) for name, value in self._logs.items()}

    def _go_on(self, progress: Progress, arrays: list[list[numpy.ndarray]], logs: dict[str, float]) -> None:
        import jax

        self._progress, self._logs = progress, logs
        pairs = zip(arrays, self._places, strict=True)
        *self._state, self._metrics = (list(map(jax.device_put, some, places)) for some, places in pairs)

    def _scores(self) -> dict[str, float]:
        size, metrics, logs = self._fit.batch_size, self._fresh(), {}
        trainable, others, _ = self._state
        for block, own in self._reading.validation([self._member]):
            rows = numpy.arange(len(block), dtype=numpy.int32) if own is None else own[0]
            for start in range(0, len(rows), size):
                batch = self._batch(block, rows[start : start + size])
                logs, (_, _, metrics) = self._test((trainable, others, metrics), batch)
        return {f"val_{name}": float(value) for name, value in logs.items()}

    def _fresh(self) -> list[Any]:
        """Sums of metrics that have seen nothing."""
        self._model.reset_metrics()
        return [variable.value for variable in self._model.metrics_variables]

    def _batch(self, block: Columns, rows: numpy.ndarray) -> Any:
        import jax

        def placed(array: Any) -> Any:
            if array is None:
                return None
            some = numpy.asarray(array[rows])
            return jax.device_put(some, self._distribution.get_data_layout(some.shape).backend_layout)

        return mapped(placed, (block.x, block.y, block.weight))

    def _weights(self) -> Weights:
        for variables, values in zip(self._variables, self._state, strict=True):
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value)
        return trained_weights(self._model)

    def _shares(self) -> tuple[tuple[Share, ...], Share]:
        """Counted from what each device has in its memory."""
        trainable, others, optimizer = self._state
        found = []
        for arrays in ([*trainable, *others], optimizer):
            held: dict[str, int] = {}
            for array in arrays:
                for shard in array.addressable_shards:
                    name = f"{shard.device.platform}:{shard.device.id}"
                    held[name] = held.get(name, 0) + shard.data.nbytes
            found.append((held, sum(array.nbytes for array in arrays)))
        (own, all_own), (remembered, all_remembered) = found
        shares = [Share(name, size, remembered.get(name, 0)) for name, size in sorted(own.items())]
        return tuple(shares), Share("", all_own, all_remembered)
