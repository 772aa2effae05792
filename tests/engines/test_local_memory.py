"""The local engine sends large arrays once: what tasks read is shared, and what they return can be written to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy
import pytest

import scripts
import tenfold

# Pages of shared memory count as private (USS) while only one process has them mapped, so both workers touch the whole
# array before either measures; RssAnon counts copies alone, at any time.
_SCRIPT = """
    import os, pathlib
    import numpy, psutil
    import tenfold, waiting

    array = numpy.ones(50_000_000)  # 400 MB
    folder = pathlib.Path({folder!r})

    def read(x):
        total = float(array.sum())
        (folder / str(x)).touch()
        waiting.until(lambda: len(list(folder.iterdir())) >= 2)
        status = pathlib.Path("/proc/self/status").read_text()
        anonymous = int(status.split("RssAnon:")[1].split()[0]) * 1024
        uss = psutil.Process().memory_full_info().uss
        (folder / f"{{x}} measured").touch()
        waiting.until(lambda: len(list(folder.glob("* measured"))) >= 2)
        return total, anonymous, uss, array.flags.writeable

    results = tenfold.map(read, range(6), workers=2)
    for total, anonymous, uss, writeable in results:
        print(total, anonymous, uss, writeable)
"""


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_closed_over_array_is_not_copied(start: str, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    text = _SCRIPT.format(folder=str(tmp_path / "shared"))
    lines = scripts.run(tmp_path, text, {"TENFOLD_START": start}).out.split("\n")[:6]
    for total, anonymous, uss, _ in (line.split() for line in lines):
        assert float(total) == 50_000_000
        assert int(anonymous) < 150e6
    # The first two ran at the same time, each with all of the array in its pages.
    assert all(int(line.split()[2]) < 150e6 for line in lines[:2])


def test_a_memory_mapped_array_travels_as_its_file(tmp_path: Path) -> None:
    path = tmp_path / "data.npy"
    numpy.save(path, numpy.arange(8_000_000, dtype=float))  # 64 MB
    array = numpy.load(path, mmap_mode="r")
    part = array[1000:5_000_000:2]

    def read(x: int) -> tuple[float, float, int]:
        status = Path("/proc/self/status").read_text()
        before = int(status.split("RssAnon:")[1].split()[0])
        total = float(array.sum()), float(part.sum())
        status = Path("/proc/self/status").read_text()
        return *total, int(status.split("RssAnon:")[1].split()[0]) - before

    for whole, some, grown in tenfold.map(read, range(4)):
        assert whole == float(array.sum())
        assert some == float(part.sum())
        assert grown < 20_000


def test_items_that_are_memory_mapped_travel_as_their_file(tmp_path: Path) -> None:
    path = tmp_path / "data.npy"
    numpy.save(path, numpy.arange(1_000_000, dtype=float))
    array = numpy.load(path, mmap_mode="r")
    parts = [array[n : n + 250_000] for n in range(0, 1_000_000, 250_000)]
    assert tenfold.map(lambda part: float(part.sum()), parts)[:] == [float(part.sum()) for part in parts]


def test_a_task_that_writes_to_a_closed_over_array_harms_nobody() -> None:
    array = numpy.zeros(300_000)

    def write(x: int) -> Any:
        try:
            array[:] = x + 1
        except ValueError:
            return "read-only", 0.0
        return "written", float(array[0])

    results = tenfold.map(write, range(4), workers=2)
    assert {how for how, _ in results} == {"read-only"}
    assert array.sum() == 0


def test_hundreds_of_large_results_need_no_descriptor_each(tmp_path: Path) -> None:
    text = """
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
        import numpy
        import tenfold
        results = tenfold.map(lambda x: numpy.full(140_000, x), range(200), run=%r)
        arrays = list(results)
        print(all((array == n).all() for n, array in enumerate(arrays)), len(arrays))
    """
    assert scripts.run(tmp_path, text % None).out == "True 200\n"
    assert scripts.run(tmp_path, text % str(tmp_path / "run")).out == "True 200\n"


def test_a_worker_that_grew_is_replaced() -> None:
    """A worker may grow by half of its part of the machine: here the machine is a seat of 400 MB."""

    def outer(x: int) -> list[int]:
        kept: list[bytes] = []

        def hoard(y: int) -> int:
            kept.append(b"x" * 40_000_000)
            return os.getpid()

        return tenfold.map(hoard, range(12), workers=1)[:]

    (pids,) = tenfold.map(outer, [0], memory="400MB", workers=1)
    assert 2 <= len(set(pids)) <= 6
