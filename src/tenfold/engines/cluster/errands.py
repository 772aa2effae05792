"""Files that tasks keep in `here().folder`, on a node that does not see the caller's disk: carried home."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tenfold.engines import Batch, Event, Failed, Finished, FinishedLarge, GivenBack
from tenfold.work.here import folder_of
from tenfold.work.run import Job


@dataclass(frozen=True, slots=True)
class Filed:
    """A task has left files in its folder."""

    index: int
    """Which folder: the task's place, or its trial."""
    files: dict[str, bytes]
    """By their place in its folder."""


class Errands:
    """Gives tasks a folder of this node, and sends home what they have left in it when they end."""

    def __init__(self, job: Job, *, is_here: bool) -> None:
        # Where the caller is on this machine, or nothing is kept, tasks use the folder that the caller has named.
        self._home = None if is_here or job.scratch else tempfile.mkdtemp(prefix="tenfold-tasks-")
        self.job = job if self._home is None else replace(job, folder=self._home, scratch=True)
        self._batches: dict[int, list[int]] = {}  # folders of tasks of which we have not heard, by batch

    def begin(self, batch: Batch, files: Sequence[Filed] = ()) -> None:
        if self._home is not None:
            self._batches[batch.id] = list(batch.folders)
            for filed in files:
                bring_home(self.job, filed)

    def watch(self, events: Sequence[Event]) -> Sequence[Event | Filed]:
        """The events, each with the files of its tasks before it."""
        if self._home is None:
            return events
        found: list[Event | Filed] = []
        for event in events:
            if isinstance(event, Finished | FinishedLarge | Failed):
                count = len(event.seconds) if isinstance(event, Finished) else 1
                rest = self._batches[event.batch]
                for index in rest[:count]:
                    found += self._files(index)
                del rest[:count]
            elif isinstance(event, GivenBack):
                self._batches.pop(event.batch, None)
            found.append(event)
        return found

    def _files(self, index: int) -> list[Filed]:
        assert self._home is not None
        found = gather(self._home, index)
        shutil.rmtree(folder_of(self._home, index), ignore_errors=True)
        return found

    def close(self) -> None:
        if self._home is not None:
            shutil.rmtree(self._home, ignore_errors=True)


def gather(home: str, index: int) -> list[Filed]:
    """A task's files below `home`; nothing where it has no folder."""
    folder = folder_of(home, index)
    if not folder.is_dir():
        return []
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return [Filed(index, {str(path.relative_to(folder)): path.read_bytes() for path in paths})]


def bring_home(job: Job, event: Filed) -> None:
    """In the caller: put a task's files where it would have put them here; what it has removed goes here, too."""
    folder = folder_of(job.folder, event.index)
    for name, content in event.files.items():
        path = folder / Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    for path in folder.rglob("*"):
        if path.is_file() and str(path.relative_to(folder)) not in event.files:
            path.unlink()
