"""Which rows a group of models sees, epoch by epoch: read once, for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy

from tenfold.fuse import order
from tenfold.fuse.building import Member
from tenfold.fuse.columns import Columns, mapped
from tenfold.work.run import Declined

if TYPE_CHECKING:
    from tenfold.fuse.fit import Fit


Part = Callable[[int, numpy.ndarray], numpy.ndarray]
"""Which of the rows of a batch a worker has; the batch is known by its number, too."""


class Reading:
    """The data of a `Fit` for models that have rows of their own, or not."""

    def __init__(self, fit: Fit, members: Sequence[Member], *, alone: bool = False) -> None:
        self._fit = fit
        whole, training = fit.data, fit.training
        own = members[0].rows is not None or members[0].validation_rows is not None
        self.rows = fit.rows_of(members[0])[0]
        """How many rows each is trained on."""
        self._scores_own = fit.own_validation(members[0])
        self._shows_own = members[0].output_rows is not None
        if (own or self._shows_own) and whole.streams:
            if not alone:
                raise Declined("models with rows of their own need data that fits in memory, and this is streamed")
            whole, training = (replace(columns, streams=False) for columns in (whole, training))
        self._training = training if own else training.take(slice(0, fit.rows_of(None)[0]))
        self._validation = fit.validation_columns
        if self._scores_own:
            self._validation = whole
        elif self._validation is None and fit.validation is not None:
            self._validation = whole.take(slice(fit.rows_of(None)[0], None))
        self._blocks = self._cut(self._training)
        self._scored = [] if self._validation is None else self._cut(self._validation)
        self._whole = self._blocks[0] if own else whole

    def _cut(self, columns: Columns) -> list[Columns]:
        return [columns.take(cut) for cut in columns.blocks(self._fit.batch_size)]

    def training(self, members: Sequence[Member], epoch: int) -> Iterator[tuple[Columns, numpy.ndarray]]:
        """Blocks, read ahead, each with every model's order of its rows."""
        found = self.orders(members, epoch)
        return zip(_ahead([block for block, _ in found]), [rows for _, rows in found], strict=True)

    def batches(self, member: Member, epoch: int, after: int = 0) -> Iterator[tuple[Columns, numpy.ndarray]]:
        """One model's batches of an epoch, after so many of them: a block, and the rows of it."""
        size, place = self._fit.batch_size, 0
        for block, orders in self.training([member], epoch):
            for start in range(0, orders.shape[1], size):
                if place >= after:
                    yield block, orders[0][start : start + size]
                place += 1

    def shares(
        self, member: Member, epoch: int, after: int, part: Part
    ) -> Iterator[tuple[Columns, numpy.ndarray, numpy.ndarray]]:
        """The same for one of several workers: a block, its part of the rows of it, and the whole batch's in the data.

        Of a stream, nothing but its part is read, and the rows of its part are those of what was read.
        """
        cuts, place = [], 0
        for block, orders in self.orders([member], epoch):
            batches = _batches(orders[0], self._fit.batch_size)
            left = batches[max(0, after - place) :]
            if left:
                cuts.append((block, left, place + len(batches) - len(left)))
            place += len(batches)
        return _shared(cuts, part)

    def scored_shares(
        self, member: Member, part: Part, size: int | None = None
    ) -> Iterator[tuple[Columns, numpy.ndarray, numpy.ndarray]]:
        """Rows to score in the same way, so many at a time, or a block at a time."""
        cuts, place = [], 0
        for block in self._scored:
            own = self._fit.own_validation(member)
            rows = self._fit.validation_rows(member) if own else numpy.arange(len(block), dtype=numpy.int32)
            batches = _batches(rows, size or max(1, len(rows)))
            cuts.append((block, batches, place))
            place += len(batches)
        return _shared(cuts, part)

    def orders(self, members: Sequence[Member], epoch: int) -> list[tuple[Columns, numpy.ndarray]]:
        """The same, with nothing read yet."""
        places = order.blocks(len(self._blocks), epoch, shuffle=self._fit.shuffle)
        return [(block := self._blocks[place], self._order(members, epoch, place, len(block))) for place in places]

    def _order(self, members: Sequence[Member], epoch: int, place: int, count: int) -> numpy.ndarray:
        rows = []
        for member in members:
            own = self._fit.training_rows(member)
            shuffled = order.rows(
                count if own is None else len(own), member.seed, epoch, place, shuffle=self._fit.shuffle
            )
            rows.append(shuffled if own is None else own[shuffled])
        return numpy.stack(rows)

    def validation(self, members: Sequence[Member]) -> Iterator[tuple[Columns, numpy.ndarray | None]]:
        """Blocks to score, with every model's own rows where they have some."""
        own = self._fit.own_validation(members[0])
        for block in _ahead(self._scored):
            yield block, numpy.stack([self._fit.validation_rows(member) for member in members]) if own else None

    def scored(self, member: Member) -> Columns | None:
        """All rows that one model is scored on, with nothing read yet."""
        if self._validation is None or not self._fit.own_validation(member):
            return self._validation
        return self._validation.take(self._fit.validation_rows(member))

    def outputs(self, members: Sequence[Member]) -> Iterator[tuple[Columns, numpy.ndarray | None]]:
        """Blocks whose outputs results have, with every model's own rows where they have some."""
        own = [member.output_rows for member in members if member.output_rows is not None]
        return iter([(self._whole, numpy.stack(own))]) if own else self.validation(members)

    def shown(self, member: Member) -> Columns | None:
        """All rows whose outputs one model's result has, with nothing read yet."""
        return self.scored(member) if member.output_rows is None else self._whole.take(member.output_rows)

    @property
    def sample(self) -> Columns:
        """Rows to train on, for shapes."""
        return self._blocks[0]

    @property
    def shown_sample(self) -> Columns:
        """Rows whose outputs are asked for, for shapes."""
        return self._whole if self._shows_own else self.scored_sample

    @property
    def scores(self) -> bool:
        """Whether models are scored at all."""
        return bool(self._scored)

    @property
    def scored_by_all(self) -> Columns | None:
        """The first block that is scored, where all models are scored on all of it and it is in memory."""
        return self._scored[0] if self._scored and not self._scores_own and not self._scored[0].streams else None

    @property
    def scored_sample(self) -> Columns:
        """Rows to score, for shapes."""
        return self._scored[0] if self._scored else self._blocks[0]


