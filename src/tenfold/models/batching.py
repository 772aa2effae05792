"""Any number of rows through a model, in batches of one size."""

from __future__ import annotations

import numpy

from tenfold.errors import BadCall
from tenfold.models import nesting
from tenfold.models.model import Predict
from tenfold.models.nesting import Outputs, Rows


def batched(predict: Predict, rows: Rows, batch_size: int) -> Outputs:
    """What the model gives for all rows, in their order.

    A model that is compiled for a size of batch never sees another: the last row is repeated until the batch is full,
    and what comes out for the repeated ones is dropped. So it compiles once, however many rows there are. Numbers do
    not depend on `batch_size` beyond the rounding of floats. The outputs never lie in the memory of the rows.
    """
    length = nesting.count(rows)
    if batch_size < 1:
        raise BadCall(f"batch_size={batch_size!r}: expected 1 or more")
    if length <= batch_size:
        return nesting.apart(_one(predict, rows, length, batch_size), rows)
    joined = None
    for start in range(0, length, batch_size):
        stop = min(start + batch_size, length)
        found = _one(predict, nesting.cut(rows, start, stop), stop - start, batch_size)
        if joined is None:
            joined = nesting.each(lambda array: _room(array, length), found)
        joined = nesting.each(lambda room, array: _put(room, array, start, stop), joined, found)  # noqa: B023  # now
    return joined


def _one(predict: Predict, rows: Rows, length: int, size: int) -> Outputs:
    """A batch, or what is left for the last one; a model may never be asked about no rows at all, unless it is."""
    full = predict.fixed and 0 < length < size
    found = predict(nesting.padded(rows, size) if full else rows)
    nesting.each(lambda array: _check(array, size if full else length), found)
    return nesting.cut(found, 0, length) if full else found


def _room(array: numpy.ndarray, length: int) -> numpy.ndarray:
    return numpy.empty((length, *array.shape[1:]), array.dtype)


def _put(room: numpy.ndarray, array: numpy.ndarray, start: int, stop: int) -> numpy.ndarray:
    """The room with these outputs in it; a larger one where they would lose something: longer texts, more digits."""
    if array.shape[1:] != room.shape[1:]:
        raise BadCall(
            f"model: for rows {start} to {stop} it gave {array.shape[1:]} for each row, and {room.shape[1:]} for those "
            "before; expected one shape for all rows"
        )
    if room.dtype != array.dtype and not numpy.can_cast(array.dtype, room.dtype, "safe"):
        room = room.astype(numpy.result_type(room, array))
    room[start:stop] = array
    return room


def _check(array: numpy.ndarray, length: int) -> None:
    if array.ndim == 0 or len(array) != length:
        shape = array.shape
        raise BadCall(
            f"model: for {length} rows it gave an array of the shape {shape}; expected a value for each row, so that "
            f"its shape begins with {length}"
        )
