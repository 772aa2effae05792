"""Prepared rows as frameworks want them. The order is that of `Prepared.iterate`, whoever reads."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy

from tenfold.data import order
from tenfold.data.stores import CHUNK
from tenfold.errors import BadCall

if TYPE_CHECKING:
    from tenfold.data.prepared import Prepared


class Epochs:
    """Each time that it is iterated, the next epoch."""

    def __init__(self, prepared: Prepared, batch_size: int, options: dict[str, Any]) -> None:
        self._prepared = prepared
        self._batch_size = batch_size
        self._options = options
        prepared.iterate(batch_size, **options)  # refuses what cannot work here, and not inside of a framework
        self._epochs = itertools.count(options.pop("first_epoch", 0), options.get("epochs", 1))

    def __len__(self) -> int:
        """How many batches that is."""
        count = len(self._prepared)
        cuts = order.batches(count, self._batch_size, self._options.get("shard", (0, 1))) if count else []
        return len(cuts) * int(self._options.get("epochs", 1))

    def __iter__(self) -> Iterator[Any]:
        return self._prepared.iterate(self._batch_size, first_epoch=next(self._epochs), **self._options)


def tensorflow(prepared: Prepared, change: Any = None, *, batch_size: int, **options: Any) -> Any:
    """`change` is done to each batch by tf.data's own threads."""
    import tensorflow as tf

    _refuse_dates(prepared, "TensorFlow")
    signature = [tf.TensorSpec((None, *column.shape), column.dtype) for column in prepared.form.columns]
    epochs = Epochs(prepared, batch_size, options)
    data = tf.data.Dataset.from_generator(lambda: iter(epochs), output_signature=prepared.form.nested(signature))
    # Without its length, Keras warns at the end of an epoch that there is not enough data.
    data = data.apply(tf.data.experimental.assert_cardinality(len(epochs)))
    if change is not None:
        data = data.map(change, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    return data.prefetch(2)


def torch(prepared: Prepared, *, batch_size: int, **options: Any) -> Any:
    from torch.utils.data import DataLoader, IterableDataset

    _refuse_dates(prepared, "PyTorch")

    class Batches(IterableDataset):  # type: ignore[misc]
        def __init__(self, epochs: Epochs) -> None:
            self._epochs = epochs

        def __len__(self) -> int:
            return len(self._epochs)

        def __iter__(self) -> Iterator[Any]:
            return map(_tensors, self._epochs)

    return DataLoader(Batches(Epochs(prepared, batch_size, options)), batch_size=None)


def _refuse_dates(prepared: Prepared, framework: str) -> None:
    for column in prepared.form.columns:
        if column.dtype.kind in "mM":
            raise BadCall(
                f"{column.name} is {column}: {framework} has no tensors of dates; return numbers, such as "
                "date.astype('int64')"
            )


def _tensors(batch: Any) -> Any:
    import torch as framework

    if isinstance(batch, dict):
        return {name: _tensors(array) for name, array in batch.items()}
    if isinstance(batch, tuple):
        return tuple(map(_tensors, batch))
    if batch.dtype.kind in "US":  # PyTorch has no tensors of texts; its own loaders give lists of them
        return batch.tolist()
    return framework.from_numpy(numpy.require(batch, requirements=["W", "C"]))


def dask(prepared: Prepared) -> Any:
    import dask.array

    arrays = []
    for place, column in enumerate(prepared.form.columns):
        step = max(1, CHUNK // max(1, column.row_bytes))
        lazy, chunks = _Lazy(prepared.only(place)), (step, *column.shape)
        arrays.append(dask.array.from_array(lazy, chunks=chunks, name=False, asarray=False, fancy=False))
    return prepared.form.nested(arrays)


class _Lazy:
    """What Dask takes for an array: a set of one column, read wherever Dask runs.

    Dask asks for a place or a slice of rows, of any step, and hands the rest of an index on.
    """

    def __init__(self, prepared: Prepared) -> None:
        [column] = prepared.form.columns
        self._prepared = prepared
        self.shape = (len(prepared), *column.shape)
        self.dtype = column.dtype
        self.ndim = len(self.shape)

    def __getitem__(self, key: Any) -> Any:
        first, *others = key if isinstance(key, tuple) else (key,)
        places = range(self.shape[0])[first]
        if isinstance(places, int):
            return self._prepared.read(places, places + 1)[(0, *others)]
        start, stop = (min(places), max(places) + 1) if places else (0, 0)
        return self._prepared.read(start, stop)[(slice(None, None, places.step), *others)]
