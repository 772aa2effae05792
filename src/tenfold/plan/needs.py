"""What one task asks for, checked: cpus, gpus and memory."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from tenfold.errors import BadCall

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


SMALLEST = 0.01  # of a core or a GPU: more than a hundred tasks on one are a mistake


@dataclass(frozen=True, slots=True)
class Needs:
    """What one task asks for."""

    cpus: float = 1
    """Cores, and so threads. Below one, several tasks share a core."""
    gpus: float = 0
    """GPUs. Below one, several tasks share a GPU."""
    memory: int | None = None
    """Bytes that it may use; None means that it is not limited."""


def needs(cpus: float, gpus: float, memory: int | str | None) -> Needs:
    """Check what the caller asked for; all faults come in one message."""
    faults = [*_fault("cpus", cpus, zero=False), *_fault("gpus", gpus, zero=True)]
    wanted = None
    try:
        wanted = size(memory, "memory") if memory is not None else None
    except BadCall as error:
        faults.append(str(error))
    if faults:
        raise BadCall("; ".join(faults))
    return Needs(cpus, gpus, wanted)


def _fault(name: str, value: object, *, zero: bool) -> list[str]:
    least = "0, a fraction from 0.01 to 1" if zero else "a fraction from 0.01 to 1"
    accepted = f"expected {least}, or a whole number"
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return [f"{name}={value!r}: {accepted}"]
    if value < 0 or (value == 0 and not zero) or 0 < value < SMALLEST or (value > 1 and value != int(value)):
        return [f"{name}={value!r}: {accepted}"]
    return []


def size(value: int | str, name: str) -> int:
    """Bytes from a number or from text such as "2GB", "512 MiB"."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?\s*", value.lower())
        count = float(match[1]) * _UNITS[match[2]] if match and match[2] in _UNITS else 0.0
        if 1 <= count < math.inf:
            return int(count)
    raise BadCall(f'{name}={value!r}: expected a number of bytes above 0, or text such as "2GB" or "512MiB"')


def readable(count: float) -> str:
    """Bytes for people: 1536 -> "1.5 kB"."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
