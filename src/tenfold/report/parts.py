"""What a report is made of: sentences, tables, facts, listings, code and charts, in sections."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tenfold.errors import BadCall
from tenfold.work.plain import plain

Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    text: str
    """In plain words."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of texts."""

    columns: tuple[str, ...]
    """What is in them."""
    rows: Sequence[Sequence[str]]
    """As many texts in each as there are columns."""
    right: tuple[str, ...] = ()
    """Columns that hold numbers."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and what they are."""

    pairs: Pairs
    """In order."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A long text, such as a traceback, behind a line that tells of it."""

    headline: str
    """The line."""
    text: str
    """As it was written."""
    opened: bool = False
    """Shown at once."""


@dataclass(frozen=True, slots=True)
class Code:
    """Something to type."""

    text: str
    """As it is typed."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture of numbers."""

    title: str
    """What it shows."""
    words: str
    """The same for those who do not see it, and what to know about it: a sentence or two."""
    draw: Callable[[float], str]
    """An SVG element of so many pixels, with the classes of `style.charts`."""
    data: Any
    """The numbers, as JSON can hold them."""


Part = Text | Table | Facts | Listing | Code | Chart


@dataclass(frozen=True, slots=True)
class Section:
    """Parts that belong together."""

    heading: str
    """What they tell of."""
    parts: Sequence[Part]
    """In order."""


@dataclass(frozen=True, slots=True)
class Report:
    """All of it, ready to be written."""

    title: str
    """What it is about."""
    summary: str
    """In a sentence or two."""
    sections: Sequence[Section]
    """In order."""
    figures: Pairs = ()
    """The numbers that are looked for first."""

    @property
    def charts(self) -> list[Chart]:
        """All of them."""
        return [part for section in self.sections for part in section.parts if isinstance(part, Chart)]

    def html(self) -> str:
        """One page that needs nothing else: no script, no font, no network."""
        from tenfold.report.page import page

        return page(self)

    def markdown(self) -> str:
        """For a repository or an issue; charts are told by their words and numbers."""
        from tenfold.report.markdown import markdown

        return markdown(self)

    def json(self) -> str:
        """For programs."""
        sections = [
            {"heading": section.heading, "parts": [_told(part) for part in section.parts]} for section in self.sections
        ]
        found = {"title": self.title, "summary": self.summary, "figures": dict(self.figures), "sections": sections}
        return json.dumps(plain(found), indent=1, allow_nan=False)

    def png(self, path: str | os.PathLike[str]) -> Path:
        """Its charts, one below the other."""
        from tenfold.report.png import png

        return _written(path, png(self))

    def save(self, path: str | os.PathLike[str], kind: str | None = None) -> Path:
        """Write it; where `kind` does not, the name says as what: .html, .md, .json or .png."""
        writers = {"html": self.html, "md": self.markdown, "json": self.json}
        kind = kind or Path(path).suffix.lower().lstrip(".")
        if kind == "png":
            return self.png(path)
        if kind not in writers:
            raise BadCall(f"save({str(path)!r}): expected a name that ends with .html, .md, .json or .png")
        return _written(path, writers[kind]().encode("utf-8", "backslashreplace"))


def _written(path: str | os.PathLike[str], content: bytes) -> Path:
    target = Path(path)
    try:
        target.write_bytes(content)
    except OSError as error:
        raise BadCall(
            f"{str(path)!r} cannot be written: {error.strerror or error}; give the name of a file in a folder that is "
            "there and may be written to"
        ) from error
    return target


def _told(part: Part) -> dict[str, Any]:
    if isinstance(part, Chart):
        return {"kind": "chart", "title": part.title, "words": part.words, "data": part.data}
    if isinstance(part, Table):
        return {"kind": "table", "columns": part.columns, "rows": part.rows}
    if isinstance(part, Facts):
        return {"kind": "facts", "facts": dict(part.pairs)}
    if isinstance(part, Listing):
        return {"kind": "listing", "headline": part.headline, "text": part.text}
    return {"kind": "code" if isinstance(part, Code) else "text", "text": part.text}
