"""However long a source is, `prepare`, `predict` and `evaluate` take the same memory: of the caller, of each worker."""

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
        return sum(int(status.split(kind)[1].split()[0]) * 1024 for kind in ("RssAnon:", "RssShmem:"))

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

    def score(rows):
        note()
        return rows.astype("float64")

    stop, peak = threading.Event(), [0]

    def watch():
        while not stop.wait(0.005):
            peak[0] = max(peak[0], private())

    watching = threading.Thread(target=watch)
    watching.start()
    if {verb!r} == "evaluate":
        scores = tenfold.evaluate(
            score, (folder / "x.npy", folder / "y.npy"), ["roc_auc"], batch_size=8192, workers=2, progress=False
        )
    elif {verb!r} == "prepare":
        made = tenfold.prepare(prepare_row, {source!r}, folder / "set", workers=2, progress=False)
    else:
        made = tenfold.predict(
            predict_rows, {source!r}, folder / "set", batch_size=1024, workers=2, progress=False
        )
    stop.set()
    watching.join()
    workers = [int(path.read_text()) for path in folder.glob("worker *")]
    found = (scores.rows, scores["roc_auc"]) if {verb!r} == "evaluate" else (len(made), made.numpy()[-1, 0])
    print(*map(float, found), peak[0], max(workers))
"""


def _measured(folder: Path, verb: str, rows: int) -> tuple[int, int]:
    """Most bytes of the caller, and of a worker."""
    folder.mkdir()
    source = folder / "x.npy"
    if verb == "evaluate":  # scores are as long as the source
        numpy.save(source, numpy.random.default_rng(0).random(rows, "float32"))
        numpy.save(folder / "y.npy", numpy.load(source, mmap_mode="r") > 0.5)
    else:
        array = numpy.lib.format.open_memmap(source, "w+", "float64", (rows, WIDTH))
        array[:, 0] = numpy.arange(rows)
        del array
    ended = scripts.run(folder, _SCRIPT.format(folder=str(folder), verb=verb, source=str(source)))
    length, last, caller, worker = map(float, ended.out.split())
    assert length == rows
    assert last == (1 if verb == "evaluate" else (rows - 1) * 2)
    return int(caller), int(worker)


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["prepare", "predict"])
def test_memory_does_not_grow_with_the_source(verb: str, tmp_path: Path) -> None:
    short = _measured(tmp_path / "short", verb, 12_500)  # 100 MB
    long = _measured(tmp_path / "long", verb, 37_500)  # 300 MB
    assert max(short) < BOUND, short
    assert max(long) < BOUND, long
    assert long[0] < short[0] + 20e6
    assert long[1] < short[1] + 20e6


@pytest.mark.slow
def test_memory_does_not_grow_with_the_scores(tmp_path: Path) -> None:
    """Exact areas under curves need every score, 20 bytes of each: what all workers bring is not held at once."""
    short = _measured(tmp_path / "short", "evaluate", 2_000_000)  # 40 MB
    long = _measured(tmp_path / "long", "evaluate", 6_000_000)  # 120 MB
    assert max(long) < 2 * BOUND, long
    assert long[0] < short[0] + 30e6, (short, long)
    assert long[1] < short[1] + 20e6, (short, long)


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
