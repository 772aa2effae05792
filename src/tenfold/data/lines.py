"""Where the lines of a CSV file end: line breaks within quotes, and empty lines, do not count.

Looked for with NumPy, a block at a time, so that memory does not depend on the length of the file.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tenfold.errors import BadCall

_QUOTE, _BREAK, _RETURN = b'"\n\r'

Places = np.ndarray[Any, np.dtype[np.int64]]


def index(path: str, separator: bytes, block: int, told: str) -> tuple[Places, Places]:
    """Blocks of about `block` bytes of whole lines, the header left out: the first row of each, and its first byte.

    After the last comes how many rows there are, and where they end.
    """
    reader = _Reader(separator[0], told)
    rows, places = [0], [0]
    with open(path, "rb") as file:
        while data := file.read(block):
            ends = reader.ends(np.frombuffer(data, np.uint8))
            if not len(ends):
                continue
            if reader.rows == len(ends):  # these are the first lines, and so the header is among them
                places[0] = int(ends[0])
            if reader.rows - 1 > rows[-1]:
                rows.append(reader.rows - 1)
                places.append(int(ends[-1]))
    if reader.quoted:
        raise BadCall(f"{told}: a quote that begins in line {reader.rows + 1} or later has no end")
    if reader.position > reader.line:  # the last line has no line break
        first = reader.rows == 0  # and may be the header
        places[0] = reader.position if first else places[0]
        if not first:
            rows.append(reader.rows)
            places.append(reader.position)
    return np.array(rows, np.int64), np.array(places, np.int64)


def ends_of(data: bytes) -> Places:
    """After each line of some that are whole."""
    reader = _Reader(None, "")
    ends = reader.ends(np.frombuffer(data, np.uint8))
    return ends if reader.position == reader.line else np.append(ends, reader.position)


class _Reader:
    """Goes through the blocks of a file, in order."""

    def __init__(self, separator: int | None, told: str) -> None:
        self._separator, self._told = separator, told
        self.quoted = False  # the next byte is within quotes
        self.position = 0  # of the next byte
        self.line = 0  # the first byte of the line that has not ended
        self.rows = 0  # lines so far
        self._last = _BREAK  # the byte before

    def ends(self, data: np.ndarray[Any, np.dtype[np.uint8]]) -> Places:
        """The places after the lines that end in this block."""
        quotes = np.flatnonzero(data == _QUOTE)
        breaks = np.flatnonzero((data == _BREAK) | (data == _RETURN))  # of "\r\n", the second ends an empty line
        before = np.searchsorted(quotes, breaks)
        if self._separator is not None:
            self._check(data, quotes)
        breaks = breaks[(before + self.quoted) % 2 == 0]
        ends = self._not_empty(breaks + 1)
        self.quoted = bool((len(quotes) + self.quoted) % 2)
        self._last = int(data[-1])
        self.position += len(data)
        self.rows += len(ends)
        return ends

    def _not_empty(self, after: Places) -> Places:
        """Of the places after line breaks, as places in the file, those that end a line with something in it."""
        ends = after + self.position
        if not len(ends):
            return ends
        starts = np.append(self.line, ends[:-1])
        self.line = int(ends[-1])
        found: Places = ends[ends - starts > 1]
        return found

    def _check(self, data: np.ndarray[Any, np.dtype[np.uint8]], quotes: Places) -> None:
        """A quote in the middle of a value would not begin anything, and line ends could not be told from it."""
        opening = quotes[int(self.quoted) :: 2]
        before = np.where(opening >= 1, data[opening - 1], self._last)
        fine = np.isin(before, np.array([self._separator, _QUOTE, _BREAK, _RETURN], np.uint8))
        wrong = opening[~fine]
        if len(wrong) and self.position + wrong[0] not in (0, 3):  # the first byte, or the first after a mark of UTF-8
            raise BadCall(
                f"{self._told}: a quote in the middle of a value, at byte {self.position + int(wrong[0])}; "
                'expected values with quotes to be in quotes, and those doubled: "5"" disk"'
            )
