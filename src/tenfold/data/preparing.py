"""In a worker: a part of a source through the user's function, and its rows into the set that is being written.

Nothing goes back to the caller but a few numbers: how many rows, where they are, their checksum, and what failed.
"""

from __future__ import annotations

import json
import os
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy

from tenfold.data import stores, writing
from tenfold.data.form import Form, batch_of, block_of, check_row, form_of, rows_of
from tenfold.data.source import Part, Rows, Source, count, sample
from tenfold.errors import BadCall, SampleFailed
from tenfold.work.settled import settle

FORM = "form.json"
APART = "apart"
Block = list["numpy.ndarray[Any, Any]"]


@dataclass(frozen=True, slots=True)
class Fault:
    """A sample that is left out because something was wrong with it."""

    sample: int
    """Its place in the source."""
    error: str
    """One line."""
    traceback: str
    """As the worker saw it."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows that a part has become."""

    start: int
    """The first sample."""
    stop: int
    """After the last."""
    key: str | None
    """What its samples were."""
    rows: int
    """How many there are."""
    crc: int
    """Of their bytes."""
    faults: tuple[Fault, ...] = ()
    """What was left out."""
    spent: Mapping[str, float] = field(default_factory=dict)
    """Seconds of the task: "input" is how long its samples were read."""

    @property
    def in_place(self) -> bool:
        """They are where their samples are; otherwise in files of their own."""
        return self.rows == self.stop - self.start


@dataclass(frozen=True, slots=True)
class Kept:
    """Rows of an earlier call that can be used again."""

    folder: str
    """Of the files that they are in."""
    format: str
    """Of these files."""
    start: int
    """The first of them there."""
    rows: int
    """How many."""
    crc: int
    """Of their bytes."""
    faults: tuple[Fault, ...] = ()
    """What was left out, counted from the first sample."""


class Preparing:
    """The task of `tenfold.prepare`: called with parts."""

    notes_spent = True

    def __init__(
        self,
        function: Callable[[Any], Any],
        source: Source,
        folder: Path,
        *,
        batched: bool,
        batch: int | None,
        quarantines: bool,
        kept: Mapping[str, Kept],
    ) -> None:
        self._function = function
        self._source = source
        self._folder = folder
        self._batched = batched
        self._batch = batch
        self._quarantines = quarantines
        self._kept = kept
        self._form: Form | None = None
        self._reading = 0.0  # seconds
        if hasattr(function, "__tenfold_modules__"):
            self.__tenfold_modules__ = function.__tenfold_modules__

    def __tenfold_parts__(self) -> dict[str, Any]:
        return {"function": self._function, "batched": self._batched, "batch": self._batch}

    @property
    def __name__(self) -> str:
        return getattr(self._function, "__name__", type(self._function).__name__)

    def __call__(self, part: Part) -> Piece:
        again = self._used_again(part)
        if again is not None:
            return again
        faults: list[Fault] = []
        self._reading = 0.0
        block = self._joined(list(self._blocks(part, faults)))
        return replace(self._written(part, block, faults), spent={"input": self._reading})

    # -- writing ------------------------------------------------------------------------------------------------

    def _written(self, part: Part, block: Block | None, faults: list[Fault]) -> Piece:
        rows = len(block[0]) if block else 0
        crc = 0
        if block and rows:
            crc = writing.checksum(block)
            form = self._form
            assert form is not None
            if rows == part.stop - part.start:
                writing.write(self._folder, form, part.start, block)
            else:
                apart = apart_of(self._folder, part.start)
                apart.mkdir(parents=True, exist_ok=True)
                writing.write(apart, form, 0, block)
        return Piece(part.start, part.stop, part.key, rows, crc, tuple(faults))

    def _used_again(self, part: Part) -> Piece | None:
        """Rows that an earlier call has made of the same samples, unless they are damaged."""
        kept = self._kept.get(part.key) if part.key is not None else None
        if kept is None:
            return None
        block = kept_rows(kept, self._known_form()) if kept.rows else None
        if kept.rows and block is None:
            return None
        moved = [Fault(f.sample + part.start, f.error, f.traceback) for f in kept.faults]
        return self._written(part, block, moved)

    # -- the form -----------------------------------------------------------------------------------------------

    def _known_form(self) -> Form:
        """As the first part has left it; LookupError before that."""
        if self._form is None:
            self._form = read_form(self._folder)
        return self._form

    def _form_for(self, result: Any, *, batched: bool) -> Form:
        try:
            return self._known_form()
        except LookupError:
            self._form = write_form(self._folder, form_of(result, batched=batched))
            return self._form

    def _joined(self, blocks: list[Block]) -> Block | None:
        if len(blocks) < 2:
            return blocks[0] if blocks else None
        return [numpy.concatenate(arrays) for arrays in zip(*blocks, strict=True)]

    # -- samples ------------------------------------------------------------------------------------------------

    def _blocks(self, part: Part, faults: list[Fault]) -> Iterator[Block]:
        stop = part.start
        while stop < part.stop:
            start, stop = stop, min(stop + self._step(part.stop - stop), part.stop)
            try:
                rows = self._read(part, start, stop)
            except Exception as error:
                if stop - start == 1:
                    faults.append(self._fault(start, error))
                else:
                    for place in range(start, stop):
                        yield from self._blocks(_one(part, place), faults)
                continue
            found = (self._batch_block if self._batched else self._block)(rows, start, faults)
            del rows  # before the next are read: then these are in the same memory, and in the processor's cache
            if found is not None:
                yield found

    def _step(self, left: int) -> int:
        """How many of so many samples to read next."""
        if self._batched and self._batch:
            return self._batch
        at_a_time = getattr(self._function, "at_a_time", None)
        return at_a_time(left) if at_a_time is not None and self._source.is_flat else left

    def _read(self, part: Part, start: int, stop: int) -> Rows:
        if part.rows is not None:
            return _cut(part.rows, start - part.start, stop - part.start)
        began = time.monotonic()
        try:
            harmless = getattr(self._function, "changes_nothing", False)
            return self._source.view(start, stop) if harmless else self._source.read(start, stop)
        finally:
            self._reading += time.monotonic() - began

    def _batch_block(self, rows: Rows, start: int, faults: list[Fault]) -> Block | None:
        """A batch through a function of batches; one by one where that fails, to find out whose fault it is."""
        try:
            result = self._function(rows)
            if result is None:
                return None
            return batch_of(result, self._form_for(result, batched=True))
        except Exception as error:
            if count(rows) == 1:
                faults.append(self._fault(start, error))
                return None
            if not self._quarantines:
                raise SampleFailed(named(error, start, start + count(rows))) from error
        blocks = [self._batch_block(_cut(rows, i, i + 1), start + i, faults) for i in range(count(rows))]
        return self._joined([block for block in blocks if block is not None])

    def _block(self, rows: Rows, start: int, faults: list[Fault]) -> Block | None:
        function = self._function
        found: list[Any] = []
        places: list[int] = []
        for place in range(count(rows)):
            try:
                for row in rows_of(function(sample(rows, place))):
                    found.append(row)
                    places.append(start + place)
            except Exception as error:
                faults.append(self._fault(start + place, error))
        return self._stacked(found, places, faults)

    def _stacked(self, found: list[Any], places: list[int], faults: list[Fault]) -> Block | None:
        """Rows one upon the other, without those of a sample that has one of another form."""
        if not found:
            return None
        try:
            return block_of(found, self._form_for(found[0], batched=False))
        except BadCall as error:
            if self._form is None:
                raise SampleFailed(named(error, places[0])) from error
        odd: dict[int, Fault] = {}
        for row, place in zip(found, places, strict=True):
            try:
                check_row(row, self._form)
            except BadCall as error:
                odd.setdefault(place, self._fault(place, error))
        faults += odd.values()
        faults.sort(key=lambda fault: fault.sample)
        good = [row for row, place in zip(found, places, strict=True) if place not in odd]
        return block_of(good, self._form) if good else None

    def _fault(self, place: int, error: Exception) -> Fault:
        if not self._quarantines:
            raise SampleFailed(named(error, place)) from error
        line = "".join(traceback.format_exception_only(error)).strip()
        return Fault(place, line, "".join(traceback.format_exception(error)))


