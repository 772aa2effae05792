"""Disks that are small, full or read-only: real ones, where this user may mount them."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


class Disk:
    """A file system of its own at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fill(self) -> None:
        """Leave no room at all."""
        with contextlib.suppress(OSError), open(self.path / "ballast", "wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    def free(self) -> None:
        (self.path / "ballast").unlink(missing_ok=True)

    def grow(self, size: str) -> None:
        self._remount(f"size={size}")

    def protect(self) -> None:
        self._remount("ro")

    def _remount(self, option: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{option}", str(self.path)], check=True)


@contextlib.contextmanager
def small(path: Path, size: str) -> Iterator[Disk]:
    """A disk of that size at `path`; the test is skipped where this user may not mount one."""
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)
