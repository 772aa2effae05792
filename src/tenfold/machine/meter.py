"""What this machine did during a while: how many cores were busy, and how much energy went into it where it tells."""

from __future__ import annotations

import time
from pathlib import Path

import psutil

RAPL = Path("/sys/class/powercap")
PROCESS = Path("/proc/self")


class Meter:
    """Begins when it is made. One that `weighs` has the system forget what this process needed before."""

    def __init__(self, rapl: Path = RAPL, *, weighs: bool = False) -> None:
        self._weighs = weighs and _peak_forgotten()
        self._counters = [zone for zone in sorted(rapl.glob("intel-rapl:*")) if _is_processor(zone)]
        self._began = time.monotonic()
        self._busy = _busy()
        self._energy = self._read()

    def cores(self) -> float:
        """Busy since then, on average, whoever used them."""
        return max(0.0, _busy() - self._busy) / max(time.monotonic() - self._began, 1e-9)

    def memory(self) -> int:
        """Most resident bytes of this process since then; 0 where it does not weigh, or the system cannot tell."""
        if not self._weighs:
            return 0
        try:
            lines = (PROCESS / "status").read_text().splitlines()
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
        except (OSError, StopIteration):
            return 0

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


def _peak_forgotten() -> bool:
    try:
        (PROCESS / "clear_refs").write_text("5")  # what proc(5) has for the peak of resident memory
    except OSError:
        return False
    return True


def _is_processor(zone: Path) -> bool:
    """Not a part of one (intel-rapl:0:1), and not the whole machine (psys), in which processors are counted already."""
    if zone.name.count(":") != 1:
        return False
    try:
        return (zone / "name").read_text().startswith("package")
    except OSError:
        return False


def _busy() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0))
