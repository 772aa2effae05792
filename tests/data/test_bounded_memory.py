"""However long a source is, `prepare` and `predict` take the same memory: of the caller, and of each worker."""

from __future__ import annotations

from pathlib import Path

import numpy
import pytest

import scripts

WIDTH = 1024  # numbers of 8 bytes in a row
BOUND = 100e6  # private bytes of a process; after its imports, it has about 50 MB

_SCRIPT = """
    import pathlib, threading
    import numpy
    import tenfold

    folder = pathlib.Path({folder!r})

    def private():
        status = pathlib.Path("/proc/self/status").read_text()
        return int(status.split("RssAnon:")[1].split()[0]) * 1024

    def note():
        import os
        path = folder / f"worker {{os.getpid()}}"
        path.write_text(str(max(private(), int(path.read_text()) if path.exists() else 0)))

    def prepare_row(row):
        if row[0] % 50 == 0:
            note()
        return row[:128] * 2

    def predict_rows(rows):
        note()
        return rows[:, :128] * 2

    stop, peak = threading.Event(), [0]

    def watch():
        while not stop.wait(0.005):
            peak[0] = max(peak[0], private())

    watching = threading.Thread(target=watch)
    watching.start()
    if {verb!r} == "prepare":
        made = tenfold.prepare(prepare_row, {source!r}, folder / "set", workers=2, progress=False)
    else:
        made = tenfold.predict(
            predict_rows, {source!r}, folder / "set", batch_size=1024, workers=2, progress=False
        )
    stop.set()
    watching.join()
    workers = [int(path.read_text()) for path in folder.glob("worker *")]
    print(len(made), int(made.numpy()[-1, 0]), peak[0], max(workers))
"""


def _measured(folder: Path, verb: str, rows: int) -> tuple[int, int]:
    folder.mkdir()
    source = folder / "x.npy"
    array = numpy.lib.format.open_memmap(source, "w+", "float64", (rows, WIDTH))
    array[:, 0] = numpy.arange(rows)
    del array
    ended = scripts.run(folder, _SCRIPT.format(folder=str(folder), verb=verb, source=str(source)))
    length, last, caller, worker = map(int, ended.out.split())
    assert length == rows
    assert last == (rows - 1) * 2
    return caller, worker


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["prepare", "predict"])
def test_memory_does_not_grow_with_the_source(verb: str, tmp_path: Path) -> None:
    short = _measured(tmp_path / "short", verb, 12_500)  # 100 MB
    long = _measured(tmp_path / "long", verb, 37_500)  # 300 MB
    assert max(short) < BOUND, short
    assert max(long) < BOUND, long
    assert long[0] < short[0] + 20e6
    assert long[1] < short[1] + 20e6


def test_sizes_of_batches_are_not_tried_beyond_reason(tmp_path: Path) -> None:
    """A function that costs nothing is the faster the more rows it is given, and 8192 of these would be 6.5 GB."""
    text = """
        import pathlib
        import numpy
        import tenfold

        def first_number(rows):
            with open("sizes", "a") as file:
                file.write(f"{len(rows)}\\n")
            return rows[:, 0]

        tenfold.predict(first_number, numpy.zeros((60, 100_000)), workers=1, progress=False)
        print(max(map(int, pathlib.Path("sizes").read_text().split())))
    """
    assert int(scripts.run(tmp_path, text).out) <= 512
