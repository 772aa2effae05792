"""In a worker: a part of a source through the user's function, and its rows into the set that is being written.

Nothing goes back to the caller but a few numbers: how many rows, where they are, their checksum, and what failed.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy

from tenfold.data import stacking, stores, writing
from tenfold.data.arithmetic import Arithmetic
from tenfold.data.form import NUMBERS, Form, batch_of, block_of, check_row, form_of, kept, rows_of
from tenfold.data.placing import HELD, Block, Placing
from tenfold.data.source import Part, Rows, Source, count, samples
from tenfold.data.tuning import FAILS, Tuned
from tenfold.errors import BadCall, SampleFailed
from tenfold.work.settled import settle

FORM = "form.json"


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
        retries: int,
        kept: Mapping[str, Kept],
    ) -> None:
        self._function = function
        self._source = source
        self._folder = folder
        self._batched = batched
        self._batch = batch
        self._quarantines = quarantines
        self._retries = retries
        self._kept = kept
        self._form: Form | None = None
        self._arithmetic = Arithmetic(function)
        self._tuned: Tuned | None = None
        if batched and batch is None and not hasattr(function, "at_a_time"):
            self._tuned = Tuned(function, folder)
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
        placing = Placing(self._folder, part)
        for block in self._blocks(part, faults):
            placing.add(block, self._known_form())  # known, since there are rows
        rows, crc = placing.end(self._form)
        spent = {"input": self._reading}
        return Piece(part.start, part.stop, part.key, rows, crc, tuple(faults), spent)

    def _used_again(self, part: Part) -> Piece | None:
        """Rows that an earlier call has made of the same samples, unless they are damaged."""
        kept = self._kept.get(part.key) if part.key is not None else None
        if kept is None:
            return None
        placing = Placing(self._folder, part)
        form = self._known_form() if kept.rows else None
        if form is not None:
            for block in kept_blocks(kept, form):
                placing.add(block, form)
        if placing.end(form) != (kept.rows, kept.crc):
            return None
        moved = [Fault(f.sample + part.start, f.error, f.traceback) for f in kept.faults]
        return Piece(part.start, part.stop, part.key, kept.rows, kept.crc, tuple(moved))

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

    # -- samples ------------------------------------------------------------------------------------------------

    def _blocks(self, part: Part, faults: list[Fault]) -> Iterator[Block]:
        stop = part.start
        while stop < part.stop:
            start, stop = stop, min(stop + self._step(part.stop - part.start), part.stop)
            try:
                rows = self._read(part, start, stop)
            except FAILS as error:
                if stop - start == 1:
                    faults.append(self._fault(start, error))
                else:
                    for place in range(start, stop):
                        yield from self._blocks(_one(part, place), faults)
                continue
            if self._batched:
                yield from self._batches(part, rows, start, faults)
            else:
                yield from self._sample_blocks(rows, start, faults)
            del rows  # before the next are read: then these are in the same memory, and in the processor's cache

    def _step(self, samples: int) -> int:
        """How many of a part's samples to read next: no less than is decoded at once.

        Asked with all of them each time, so that a model gets batches of one size: a smaller one may be filled up.
        """
        if self._batched and self._batch:
            return self._batch
        return self._at_a_time(samples) if self._source.is_flat else samples

    def _at_a_time(self, samples: int) -> int:
        """How many of them the function is given."""
        found = getattr(self._function, "at_a_time", None)
        return samples if found is None else found(samples)

    def _read(self, part: Part, start: int, stop: int) -> Rows:
        harmless = getattr(self._function, "changes_nothing", False)
        if part.rows is not None:  # copied, because they may be asked for again
            return (_cut if harmless else stacking.sliced)(part.rows, start - part.start, stop - part.start)
        began = time.monotonic()
        try:
            return self._source.view(start, stop) if harmless else self._source.read(start, stop)
        finally:
            self._reading += time.monotonic() - began

    def _batches(self, part: Part, rows: Rows, start: int, faults: list[Fault]) -> Iterator[Block]:
        """What was read through a function of batches, which may want less of it: its outputs may be larger."""
        step = self._tuned.size(rows) if self._tuned is not None else self._at_a_time(count(rows))
        for place in range(0, count(rows), step):
            yield from self._batch_blocks(part, _cut(rows, place, place + step), start + place, faults)

    def _batch_blocks(self, part: Part, rows: Rows, start: int, faults: list[Fault]) -> Iterator[Block]:
        """A batch through a function of batches; one by one where that fails, to find out whose fault it is.

        For that, samples are read again: the function may have written to them before it failed.
        """
        stop = start + count(rows)
        try:
            result = self._call(rows)
            if not hasattr(self._function, "at_a_time"):  # a model's outputs are its own
                result = kept(result)
            block = None if result is None else batch_of(result, self._form_for(result, batched=True))
        except FAILS as error:
            if stop - start > 1 and not self._quarantines:
                raise SampleFailed(named(error, start, stop)) from error
            if stop - start == 1:
                faults.append(self._fault(start, error))
                return
        else:
            if block is not None:
                yield block
            return
        for place in range(start, stop):
            yield from self._batch_blocks(part, self._read(part, place, place + 1), place, faults)

    def _sample_blocks(self, rows: Rows, start: int, faults: list[Fault]) -> Iterator[Block]:
        """Samples through a function of one; many at once where it does nothing but arithmetic."""
        step = self._arithmetic.together(rows)
        if step == 1:
            yield from self._row_blocks(rows, start, faults)
            return
        for place in range(0, count(rows), step):
            some = rows[place : place + step]
            made = self._arithmetic(some)
            if made is None:
                yield from self._row_blocks(some, start + place, faults)
            else:
                yield batch_of(made, self._form_for(made, batched=True))

    def _row_blocks(self, rows: Rows, start: int, faults: list[Fault]) -> Iterator[Block]:
        """Samples through a function of one; as many rows at a time as may be held."""
        found: list[Any] = []
        places: list[int] = []
        most, call = self._most(), self._call
        for place, one in enumerate(samples(rows), start):
            try:
                made = call(one)
                if type(made) is numpy.ndarray:
                    made = kept(made)
                elif type(made) not in NUMBERS:
                    made = rows_of(made)
            except FAILS as error:
                faults.append(self._fault(place, error))
                continue
            if type(made) is list:
                found += made
                places += [place] * len(made)
            else:  # two lists less for each of a million numbers
                found.append(made)
                places.append(place)
            if len(found) >= most:
                yield from self._stacked(found, places, faults)
                found, places, most = [], [], self._most()
        yield from self._stacked(found, places, faults)

    @property
    def _call(self) -> Callable[[Any], Any]:
        return self._insistently if self._retries else self._function

    def _insistently(self, given: Any) -> Any:
        """What the function gives, which is called again as often as the caller wants."""
        for _ in range(self._retries):
            with contextlib.suppress(*FAILS):
                found = self._function(stacking.own(given))  # to which it may write before it fails
                # A generator may fail at any of its rows.
                return rows_of(found) if hasattr(found, "__next__") and not self._batched else found
        return self._function(given)

    def _most(self) -> int:
        """How many rows to hold before they are stacked; the first settles what they are."""
        try:
            return max(1, HELD // max(1, self._known_form().row_bytes))
        except LookupError:
            return 1

    def _stacked(self, found: list[Any], places: list[int], faults: list[Fault]) -> Iterator[Block]:
        """Rows one upon the other, without those of a sample that has one of another form."""
        if not found:
            return
        try:
            block = block_of(found, self._form_for(found[0], batched=False))
        except BadCall as error:
            if self._form is None:
                raise SampleFailed(named(error, places[0])) from error
        else:
            yield block
            return
        odd: dict[int, Fault] = {}
        for row, place in zip(found, places, strict=True):
            try:
                check_row(row, self._form)
            except BadCall as error:
                odd.setdefault(place, self._fault(place, error))
        faults += odd.values()
        faults.sort(key=lambda fault: fault.sample)
        good = [row for row, place in zip(found, places, strict=True) if place not in odd]
        if good:
            yield block_of(good, self._form)

    def _fault(self, place: int, error: BaseException) -> Fault:
        if not self._quarantines:
            raise SampleFailed(named(error, place)) from error
        line = "".join(traceback.format_exception_only(error)).strip()
        return Fault(place, line, "".join(traceback.format_exception(error)))


def named(error: BaseException, start: int, stop: int | None = None) -> str:
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


def kept_blocks(kept: Kept, form: Form) -> Iterator[Block]:
    """Rows of an earlier call, some at a time; the end where they cannot be read."""
    store = stores.KINDS[kept.format](Path(kept.folder), form)
    with contextlib.suppress(Exception):  # the library of each format has errors of its own
        yield from stores.blocks(store, form, kept.start, kept.start + kept.rows)


def is_sound(kept: Kept, form: Form) -> bool:
    """Whether they are what was written."""
    return writing.checksum(kept_blocks(kept, form)) == kept.crc


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
