"""What the machine did meanwhile: busy cores, and joules from counters that begin again."""

from __future__ import annotations

import time
from pathlib import Path

from tenfold.machine.meter import Meter


def _zone(folder: Path, name: str, energy: int, most: int = 1_000_000_000, *, kind: str = "package-0") -> Path:
    zone = folder / name
    zone.mkdir(exist_ok=True)
    (zone / "name").write_text(f"{kind}\n")
    (zone / "energy_uj").write_text(f"{energy}\n")
    (zone / "max_energy_range_uj").write_text(f"{most}\n")
    return zone


def test_joules_of_all_processors_also_when_a_counter_begins_again(tmp_path: Path) -> None:
    _zone(tmp_path, "intel-rapl:0", 5_000_000)
    _zone(tmp_path, "intel-rapl:1", 900_000_000)
    _zone(tmp_path, "intel-rapl:0:0", 1, kind="core")  # a part of the first: counted with it
    _zone(tmp_path, "intel-rapl:2", 1, kind="psys")  # the whole machine: holds the others
    meter = Meter(tmp_path)
    _zone(tmp_path, "intel-rapl:0", 7_500_000)
    _zone(tmp_path, "intel-rapl:1", 100_000_000)
    _zone(tmp_path, "intel-rapl:2", 500_000_000, kind="psys")
    assert meter.joules() == 2.5 + 200


def test_a_machine_that_does_not_tell(tmp_path: Path) -> None:
    assert Meter(tmp_path).joules() is None
    zone = _zone(tmp_path, "intel-rapl:0", 5)
    (zone / "energy_uj").unlink()
    assert Meter(tmp_path).joules() is None


def test_a_busy_core_is_seen() -> None:
    meter = Meter()
    until = time.monotonic() + 0.3
    while time.monotonic() < until:
        pass
    assert meter.cores() > 0.3