def named(error: Exception, start: int, stop: int | None = None) -> str:
    """What happened, and to which samples."""
    which = f"sample {start}" if stop is None else f"the batch of samples {start} to {stop - 1}"
    return f"{which}: {''.join(traceback.format_exception_only(error)).strip()}"


def ones(part: Part) -> list[Part]:
    """The same samples, each by itself."""
    return [_one(part, place) for place in range(part.start, part.stop)]


def _one(part: Part, place: int) -> Part:
    rows = None if part.rows is None else _cut(part.rows, place - part.start, place - part.start + 1)
    return Part(place, place + 1, None, rows)


def _cut(rows: Rows, start: int, stop: int) -> Rows:
    if isinstance(rows, Mapping):
        return {key: _cut(value, start, stop) for key, value in rows.items()}
    if isinstance(rows, tuple):
        return tuple(_cut(value, start, stop) for value in rows)
    return rows[start:stop]


# -- the folder -------------------------------------------------------------------------------------------------------


def kept_rows(kept: Kept, form: Form) -> Block | None:
    """Rows of an earlier call; None where they are damaged, or gone."""
    try:
        block: Block = stores.KINDS[kept.format](Path(kept.folder), form).read(kept.start, kept.start + kept.rows)
    except Exception:  # the library of each format has errors of its own
        return None
    return block if writing.checksum(block) == kept.crc else None


def apart_of(folder: Path, start: int) -> Path:
    """Where the rows of a part are that became more or fewer than its samples."""
    return folder / APART / f"{start:012d}"


def read_form(folder: Path) -> Form:
    try:
        return Form.from_json(json.loads((folder / FORM).read_text()))
    except FileNotFoundError:
        if not folder.is_dir():
            raise SampleFailed(
                f"{str(folder.parent)!r} cannot be seen on {os.uname().nodename}; "
                "give to= a folder that all machines share"
            ) from None
        raise LookupError(FORM) from None


def write_form(folder: Path, form: Form) -> Form:
    """Settle the form of all rows, unless somebody was quicker; returns what is settled."""
    return Form.from_json(json.loads(settle(folder / FORM, json.dumps(form.as_json()))))
