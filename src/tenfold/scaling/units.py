"""Rates and times that people write, such as "25Gbit" and "5us"; what is wrong with one is told in words."""

from __future__ import annotations

import math
import numbers
import re

from tenfold.errors import BadCall

_POWERS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_TIMES = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_NUMBER = r"\s*(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*"
# "Gb" is left out on purpose: people write it for bits and for bytes, and a factor of eight is not to be guessed.
_BITS = re.compile(_NUMBER + r"([kKmMgGtT]?)(?:[bB]its?(?:/s|ps)?|bps)\s*")
_BYTES = re.compile(_NUMBER + r"([kKmMgGtT]?i?)(?:B|[bB]ytes?)(?:/s|ps)?\s*")
_TIME = re.compile(_NUMBER + r"(ns|us|µs|μs|ms|s|min|h)\s*")


def rate(value: object, name: str) -> float:
    """Bytes a second, from text such as "25Gbit", "25 Gbit/s", "3GB/s", or from a number of bytes a second."""
    if _is_number(value, least=0, open_end=True):
        return float(value)  # type: ignore[arg-type]
    if isinstance(value, str):
        if found := _BITS.fullmatch(value):
            return _positive(float(found[1]) * _POWERS[found[2].lower()] / 8, value, name)
        if (found := _BYTES.fullmatch(value)) and (unit := found[2].lower()) in _POWERS | _BINARY:
            return _positive(float(found[1]) * (_POWERS | _BINARY)[unit], value, name)
    raise BadCall(_rate_fault(name, value))


def seconds(value: object, name: str) -> float:
    """Seconds, 0 or above, from text such as "5us", "1.5ms", "10min", or from a number of seconds."""
    if _is_number(value, least=0) or value == 0:
        return float(value)  # type: ignore[arg-type]
    if isinstance(value, str) and (found := _TIME.fullmatch(value)) and math.isfinite(float(found[1])):
        return float(found[1]) * _TIMES[found[2]]
    raise BadCall(
        f'{name}={value!r}: expected a number of seconds, 0 or above, or text such as "5us", "1.5ms" or "2min"'
    )


def readable(time: float) -> str:
    """Seconds for people, with three digits: 0.0125 -> "12.5 ms"."""
    if not math.isfinite(time):
        return str(time)
    for unit, length in (("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if time >= (2 * length if length > 1 else length):
            return f"{time / length:.3g} {unit}"
    return f"{time / 1e-9:.3g} ns" if time else "0 s"


def percent(share: float, digits: int = 0) -> str:
    """A share for people: 0.28 -> "28 %"."""
    return f"{100 * share:.{digits}f} %"


def _positive(found: float, value: object, name: str) -> float:
    if not 0 < found < math.inf:
        raise BadCall(_rate_fault(name, value))
    return found


def _rate_fault(name: str, value: object) -> str:
    return (
        f"{name}={value!r}: expected a number of bytes a second above 0, or text such as "
        '"25Gbit", "25 Gbit/s" (bits) or "3GB/s" (bytes)'
    )


def _is_number(value: object, *, least: float, open_end: bool = False) -> bool:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return False
    number = float(value)
    return number > least and (number < math.inf or open_end)
