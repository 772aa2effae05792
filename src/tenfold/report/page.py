"""A report as one HTML page that needs nothing else: no script, no font, no picture from anywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tenfold.report import style
from tenfold.report.parts import Chart, Code, Facts, Listing, Part, Report, Section, Table, Text
from tenfold.report.svg import element, escaped

WIDE, NARROW = 720.0, 343.0
"""Pixels of a chart on a desk and on a phone. Each is drawn for both, so that its texts can be read on both."""

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""What the browser may fetch for the page: nothing."""


def page(report: Report) -> str:
    """The whole page."""
    title = escaped(report.title)
    head = (
        '<meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<link rel="icon" href="data:,">'
        f"<title>{title}</title><style>{style.page()}</style>"
    )
    top = f'<header><h1>{title}</h1><p class="summary">{_prose(report.summary)}</p>{_figures(report)}</header>'
    body = "\n".join(_section(section) for section in report.sections)
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body><main>{top}\n{body}\n</main></body></html>\n'


def _figures(report: Report) -> str:
    cells = "".join(f"<div><dt>{escaped(name)}</dt><dd>{escaped(value)}</dd></div>" for name, value in report.figures)
    return f'<dl class="figures">{cells}</dl>' if cells else ""


def _section(section: Section) -> str:
    parts = "\n".join(_WRITERS[type(part)](part) for part in section.parts)
    return f"<section><h2>{escaped(section.heading)}</h2>\n{parts}</section>"


def _text(part: Text) -> str:
    return element("p", _prose(part.text))


def _prose(text: str) -> str:
    """Numbers stay with their unit."""
    return escaped(text).replace(" %", "&nbsp;%")


def _table(part: Table) -> str:
    classes = ["right" if column in part.right else None for column in part.columns]

    def row(kind: str, cells: Any) -> str:
        found = zip(cells, classes, strict=True)
        return f"<tr>{''.join(element(kind, escaped(cell) or ' ', class_=one) for cell, one in found)}</tr>"

    body = "".join(row("td", cells) for cells in part.rows)
    return f'<div class="scroll"><table><thead>{row("th", part.columns)}</thead><tbody>{body}</tbody></table></div>'


def _facts(part: Facts) -> str:
    cells = "".join(f"<dt>{escaped(name)}</dt><dd>{escaped(value)}</dd>" for name, value in part.pairs)
    return f'<dl class="facts">{cells}</dl>'


def _listing(part: Listing) -> str:
    opened = " open" if part.opened else ""
    return f"<details{opened}><summary>{escaped(part.headline)}</summary><pre>{escaped(part.text)}</pre></details>"


def _code(part: Code) -> str:
    return f"<pre><code>{escaped(part.text)}</code></pre>"


def _chart(part: Chart) -> str:
    drawn = "".join(
        part.draw(width).replace("<svg ", f'<svg class="{name}" ', 1)
        for name, width in (("wide", WIDE), ("narrow", NARROW))
    )
    words = f'<p class="words">{_prose(part.words)}</p>' if part.words else ""
    return f"<figure><figcaption>{escaped(part.title)}</figcaption>{drawn}{words}</figure>"


_WRITERS: dict[type[Part], Callable[[Any], str]] = {
    Text: _text,
    Table: _table,
    Facts: _facts,
    Listing: _listing,
    Code: _code,
    Chart: _chart,
}
