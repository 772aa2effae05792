"""A grid of numbers as coloured cells: throughput over workers and size."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tenfold.report import svg
from tenfold.report.parts import Chart
from tenfold.report.style import ramp
from tenfold.report.svg import ROW, element

CELL = 34  # pixels of height


def chart(
    title: str,
    words: str,
    values: Mapping[tuple[str, str], float],
    *,
    columns: Sequence[str],
    rows: Sequence[str],
    labels: tuple[str, str],
) -> Chart:
    """`values` are by column and row; one that is not there has failed, or was not measured."""
    known = [value for value in values.values() if math.isfinite(value) and value > 0]
    scale = svg.scale(known, log=svg.spans(known), room=0.0)

    def cell(x: float, y: float, wide: float, column: str, row: str) -> list[str]:
        value = values.get((column, row), math.nan)
        is_known = math.isfinite(value) and value > 0
        colour = ramp(scale.share(value)) if is_known else "card"
        missing = "failed" if (column, row) in values else "-"
        text = svg.number(float(f"{value:.3g}")) if is_known else missing
        over = svg.title(f"{labels[0]} {column}, {labels[1]} {row}: {text}")
        box = element("rect", over, x=x, y=y, width=wide - 2, height=CELL - 2.0, rx=3, class_=f"f-{colour}")
        on = f"f-on{colour[1]}" if is_known else "small"
        return [box, svg.words(svg.cut(text, wide), x + wide / 2 - 1, y + CELL / 2 + 3, class_=on, anchor="middle")]

    def draw(width: float) -> str:
        left = min(width / 3, max(map(svg.width_of, rows), default=0.0) + 10)
        wide = (width - left) / max(1, len(columns))
        marks = [svg.words(labels[1], 0, 12, class_="small")]
        for place, row in enumerate(reversed(rows)):
            y = ROW + place * CELL
            marks.append(svg.words(svg.cut(row, left), left - 8, y + CELL / 2 + 3.0, class_="small", anchor="end"))
            for number, column in enumerate(columns):
                marks += cell(left + number * wide, y, wide, column, row)
        bottom = ROW + len(rows) * CELL
        for number, column in enumerate(columns):
            marks.append(
                svg.words(column, left + (number + 0.5) * wide, bottom + 15.0, class_="small", anchor="middle")
            )
        marks.append(svg.words(labels[0], width, bottom + 33.0, class_="small", anchor="end"))
        return svg.picture(width, bottom + 40, marks, f"{title}. {words}")

    told = [{labels[0]: column, labels[1]: row, "value": value} for (column, row), value in values.items()]
    return Chart(title, words, draw, told)
