"""In a worker: a part of a source through a function of batches, and its rows back to the caller.

For sets that are kept in memory: there is no folder that all machines would have to see. What goes to files is made by
`preparing`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tenfold.data import stacking
from tenfold.data.form import Form, batch_of, form_of
from tenfold.data.placing import Block
from tenfold.data.preparing import named
from tenfold.data.source import Part, Source
from tenfold.errors import SampleFailed

Returned = tuple[Form, Block]
"""Rows of a part: an array for each column."""


class Returning:
    """The task of a `tenfold.predict` without a folder: called with parts."""

    def __init__(self, function: Callable[[Any], Any], source: Source) -> None:
        self._function = function
        self._source = source
        if hasattr(function, "__tenfold_modules__"):
            self.__tenfold_modules__ = function.__tenfold_modules__

    @property
    def __name__(self) -> str:
        return getattr(self._function, "__name__", type(self._function).__name__)

    def __call__(self, part: Part) -> Returned:
        try:
            found = self._function(self._read(part))
            form = form_of(found, batched=True)
            return form, batch_of(found, form)
        except Exception as error:
            raise SampleFailed(named(error, part.start, part.stop)) from error

    def _read(self, part: Part) -> Any:
        harmless = getattr(self._function, "changes_nothing", False)
        if part.rows is not None:
            return part.rows if harmless else stacking.own(part.rows)
        return (self._source.view if harmless else self._source.read)(part.start, part.stop)
