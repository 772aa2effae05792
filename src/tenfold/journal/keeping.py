"""A copy of a journal that tells what happened, without the items: those of a stream are the data itself."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3

from tenfold.journal.folder import Folder
from tenfold.journal.store import Journal

NAME = ".run"
"""Where it is, in the folder of a prepared set."""


def keep(run: Folder, target: Folder) -> None:
    """Copy the journal of `run`; raises what the disk or SQLite raises."""
    target.prepare()
    Journal(target).close()  # its tables
    with contextlib.closing(sqlite3.connect(str(target.journal))) as database:
        database.execute("ATTACH ? AS run", (str(run.journal),))
        for table in ("meta", "outcomes", "attempts", "reports", "sessions"):
            database.execute(f"INSERT OR REPLACE INTO main.{table} SELECT * FROM run.{table}")
        database.execute("UPDATE main.outcomes SET items = NULL, digests = NULL")
        database.commit()
        database.execute("DETACH run")
        database.execute("PRAGMA journal_mode = DELETE")  # one file, which can be read where nothing can be written
        database.execute("VACUUM")
    shutil.copytree(run.values, target.values, dirs_exist_ok=True)