class Held:
    """Blocks as a framework wants them. The last two are kept, to train on and to score; of a stream, the last one."""

    def __init__(self, convert: Callable[[Columns], Any]) -> None:
        self._convert = convert
        self._known: list[tuple[Columns, Any]] = []

    def __call__(self, block: Columns) -> Any:
        for known, found in self._known:
            if known is block:
                return found
        if block.passing:  # the one before it goes first: there is never room for both
            self._known = [(known, found) for known, found in self._known if not known.passing]
        found = self._convert(block)
        self._known = [*self._known[-1:], (block, found)]
        return found


def _batches(rows: numpy.ndarray, size: int) -> list[numpy.ndarray]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def _shared(
    cuts: Sequence[tuple[Columns, list[numpy.ndarray], int]], part: Part
) -> Iterator[tuple[Columns, numpy.ndarray, numpy.ndarray]]:
    """Blocks, their batches and the number of the first of them, seen by one who has a part of each batch."""
    parts = [[part(number + n, rows) for n, rows in enumerate(batches)] for _, batches, number in cuts]
    wanted = [_wanted(block, own, batches[0]) for (block, batches, _), own in zip(cuts, parts, strict=True)]
    blocks = _ahead([block for block, _, _ in cuts], wanted)
    for block, (cut, batches, _), own, read in zip(blocks, cuts, parts, wanted, strict=True):
        for rows, share in zip(batches, own, strict=True):
            used = share if read is None else numpy.searchsorted(read, share).astype(numpy.int32)
            yield block, used, cut.numbers(rows)


def _wanted(block: Columns, own: list[numpy.ndarray], batch: numpy.ndarray) -> numpy.ndarray | None:
    """Which rows are read of a block, in the order in which they lie; one at least, for shapes. None for all."""
    if not block.streams:
        return None
    found = numpy.unique(numpy.concatenate(own))
    return found if len(found) else batch[:1]


def own_rows(block: Columns, rows: numpy.ndarray) -> tuple[Columns, numpy.ndarray]:
    """A block that has these rows, and which of it they are. Of a stream, nothing else is read."""
    if not block.streams:
        return block, rows
    return _read(block, rows), numpy.arange(len(rows), dtype=numpy.int32)


def _ahead(blocks: list[Columns], wanted: Sequence[numpy.ndarray | None] | None = None) -> Iterator[Columns]:
    """Read the next block while the last one is used, or some rows of it.

    What is not streamed is used as it is, where it lies.
    """
    if len(blocks) == 0 or not blocks[0].streams:
        yield from blocks
        return
    parts = [None] * len(blocks) if wanted is None else wanted
    with ThreadPoolExecutor(1, thread_name_prefix="tenfold-read") as reader:
        coming = reader.submit(_read, blocks[0], parts[0])
        for following in [*zip(blocks[1:], parts[1:], strict=True), None]:
            block = coming.result()
            if following is not None:
                coming = reader.submit(_read, *following)
            yield block


def _read(block: Columns, rows: numpy.ndarray | None = None) -> Columns:
    def read(array: numpy.ndarray | None) -> numpy.ndarray | None:
        if array is None:
            return None
        return numpy.array(array) if rows is None else numpy.asarray(array[rows])  # numbers of rows make a copy

    x, y, weight = mapped(read, (block.x, block.y, block.weight))
    return Columns(x, y, weight, passing=True, start=block.start)
