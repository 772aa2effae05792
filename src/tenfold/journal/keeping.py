"""A copy of a journal that tells what happened, without the items: those of a stream are the data itself."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3

from tenfold.journal.folder import Folder
from tenfold.journal.store import TABLES

NAME = ".run"
"""Where it is, in the folder of a prepared set."""

_COLUMNS = "first, count, ok, kind, value, failure, seconds, started, peak, seat, worker, attempts"


def keep(run: Folder, target: Folder) -> None:
    """Copy the journal of `run`; raises what the disk or SQLite raises.

    The disk is not waited for: that would take longer than all the rest, and after a power cut only a report is lost.
    """
    target.prepare()
    with contextlib.closing(sqlite3.connect(str(target.journal))) as database:
        os.chmod(target.journal, 0o600)
        database.execute("PRAGMA journal_mode = OFF")
        database.execute("PRAGMA synchronous = OFF")
        database.executescript(TABLES)
        database.execute("ATTACH ? AS run", (str(run.journal),))
        for table in ("meta", "attempts", "reports", "sessions"):
            database.execute(f"INSERT INTO main.{table} SELECT * FROM run.{table}")
        database.execute(f"INSERT INTO main.outcomes ({_COLUMNS}) SELECT {_COLUMNS} FROM run.outcomes")
        database.commit()
    shutil.copytree(run.values, target.values, dirs_exist_ok=True)
