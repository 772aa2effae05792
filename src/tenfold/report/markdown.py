"""A report as Markdown. Charts are told by their words: JSON has their numbers, PNG their pictures."""

from __future__ import annotations

import re

from tenfold.report.parts import Chart, Code, Facts, Listing, Part, Report, Section, Table

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&])")


def markdown(report: Report) -> str:
    """The whole text."""
    figures = [f"- {_plain(name)}: **{_plain(value)}**" for name, value in report.figures]
    head = [f"# {_plain(report.title)}", _plain(report.summary)]
    blocks = [*head, *(["\n".join(figures)] if figures else []), *map(_section, report.sections)]
    return "\n\n".join(blocks) + "\n"


def _section(section: Section) -> str:
    return "\n\n".join([f"## {_plain(section.heading)}", *(_part(part) for part in section.parts)])


def _part(part: Part) -> str:
    if isinstance(part, Chart):
        return f"**{_plain(part.title)}.** {_plain(part.words)}"
    if isinstance(part, Table):
        return _table(part)
    if isinstance(part, Facts):
        return "\n".join(f"- {_plain(name)}: {_plain(value)}" for name, value in part.pairs)
    if isinstance(part, Listing):
        return f"{_plain(part.headline)}\n\n{_fenced(part.text)}"
    return _fenced(part.text) if isinstance(part, Code) else _plain(part.text)


def _table(part: Table) -> str:
    rule = [f"---{':' if column in part.right else ''}" for column in part.columns]
    rows = [[_plain(cell) for cell in cells] for cells in (part.columns, *part.rows)]
    lines = [f"| {' | '.join(cells)} |" for cells in (rows[0], rule, *rows[1:])]
    return "\n".join(lines)


def _plain(text: str) -> str:
    """One line, in which nothing has a meaning of its own."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _fenced(text: str) -> str:
    """As it is, in a fence that is longer than any in it."""
    longest = max((len(found) for found in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text.rstrip()}\n{fence}"
