"""Made tests/data/journal-v1, once. It is kept to show how; the journal itself must never be made again.

    python tests/data/make_journal_v1.py

Old journals open for ever: when the format changes, add make_journal_v2.py and journal-v2 beside this.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from tenfold.journal.folder import Folder
from tenfold.journal.store import FORMAT, Block, Journal
from tenfold.work import parcel
from tenfold.work.outcome import Failure, Report
from tenfold.work.run import raised

PLACE = Path(__file__).parent / "journal-v1"


def block(first: int, count: int = 1, attempts: int = 1) -> Block:
    indices = range(first, first + count)
    return Block(
        first=first,
        seconds=[0.25 * (n + 1) for n in indices],
        peak=123_456_789,
        seat=1,
        worker="host:4321",
        attempts=attempts,
        items=[{"lr": 0.5**n, "seed": n} for n in indices],
        digests=b"".join(n.to_bytes(8, "big") for n in indices),
    )


def fill(journal: Journal) -> None:
    journal.set_meta(verb="map", function="train", count="8", fingerprint='{"the code of train": "00ff"}')
    journal.begin_session({"engine": "LocalEngine", "workers": 2, "plan": "2 at a time"})
    values = [
        {"loss": 0.5, "name": "na\N{LATIN SMALL LETTER I WITH DIAERESIS}ve"},
        [1, 2.5, None, True],
        (3, b"\0\xff"),
    ]
    journal.add_values(block(0, 3), [parcel.pack(value).body for value in values])
    large = {"weights": np.arange(10_000, dtype=np.float64).reshape(100, 100), "bias": np.ones(3, np.float32)}
    journal.add_large(block(3), parcel.pack(large).to_bytes())
    journal.add_large(block(4), parcel.pack(np.arange(100, dtype=np.int16)).to_bytes())
    journal.add_attempt(block(5, attempts=1), Failure("timeout", "it ran longer than timeout=5 s and was stopped"))
    try:
        raise ValueError("learning rate too high", 7)
    except ValueError as error:
        failure = raised(error)
    journal.add_attempt(block(5, attempts=2), failure)
    journal.add_failure(block(5, attempts=2), failure)
    died = Failure("died", "its process was killed by SIGKILL", "", None, "out of memory\n")
    journal.add_failure(block(6), died)
    journal.add_values(block(7), [parcel.pack("last").body])
    journal.add_reports(
        [
            Report(0, 1, 0, {"loss": 0.75}, 1.75e9),
            Report(5, 2, 0, {"loss": float("inf"), "accuracy": 0.125}, 1.75e9 + 0.5),
            Report(0, 1, 1, {"loss": 0.5}, 1.75e9 + 1),
        ]
    )
    journal.end_session()
    journal.commit()


if __name__ == "__main__":
    if FORMAT != 1 or PLACE.exists():
        sys.exit(f"format {FORMAT} is written now, or {PLACE} is there already: leave it as it is")
    folder = Folder(PLACE)
    folder.prepare()
    opened = Journal(folder)
    fill(opened)
    opened.close()
    (PLACE / "lock").unlink()
