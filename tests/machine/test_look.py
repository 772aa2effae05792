"""The whole look: affinity, and what is left of a machine inside a seat."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import scripts
from tenfold import machine
from tenfold.errors import MissingPackage
from tenfold.machine import Gpu, Machine, cores, installed
from tenfold.plan.seats import GpuShare, Seat

WHOLE = Machine(
    cores=(0, 1, 2, 3), cpus=4.0, memory=8 << 30, gpus=tuple(Gpu(str(n), "invented", 16 << 30) for n in range(3))
)


def test_the_affinity_mask_is_what_counts(tmp_path: Path) -> None:
    """Not the number of cores in the machine: taskset, Slurm and Kubernetes restrict the mask."""
    allowed = max(os.sched_getaffinity(0))
    ended = scripts.run(
        tmp_path,
        f"""
        import os
        os.sched_setaffinity(0, {{{allowed}}})
        from tenfold import machine
        from tenfold.machine import cores
        found = machine.look()
        print(cores.affinity(), found.cores, found.cpus)
        """,
    )
    assert ended.out.strip() in (f"({allowed},) ({allowed},) 1.0", f"({allowed},) () 1.0")


def test_a_mask_that_was_set_from_outside(tmp_path: Path) -> None:
    allowed = min(os.sched_getaffinity(0))
    code = "from tenfold.machine import cores; print(*cores.affinity())"
    out = subprocess.check_output(["taskset", "-c", str(allowed), sys.executable, "-c", code], text=True)
    assert out.split() == [str(allowed)]


def test_cores_come_in_order_and_once() -> None:
    found = cores.affinity()
    assert found == tuple(sorted(set(found)))
    assert set(found) == os.sched_getaffinity(0)


@pytest.mark.parametrize(
    ("quota", "cpus", "pinned"),
    [(None, 4.0, True), (8.0, 4.0, True), (4.0, 4.0, True), (2.5, 2.5, False), (0.2, 1.0, False)],
)
def test_a_quota_bounds_the_cores_and_forbids_pinning(
    monkeypatch: pytest.MonkeyPatch, quota: float | None, cpus: float, pinned: bool
) -> None:
    monkeypatch.delenv(machine.SEAT_VARIABLE, raising=False)
    monkeypatch.setattr(cores, "affinity", lambda: (4, 5, 6, 7))
    monkeypatch.setattr(cores, "quota", lambda: quota)
    found = machine.look()
    assert found.cpus == cpus
    assert found.cores == ((4, 5, 6, 7) if pinned else ())


def test_a_look_takes_milliseconds() -> None:
    import time

    machine.look()
    began = time.perf_counter()
    machine.look()
    assert time.perf_counter() - began < 0.25


# -- inside a seat ----------------------------------------------------------------------------------------------------


def test_a_seat_holds_a_part_of_the_machine() -> None:
    seat = Seat(0, 2, (0, 1), (GpuShare("1", 0.5), GpuShare("2", 1.0)), 1 << 30)
    found = machine.within(WHOLE, json.loads(seat.describe()))
    assert found.cpus == 2
    assert found.memory == 1 << 30
    assert [(gpu.address, gpu.share) for gpu in found.gpus] == [("1", 0.5), ("2", 1.0)]


def test_a_seat_without_a_limit_has_the_memory_of_the_machine() -> None:
    assert machine.within(WHOLE, json.loads(Seat(0, 1, ()).describe())).memory == WHOLE.memory


def test_a_seat_never_holds_more_than_there_is() -> None:
    """The machine may have shrunk since the plan was made."""
    found = machine.within(WHOLE, json.loads(Seat(0, 64, (), (GpuShare("9", 1.0),), 1 << 50).describe()))
    assert (found.cpus, found.memory, found.gpus) == (WHOLE.cpus, WHOLE.memory, ())


def test_look_inside_a_seat(monkeypatch: pytest.MonkeyPatch) -> None:
    seat = Seat(3, 1, (), (GpuShare("2", 0.25),), 64 << 20)
    monkeypatch.setenv("TENFOLD_GPUS", "4")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    monkeypatch.setenv(machine.SEAT_VARIABLE, seat.describe())
    found = machine.look()
    assert found.cpus == 1
    assert found.memory == 64 << 20
    assert [(gpu.address, gpu.share) for gpu in found.gpus] == [("2", 0.25)]


def test_look_inside_a_seat_without_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENFOLD_GPUS", "4")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv(machine.SEAT_VARIABLE, Seat(0, 1, ()).describe())
    assert machine.look().gpus == ()


# -- installed packages -----------------------------------------------------------------------------------------------


def test_versions_are_found_without_an_import(tmp_path: Path) -> None:
    ended = scripts.run(
        tmp_path,
        """
        import sys
        from tenfold.machine import installed
        print(installed.version("no-such-package", "torch") is not None, "torch" in sys.modules)
        """,
    )
    assert ended.out.split() == ["True", "False"]


def test_a_package_that_is_not_installed() -> None:
    assert installed.version("no-such-package") is None
    error = installed.missing("CuPy", "cupy")
    assert isinstance(error, MissingPackage)
    assert 'pip install "tenfold[cupy]"' in str(error)
