"""Lengths of time and moments, for people."""

from __future__ import annotations

import time


def duration(seconds: float) -> str:
    """Seconds for people."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def took(seconds: float) -> str:
    """A length of time; short ones in milliseconds."""
    return duration(seconds) if seconds >= 0.1 else f"{1000 * seconds:.1f} ms"


def precise(seconds: float) -> str:
    """A length of time in three figures: for tables and axes, where such times are compared."""
    if seconds >= 60:
        return duration(seconds)
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= size * 0.9995:
            figure = f"{seconds / size:#.3g}".rstrip(".")
            return f"{figure} {unit}"
    return f"{1e6 * seconds:.2g} µs"


def moment(seconds: float) -> str:
    """A time of the clock, here."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
