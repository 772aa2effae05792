"""What charts are drawn with: elements, numbers for people, scales with their ticks, and a box with two axes.

Everything here is pure: text comes out. Whatever text goes in is escaped here, and nowhere else.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

LETTER = 7.2  # pixels of a letter in a wide font: texts are measured where they are drawn, and that is not here
ROW = 18  # pixels of a line of text
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def element(name: str, content: str = "", **attributes: object) -> str:
    """An element whose `content` is markup. `class_` and `stroke_width` are called class and stroke-width."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(_text(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{given}>{content}</{name}>" if content else f"<{name}{given}/>"


def _text(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def words(text: str, x: float, y: float, *, class_: str | None = None, anchor: str | None = None) -> str:
    """A line of text."""
    return element("text", escaped(text), x=float(x), y=float(y), class_=class_, text_anchor=anchor)


def escaped(text: str) -> str:
    """As markup, in characters that every reader of markup takes."""
    return html.escape(_UNFIT.sub("\ufffd", text))


def title(text: str) -> str:
    """What is shown over an element."""
    return element("title", escaped(text))


def picture(width: float, height: float, body: Sequence[str], label: str) -> str:
    """A whole drawing; `label` is for those who cannot see it."""
    return element(
        "svg",
        "".join(body),
        viewBox=f"0 0 {_text(float(width))} {_text(float(height))}",
        role="img",
        aria_label=label,
    )


def width_of(text: str) -> float:
    return LETTER * len(text)


def cut(text: str, pixels: float) -> str:
    """As much of a text as there is room for."""
    most = max(2, int(pixels / LETTER))
    return text if len(text) <= most else text[: most - 1] + "…"


def number(value: float) -> str:
    """For people: 12,000; 3.142; 1.2e-05."""
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    if size >= 1e9:
        return f"{value:.3g}"
    if size >= 1e6:
        return f"{value / 1e6:,.4g}M"
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


@dataclass(frozen=True, slots=True)
class Scale:
    """From numbers to a share of an axis."""

    low: float
    """At its beginning."""
    high: float
    """At its end."""
    log: bool = False
    """By factors; then both are above 0."""

    def share(self, value: float) -> float:
        low, high, at = (
            (math.log(v) for v in (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        )
        return (at - low) / (high - low) if high > low else 0.5

    def ticks(self, about: int) -> list[float]:
        """Round numbers within it."""
        if self.log:
            every = [_decades(self.low, self.high, factors) for factors in ((1, 2, 5), (1, 3), (1,))]
            found = next((some for some in every if len(some) <= about + 2), every[-1])
            if len(found) >= 2:
                return found if len(found) <= about + 2 else found[:: -(-len(found) // max(1, about))]
        step = _round((self.high - self.low) / max(1, about)) if self.high > self.low else 1.0
        first = math.ceil(self.low / step - 1e-9)
        return [n * step for n in range(first, math.floor(self.high / step + 1e-9) + 1)]


def scale(values: Sequence[float], *, log: bool = False, zero: bool = False, room: float = 0.04) -> Scale:
    """One that holds all values that are numbers; `zero` is to be on it, and `room` is left at both ends."""
    known = [value for value in values if math.isfinite(value)]
    if log and known and min(known) > 0:
        factor = (max(known) / min(known)) ** room if max(known) > min(known) else 1.5
        return Scale(min(known) / factor, max(known) * factor, log=True)
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    low = min(0.0, low) if zero else low
    more = room * (high - low) if high > low else abs(high) / 2 or 1.0
    return Scale(low if zero and low == 0 else low - more, high + more)


def spans(values: Sequence[float]) -> bool:
    """Whether they are better seen by factors."""
    known = [value for value in values if math.isfinite(value)]
    return bool(known) and min(known) > 0 and max(known) > 20 * min(known)


def _round(step: float) -> float:
    """The next number that is 1, 2 or 5 with zeros."""
    unit = 10.0 ** math.floor(math.log10(step))
    return next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= step * 0.999)


def _decades(low: float, high: float, factors: Sequence[int]) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    every = [factor * 10.0**power for power in powers for factor in factors]
    return [value for value in every if low * 0.999 <= value <= high * 1.001]


class Box:
    """Where a chart with two axes is drawn: places, grid, labels and a legend."""

    def __init__(
        self,
        width: float,
        height: float,
        x: Scale,
        y: Scale,
        *,
        labels: tuple[str, str],
        legend: Sequence[tuple[str, str]] = (),
        x_ticks: Sequence[float] | None = None,
        y_ticks: Sequence[float] | None = None,
        x_text: Callable[[float], str] = number,
        y_text: Callable[[float], str] = number,
        whole: bool = False,
    ) -> None:
        """`labels` are of x and y; `legend` has a name and classes for each line; `whole`: x are whole numbers."""
        self.width, self._x, self._y = width, x, y
        self._labels = labels
        self._y_ticks = [(value, y_text(value)) for value in (y_ticks or y.ticks(max(3, round(height / 48))))]
        self.left = max((width_of(text) for _, text in self._y_ticks), default=0.0) + 10
        self.right = width - 12
        self._legend, rows = legend_of(legend, width, 12 + ROW)
        self.top = 14.0 + ROW * (rows + bool(labels[1]) + 0.2)
        self.bottom = self.top + height
        self.height = self.bottom + 2 * ROW + 6
        chosen = x_ticks or x.ticks(max(3, int(width // 60)))
        fit = [value for value in chosen if not whole or abs(value - round(value)) < 1e-9]
        self._x_ticks = self._apart([(value, x_text(value)) for value in fit])

    @property
    def by_factors(self) -> bool:
        """y has no place for numbers that are not above 0."""
        return self._y.log

    def x(self, value: float) -> float:
        return self.left + self._x.share(value) * (self.right - self.left)

    def y(self, value: float) -> float:
        return self.bottom - self._y.share(value) * (self.bottom - self.top)

    def _apart(self, ticks: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
        """Those whose texts do not touch."""
        found: list[tuple[float, str]] = []
        free = -math.inf
        for value, text in ticks:
            half = width_of(text) / 2
            if self.x(value) - half >= free:
                found.append((value, text))
                free = self.x(value) + half + 6
        return found

    def draw(self, body: Sequence[str], label: str) -> str:
        """The whole chart."""
        return picture(self.width, self.height, self.marks(body), label)

    def marks(self, body: Sequence[str]) -> list[str]:
        """What it is drawn with, where it is one of several."""
        parts = [words(self._labels[1], 0, 12, class_="small")] if self._labels[1] else []
        for value, text in self._y_ticks:
            at = self.y(value)
            parts.append(element("path", d=f"M{self.left:.1f} {at:.1f}H{self.right:.1f}", class_="grid"))
            parts.append(words(text, self.left - 6, at + 4, class_="small", anchor="end"))
        for value, text in self._x_ticks:
            half = width_of(text) / 2
            at = min(self.x(value), self.width - half)
            parts.append(element("path", d=f"M{self.x(value):.1f} {self.bottom:.1f}v4", class_="grid"))
            parts.append(words(text, at, self.bottom + 17, class_="small", anchor="middle"))
        parts.append(words(self._labels[0], self.right, self.bottom + 35, class_="small", anchor="end"))
        return [*parts, *self._legend, *body]


def legend_of(entries: Sequence[tuple[str, str]], width: float, top: float) -> tuple[list[str], int]:
    """Name and classes of each, of a stroke or of a filled dot, side by side; and how many rows that takes."""
    parts: list[str] = []
    x, y, rows = 0.0, top, 1 if entries else 0
    for name, classes in entries:
        told = cut(name, width - 40)
        wide = 26 + width_of(told) + 14
        if x and x + wide > width:
            x, y, rows = 0.0, y + ROW, rows + 1
        if classes.startswith("f-"):  # dots, not a line
            parts.append(element("circle", cx=x + 9, cy=y - 4, r=3.5, class_=classes))
        else:
            parts.append(element("path", d=f"M{x:.1f} {y - 4:.1f}h18", class_=classes))
        parts.append(words(told, x + 24, y))
        x += wide
    return parts, rows
