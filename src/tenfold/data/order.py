"""In which order rows come, and in which batches: from the seed and the epoch alone, the same for every framework."""

from __future__ import annotations

from collections.abc import Sequence

import numpy

from tenfold.errors import BadCall


def permutation(
    count: int, seed: int, epoch: int, *, shuffle: bool
) -> numpy.ndarray[tuple[int], numpy.dtype[numpy.int64]]:
    """All rows, each once."""
    if not shuffle:
        return numpy.arange(count)
    return numpy.random.default_rng([seed, epoch]).permutation(count)


def dealt(rows: numpy.ndarray, sizes: Sequence[int]) -> list[numpy.ndarray]:
    """Shares of these sizes, dealt out evenly: of rows that follow one another, each has what it is due, to a row."""
    shares = []
    for size in sizes:
        mine = numpy.diff(numpy.arange(len(rows) + 1) * size // max(1, len(rows))) > 0
        shares.append(rows[mine])
        rows = rows[~mine]
    return shares


def batches(count: int, batch_size: int, shard: tuple[int, int] = (0, 1)) -> list[slice]:
    """Which places of the order a worker reads, batch by batch.

    `shard` is (this worker, how many there are). The workers' batches side by side are the order cut into batches of
    `batch_size` times the number of workers: so the order is the same for any number of them, every row comes once, and
    all have as many batches. What is left at the end is shared out; where it is less than a row for each, it is added
    to the batch before.
    """
    rank, workers = shard
    if count < workers:
        raise BadCall(f"shard=({rank}, {workers}): there are {count} rows, less than one for each worker")
    whole = batch_size * workers
    starts = list(range(0, count, whole))
    if len(starts) > 1 and count - starts[-1] < workers:
        starts.pop()
    found = []
    for start, stop in zip(starts, [*starts[1:], count], strict=True):
        share, more = divmod(stop - start, workers)
        first = start + rank * share + min(rank, more)
        found.append(slice(first, first + share + (rank < more)))
    return found
