"""In a worker: what it has found out about programs by tracing them, for the other workers of a call and the next legs.

To trace a step takes 20 ms, and of most models nothing is needed but whether they are the same program, and their
numbers. Models of Keras's own layers are known by their configuration; of others nothing is noted. The files lie
beside what is compiled, and are as safe to delete.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy

from tenfold.fuse import program

LARGEST = 1 << 16  # bytes of numbers; a model with more of them holds data, and is quicker traced than read


class Note(NamedTuple):
    """What tells a program from others."""

    key: bytes
    """Equal for equal programs."""
    numbers: tuple[Any, ...]
    """In which those may differ."""


Notes = Mapping[tuple[str, int], Note]
"""By the name of a function, and the rows of a batch."""


class Notebook:
    """The notes of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "traced"

    def read(self, identity: str) -> Notes:
        """What is known of such a model; nothing where nobody has noted anything."""
        try:
            return pickle.loads(self._path(identity).read_bytes())  # type: ignore[no-any-return]  # in a folder of ours
        except (OSError, EOFError, pickle.UnpicklingError):
            return {}

    def write(self, notes: Notes, identity: str) -> None:
        """Leave these for the others; without it, they trace for themselves."""
        if sum(numpy.asarray(number).nbytes for note in notes.values() for number in note.numbers) > LARGEST:
            return
        path = self._path(identity)
        partial = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            partial.write_bytes(pickle.dumps(notes))
            partial.replace(path)
        except OSError:  # the disk is full
            partial.unlink(missing_ok=True)

    def _path(self, identity: str) -> Path:
        import jax
        import keras

        whole = identity, keras.__version__, jax.__version__, program.READING
        return self._folder / hashlib.blake2b(repr(whole).encode(), digest_size=16).hexdigest()
