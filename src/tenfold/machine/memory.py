"""The memory we may use, and what a process uses of it."""

from __future__ import annotations

import os
from pathlib import Path

from tenfold.machine.cores import CGROUP_FILE, CGROUP_ROOT, ancestors


def limit(membership: Path = CGROUP_FILE, root: Path = CGROUP_ROOT) -> int:
    """Bytes: the machine's memory, or the tightest cgroup limit where that is less."""
    found = [_total()]
    for controller, name in (("", "memory.max"), ("memory", "memory.limit_in_bytes")):
        for folder in ancestors(membership, root, controller):
            try:
                text = (folder / name).read_text().strip()
            except OSError:
                continue
            if text.isdigit():  # "max" means no limit
                found.append(int(text))
    return min(found)


def _total() -> int:
    if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):
        return int(os.sysconf("SC_PHYS_PAGES")) * _PAGE
    import psutil

    return int(psutil.virtual_memory().total)


_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def private(pid: int) -> int:
    """Resident bytes of a process that it shares with nobody through a file or shared memory.

    Pages inherited from a fork and never written still count, so this is read as a difference from the
    figure at the process's start.
    """
    try:
        fields = Path(f"/proc/{pid}/statm").read_text().split()
        return (int(fields[1]) - int(fields[2])) * _PAGE
    except (OSError, IndexError):
        pass
    import psutil  # 30 ms, and `import tenfold` reads this file

    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0
