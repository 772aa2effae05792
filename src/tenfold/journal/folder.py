"""The folder of a run: made for its owner only, and used by one call at a time.

runs/linear/
  journal.sqlite     what happened
  values/            results too large for the journal, one file each
  tasks/             files that tasks kept for themselves: here().folder
  train.checkpoint   what a training goes on from; of a divided one, train.parts/
  lock
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from tenfold.errors import RunUnusable
from tenfold.work.parcel import Buffer

JOURNAL = "journal.sqlite"
LOOKS = 10  # times that a call tries to take a folder before it says that it is in use


class Folder:
    """A run's folder. Making the object touches nothing."""

    def __init__(self, path: str | os.PathLike[str], *, argument: str = "run", lock: str = "lock") -> None:
        self._argument = argument  # by which the caller gave it
        self.path = Path(path).absolute()
        self.journal = self.path / JOURNAL
        self.values = self.path / "values"
        self.tasks = self.path / "tasks"
        self.checkpoint = self.path / "train.checkpoint"
        self.parts = self.path / "train.parts"
        self._lock = self.path / lock

    def prepare(self) -> None:
        """Make it, or see that it is usable."""
        try:
            if self.path.exists() and not self.path.is_dir():
                raise RunUnusable(f"run={str(self.path)!r} is a file; give the name of a folder")
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.values.mkdir(mode=0o700, exist_ok=True)
            with open(self._lock, "a"):
                pass
        except RunUnusable:
            raise
        except OSError as error:
            raise self.unusable(error) from error

    def unusable(self, error: Exception) -> RunUnusable:
        reason = getattr(error, "strerror", None) or str(error)
        return RunUnusable(f"run={str(self.path)!r} cannot be used: {reason}")

    def in_use(self) -> bool:
        """Whether a call works on it now."""
        try:
            with open(self._lock) as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # let go of at once
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder; the kernel lets go of it when this process ends, however it ends."""
        with open(self._lock, "a+") as file:
            if not _lock_soon(file.fileno()):
                file.seek(0)
                holder = file.read().strip() or "unknown"
                raise RunUnusable(
                    f"{self._argument}={str(self.path)!r} is in use by process {holder}; "
                    "wait for it, or give another folder"
                )
            with contextlib.suppress(OSError):  # a full disk: who holds it is only said to be kind
                os.ftruncate(file.fileno(), 0)
                os.pwrite(file.fileno(), str(os.getpid()).encode(), 0)
            yield


def _lock_soon(file: int) -> bool:
    """Take the lock; one that is held only for a look (`in_use`) is free again in no time."""
    for _ in range(LOOKS):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.01)
        else:
            return True
    return False


def is_run(path: Path) -> bool:
    return (path / JOURNAL).is_file()


def write_whole(path: Path, memory: Buffer) -> None:
    """Write a file so that it is there whole or not at all."""
    partial = path.with_suffix(".partial")
    try:
        with open(partial, "wb") as file:
            file.write(memory)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
