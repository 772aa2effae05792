"""`Prepared`: rows on disk that `tenfold.prepare` and `tenfold.predict` have made, for every framework to read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy

from tenfold.data import feeds, manifest, order, stores
from tenfold.data.form import Form
from tenfold.data.manifest import Manifest
from tenfold.data.preparing import Piece
from tenfold.data.source import Rows, Source
from tenfold.data.writing import checksum
from tenfold.errors import BadCall
from tenfold.plan.needs import readable

Array = numpy.ndarray[Any, Any]


class Prepared(Source):
    """A prepared set, or some rows of one. Pickled as the name of its folder."""

    def __init__(
        self, form: Form, store: stores.Store, count: int, folder: Path | None, rows: Array | None = None
    ) -> None:
        self.form = form
        self.folder = folder
        """Where it is; None for one that is in memory."""
        self._store = store
        self._count = count
        self._rows = rows

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Prepared:
        """The set in a folder."""
        path = Path(folder).absolute()
        found = manifest.read(path)
        if found is None:
            raise BadCall(f"{str(path)!r} holds no prepared set: there is no {manifest.NAME}")
        missing = [name for name in stores.files(found.form, found.format) if not (path / name).exists()]
        if missing:
            raise BadCall(f"{str(path)!r} is not whole: {', '.join(missing)} is missing; prepare it again")
        return cls(found.form, stores.KINDS[found.format](path, found.form), found.rows, path)

    # -- a source -----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._count if self._rows is None else len(self._rows)

    @property
    def length(self) -> int:
        return len(self)

    def read(self, start: int, stop: int) -> Rows:
        return self.form.nested([numpy.array(array) for array in self._arrays(start, stop)])

    def view(self, start: int, stop: int) -> Rows:
        return self.form.nested(self._arrays(start, stop))

    def _arrays(self, start: int, stop: int) -> list[Array]:
        start, stop = max(0, start), min(stop, len(self))
        return self._store.read(start, stop) if self._rows is None else self._store.take(self._rows[start:stop])

    def take(self, rows: Array) -> Rows:
        """Any rows, in the order that is asked for."""
        return self.form.nested(self._store.take(rows if self._rows is None else self._rows[rows]))

    def stamp(self, start: int, stop: int) -> str:
        if self.folder is None:
            return f"{checksum([self._arrays(start, stop)]):08x}"
        selected = "" if self._rows is None else f" {checksum([[self._rows[start:stop]]]):08x}"
        status = (self.folder / manifest.NAME).stat()
        return f"{self.folder} {status.st_mtime_ns} {start} {stop}{selected}"

    @property
    def sample_bytes(self) -> int:
        return self.form.row_bytes

    def describe(self) -> str:
        columns = ", ".join(f"{column.name} ({column})" for column in self.form.columns)
        where = "in memory" if self.folder is None else f"in {str(self.folder)!r}"
        left_out = f"; {len(self.quarantine)} samples in quarantine" if self.quarantine else ""
        return f"{len(self)} rows, {readable(len(self) * self.form.row_bytes)} {where}: {columns}{left_out}"

    def __repr__(self) -> str:
        return f"Prepared: {self.describe()}"

    # -- arrays -------------------------------------------------------------------------------------------------

    def numpy(self) -> Any:
        """All rows as arrays, as a sample has them.

        `.npy` files are mapped: nothing is copied, and nothing is read yet. Of some rows of a set, that is so where
        they follow each other; others are copied. Rows in Zarr or Parquet are decoded into memory.
        """
        arrays = self._store.whole()
        if self._rows is not None:
            arrays = [array[self._selection] for array in arrays]
        return self.form.nested(arrays)

    @cached_property
    def _selection(self) -> Any:
        """Consecutive rows as a slice, so that they are not copied."""
        rows = self._rows
        assert rows is not None
        if len(rows) and (numpy.diff(rows) == 1).all():
            return slice(int(rows[0]), int(rows[-1]) + 1)
        return rows

    def dask(self) -> Any:
        """A Dask array for each column, nested as a sample; chunks are read where they are needed."""
        return feeds.dask(self)

    # -- batches ------------------------------------------------------------------------------------------------

    def iterate(
        self,
        batch_size: int = 32,
        *,
        shuffle: bool = False,
        seed: int = 0,
        epochs: int = 1,
        first_epoch: int = 0,
        shard: tuple[int, int] = (0, 1),
        prefetch: int = 2,
    ) -> Iterator[Any]:
        """Batches of rows as arrays, read ahead in a thread.

        shuffle      all rows in a new order for each epoch, from `seed`
        epochs       how often every row comes, from `first_epoch` on
        shard        (i, n): the part of worker i of n. All have as many batches, and together every row once
        """
        numbers = {"seed": (seed, 0), "first_epoch": (first_epoch, 0), "prefetch": (prefetch, 0)}
        faults = _faults(shard, batch_size=(batch_size, 1), epochs=(epochs, 1), **numbers)
        if faults:
            raise BadCall("; ".join(faults))
        cuts = order.batches(len(self), batch_size, shard) if len(self) else []
        places = (
            found[cut]
            for epoch in range(first_epoch, first_epoch + epochs)
            for found in [order.permutation(len(self), seed, epoch, shuffle=shuffle)]
            for cut in cuts
        )
        return _ahead(self, places, prefetch)

    def tensorflow(
        self,
        batch_size: int = 32,
        shuffle: bool = False,
        seed: int = 0,
        map: Any = None,  # noqa: A002  # as tf.data calls it
        **others: Any,
    ) -> Any:
        """A `tf.data.Dataset` of batches; read again, it is the next epoch. The others are those of `iterate`.

        `map` is a function of a batch, in operations of TensorFlow, which runs in parallel in each epoch, in order.
        """
        return feeds.tensorflow(self, map, batch_size=batch_size, shuffle=shuffle, seed=seed, **others)

    def torch(self, batch_size: int = 32, shuffle: bool = False, seed: int = 0, **others: Any) -> Any:
        """A PyTorch `DataLoader` of batches; read again, it is the next epoch. The others are those of `iterate`."""
        return feeds.torch(self, batch_size=batch_size, shuffle=shuffle, seed=seed, **others)

    # -- some rows ----------------------------------------------------------------------------------------------

    def split(self, *fractions: float, by: str | None = None, seed: int = 0) -> list[Prepared]:
        """Sets that have no row in common, of these shares, drawn by `seed`.

        With `by`, the name of a column, each of them has as much of every value of it, to a row or two.
        """
        if not fractions or not all(one > 0 for one in fractions) or not sum(fractions) <= 1 + 1e-9:
            raise BadCall(f"split{fractions}: expected shares above 0 that add up to at most 1, such as 0.8, 0.2")
        generator = numpy.random.default_rng(seed)
        drawn = generator.permutation(len(self))
        if by is not None:  # group after group, dealt out as one row of cards: groups may be smaller than shares
            groups = self._groups(by)
            turns = generator.permutation(len(self))
            drawn = drawn[numpy.argsort(turns[groups[drawn]], kind="stable")]
        sizes = numpy.diff(numpy.rint(numpy.cumsum([0.0, *fractions]) * len(self)).astype(int))
        return [self._some(numpy.sort(share)) for share in order.dealt(drawn, sizes)]

    def _groups(self, by: str) -> Array:
        """Which of its values each row has, by number."""
        names = [column.name for column in self.form.columns]
        if by not in names:
            raise BadCall(f"by={by!r}: there is no such column, only {', '.join(names)}")
        column = self.form.columns[names.index(by)]
        if column.shape:
            raise BadCall(f"by={by!r}: its rows are {column}; expected one value a row")
        _, places = numpy.unique(self.only(names.index(by)).numpy(), return_inverse=True)
        return places

    def sample(self, count: int, seed: int = 0) -> Prepared:
        """Some rows, drawn by `seed`, as a set of their own."""
        if not _is_whole(count, 0) or not 0 < count <= len(self):
            raise BadCall(f"sample({count!r}): expected a whole number, from 1 to {len(self)}, the number of rows")
        return self._some(numpy.sort(numpy.random.default_rng(seed).choice(len(self), count, replace=False)))

    def only(self, place: int) -> Prepared:
        """A set of one of the columns."""
        return Prepared(self.form.only(place), self._store.only(place), self._count, self.folder, self._rows)

    def _some(self, rows: Array) -> Prepared:
        chosen = rows if self._rows is None else self._rows[rows]
        return Prepared(self.form, self._store, self._count, self.folder, chosen)

    # -- what is known about it ---------------------------------------------------------------------------------

    @property
    def _manifest(self) -> Manifest | None:
        return manifest.read(self.folder) if self.folder is not None else None

    @cached_property
    def quarantine(self) -> list[dict[str, Any]]:
        """Samples that were left out, each with its place in the source, its error and its traceback."""
        found = self._manifest
        faults = [fault for piece in found.pieces for fault in piece.faults] if found else []
        return [{"sample": f.sample, "error": f.error, "traceback": f.traceback} for f in faults]

    def verify(self) -> list[tuple[int, int]]:
        """Read everything and compare checksums. Returns the rows that are damaged, as (first, after the last).

        They are remembered: the next `tenfold.prepare` of this set makes them again.
        """
        found = self._manifest
        if found is None or self.folder is None:
            return []
        store = stores.KINDS[found.format](self.folder, found.form)  # opened anew, and of all columns

        def sound(placed: tuple[int, Piece]) -> bool:
            place, piece = placed
            try:
                return checksum(stores.blocks(store, found.form, place, place + piece.rows)) == piece.crc
            except Exception:  # the library of each format has errors of its own
                return False

        placed = list(found.placed())
        with ThreadPoolExecutor(thread_name_prefix="tenfold-verify") as threads:
            damaged = [number for number, good in enumerate(threads.map(sound, placed)) if not good]
        if tuple(damaged) != found.damaged:
            found.marked(damaged).write(self.folder / manifest.NAME)
        return [(placed[number][0], placed[number][0] + placed[number][1].rows) for number in damaged]


def _faults(shard: tuple[int, int], **numbers: tuple[int, int]) -> list[str]:
    """`numbers` are given with the least that they may be."""
    found = [
        f"{name}={value!r}: expected a whole number, {least} or above"
        for name, (value, least) in numbers.items()
        if not _is_whole(value, least)
    ]
    is_pair = isinstance(shard, tuple) and len(shard) == 2 and all(_is_whole(one, 0) for one in shard)
    if not (is_pair and shard[0] < shard[1]):
        found.append(f"shard={shard!r}: expected (i, n): worker i of n, counted from 0")
    return found


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int | numpy.integer) and not isinstance(value, bool) and int(value) >= least


def _ahead(prepared: Prepared, places: Iterator[Array], prefetch: int) -> Iterator[Any]:
    """Batches, of which the next ones are read while one is used."""
    if not prefetch:
        yield from map(prepared.take, places)
        return
    with ThreadPoolExecutor(1, thread_name_prefix="tenfold-read") as reader:
        coming = [reader.submit(prepared.take, rows) for _, rows in zip(range(prefetch), places, strict=False)]
        while coming:
            batch = coming.pop(0).result()
            following = next(places, None)
            if following is not None:
                coming.append(reader.submit(prepared.take, following))
            yield batch
