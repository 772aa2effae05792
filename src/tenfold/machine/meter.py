"""What this machine did during a while: how many cores were busy, and how much energy went into it where it tells."""

from __future__ import annotations

import time
from pathlib import Path

import psutil

RAPL = Path("/sys/class/powercap")


class Meter:
    """Begins when it is made."""

    def __init__(self, rapl: Path = RAPL) -> None:
        self._counters = [zone for zone in sorted(rapl.glob("intel-rapl:*")) if zone.name.count(":") == 1]
        self._began = time.monotonic()
        self._busy = _busy()
        self._energy = self._read()

    def cores(self) -> float:
        """Busy since then, on average, whoever used them."""
        return max(0.0, _busy() - self._busy) / max(time.monotonic() - self._began, 1e-9)

    def joules(self) -> float | None:
        """Of all processors since then; None where the machine does not tell, or only to root."""
        now = self._read()
        if now is None or self._energy is None:
            return None
        return sum(
            (after - before if after >= before else after + most - before) / 1e6
            for (after, most), (before, _) in zip(now, self._energy, strict=True)
        )

    def _read(self) -> list[tuple[int, int]] | None:
        """Of each processor the counter in microjoules, and where it begins again."""
        try:
            return [
                (int((zone / "energy_uj").read_text()), int((zone / "max_energy_range_uj").read_text()))
                for zone in self._counters
            ] or None
        except (OSError, ValueError):
            return None


def _busy() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0))
