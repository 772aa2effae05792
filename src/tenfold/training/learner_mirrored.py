"""A Keras model on TensorFlow whose process has several devices: the rows of each batch are divided among them.

Every device has a copy of the variables (`MirroredStrategy`) and computes the vector of its rows, as a worker does of
its share. The vectors are added up, and the optimizer takes its step on every copy. It is called outside of the
strategy's scope, where Keras gives all devices the same gradients: inside, it would clip and scale those of each by
themselves. Keras's own `fit` is never used.

The devices may be those of several processes (`MultiWorkerMirroredStrategy`), which then do the same in the same order.

Batch normalisation sees whole batches. Layers that draw random numbers draw others on each device. Not run on a GPU.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow

from tenfold.errors import BadCall
from tenfold.fuse.building import Member
from tenfold.fuse.columns import Columns
from tenfold.fuse.reading import Held
from tenfold.training.groups import check_size
from tenfold.training.learner_keras import too_few
from tenfold.training.learner_tensorflow import Block, TensorFlowLearner, tensors

if TYPE_CHECKING:
    from tenfold.fuse.fit import Fit

HOST = "CPU:0"
APART = 3635633  # between the seeds of two devices, so that they draw other numbers; sixteen are an int32


def mirrored(devices: int) -> Any:
    """The strategy; models are built in its scope. Before TensorFlow starts: for want of GPUs, cores are devices."""
    if len(tensorflow.config.list_physical_devices("GPU")) >= devices:
        return tensorflow.distribute.MirroredStrategy([f"GPU:{number}" for number in range(devices)])
    (host,) = tensorflow.config.list_physical_devices("CPU")
    if not tensorflow.config.get_logical_device_configuration(host):
        one = tensorflow.config.LogicalDeviceConfiguration()
        try:
            tensorflow.config.set_logical_device_configuration(host, [one] * devices)
        except RuntimeError as error:  # it has started
            raise BadCall(too_few(devices, "TensorFlow has 1")) from error
    there = [device.name for device in tensorflow.config.list_logical_devices("CPU")]
    if len(there) < devices:
        raise BadCall(too_few(devices, f"TensorFlow has {len(there)}"))
    adding = tensorflow.distribute.ReductionToOneDevice()  # it would be taken anyway, with a warning
    return tensorflow.distribute.MirroredStrategy(there[:devices], adding)


def everywhere(workers: int) -> Any:
    """The same of all processes of a group, as TF_CONFIG has them."""
    known = tensorflow.distribute.cluster_resolver.TFConfigClusterResolver().cluster_spec()
    check_size("TensorFlow", known.num_tasks("worker") if known else 1, workers)
    kinds = tensorflow.distribute.experimental.CommunicationImplementation
    kind = kinds.NCCL if tensorflow.config.list_physical_devices("GPU") else kinds.RING
    options = tensorflow.distribute.experimental.CommunicationOptions(implementation=kind)
    return tensorflow.distribute.MultiWorkerMirroredStrategy(communication_options=options)


class MirroredLearner(TensorFlowLearner):
    """One model, and a copy of it on each device."""

    def __init__(self, fit: Fit, member: Member, built: Any, strategy: Any) -> None:
        import keras

        for layer in built._flatten_layers():
            if isinstance(layer, keras.layers.BatchNormalization):
                layer.synchronized = True
        super().__init__(fit, member, built)
        self.check_shares()
        self._strategy = strategy
        self._blocks = Held(_on_host)

    # -- compiled -------------------------------------------------------------------------------------------------

    def _vector_of(self, rows: Any, share: Any, data: Any) -> tuple[Any, Sequence[Any]]:
        of_rows = super()._vector_of

        def own(*given: Any) -> tuple[Any, list[Any]]:
            vector, seeds = of_rows(*given)
            return vector, [seed - _apart(seed) for seed in seeds]  # the first device's, in all processes

        vector, seeds = self._divided(own, rows, share, data)
        return self._sum(vector), [self._strategy.experimental_local_results(seed)[0] for seed in seeds]

    def _step(self, rows: Any, data: Any) -> Any:
        total = self._vector(rows, tensorflow.ones([]), data)
        self._take_total(total)
        return total[-self.sums_size :]

    def _scored(self, rows: Any, share: Any, data: Any) -> Any:
        own = super()._scored
        return self._sum(self._divided(lambda *given: (own(*given), ()), rows, share, data)[0])

    def _divided(self, function: Callable[..., tuple[Any, Any]], rows: Any, share: Any, data: Any) -> Any:
        """What each device makes of its rows. Of fewer rows than devices, each takes all of them, and counts less."""
        count = self._strategy.num_replicas_in_sync

        def own() -> tuple[Any, Any]:
            number, there = _number(), tensorflow.shape(rows)[0]
            whole = there < count
            start = tensorflow.where(whole, 0, there * number // count)
            stop = tensorflow.where(whole, there, there * (number + 1) // count)
            part = tensorflow.cast(stop - start, tensorflow.float32) / tensorflow.cast(there, tensorflow.float32)
            found, rest = function(rows[start:stop], share * part, data)
            return found * tensorflow.where(whole, 1.0 / count, 1.0), rest

        with _losses_as_they_are():
            return self._strategy.run(own)

    def _sum(self, found: Any) -> Any:
        return self._strategy.reduce(tensorflow.distribute.ReduceOp.SUM, found, axis=None)

    def _taken(self, data: Any, rows: Any) -> Any:
        with tensorflow.device(HOST):  # the data is there once; devices are sent their rows
            return super()._taken(data, rows)

    def _values(self) -> list[Any]:
        values, count = super()._values(), len(self._variables.seeds)
        rest, seeds = values[: len(values) - count], values[len(values) - count :]
        return [*rest, *(seed + _apart(seed) for seed in seeds)]


def _number() -> Any:
    """Of the device that computes."""
    return tensorflow.distribute.get_replica_context().replica_id_in_sync_group


def _apart(seed: Any) -> Any:
    """What is added to a random generator's state, so that this device draws other numbers than the others."""
    return tensorflow.cast([_number() * APART, 0], seed.dtype)


@contextlib.contextmanager
def _losses_as_they_are() -> Iterator[None]:
    """Keras would divide some losses, and not others, by the number of devices; here, all count by their rows."""
    from keras.src.losses import loss

    names = ("scale_loss_for_distribution", "unscale_loss_for_distribution")
    before = {name: getattr(loss, name) for name in names if hasattr(loss, name)}
    vars(loss).update(dict.fromkeys(before, lambda value: value))
    try:
        yield
    finally:
        vars(loss).update(before)


def _on_host(block: Columns) -> Block:
    with tensorflow.device(HOST):
        return tensors(block)
