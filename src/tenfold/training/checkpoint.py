"""What a training goes on from when no worker is left that holds it: one file, whole or not there, with a checksum."""

from __future__ import annotations

import hashlib
import os
import pickle
import time
from pathlib import Path
from typing import Any

from tenfold.training.terms import Checkpointing

_DIGEST = 32


class Checkpoint:
    """The file of one training; written by one worker, read by all when they begin."""

    def __init__(self, path: Path, often: Checkpointing | None) -> None:
        self._path = path
        self._often = often
        self._last_step = 0
        self._last_time = time.monotonic()

    def due(self, step: int) -> bool:
        """Whether enough steps or seconds have gone by since the last one."""
        often = self._often
        if often is None:
            return False
        by_steps = often.steps is not None and step - self._last_step >= often.steps
        return by_steps or (often.seconds is not None and time.monotonic() - self._last_time >= often.seconds)

    def write(self, state: Any, step: int) -> None:
        """Beside, and renamed: who is killed here leaves the last one."""
        body = pickle.dumps(state, protocol=5)
        partial = self._path.with_suffix(f".{os.getpid()}")
        with open(partial, "wb") as file:
            file.write(hashlib.blake2b(body, digest_size=_DIGEST).digest())
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, self._path)
        self._last_step, self._last_time = step, time.monotonic()

    def read(self) -> Any:
        """The state; None where there is none, or where it is torn."""
        try:
            found = self._path.read_bytes()
        except FileNotFoundError:
            return None
        digest, body = found[:_DIGEST], found[_DIGEST:]
        if hashlib.blake2b(body, digest_size=_DIGEST).digest() != digest:
            return None
        return pickle.loads(body)
