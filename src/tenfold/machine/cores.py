"""The cores we may use: the affinity mask of this process, and the CPU quota of its cgroup (v1 and v2)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

CGROUP_FILE = Path("/proc/self/cgroup")
CGROUP_ROOT = Path("/sys/fs/cgroup")


def affinity() -> tuple[int, ...]:
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def quota(membership: Path = CGROUP_FILE, root: Path = CGROUP_ROOT) -> float | None:
    """Cores' worth of time that the tightest cgroup above us allows, or None where nothing limits it."""
    limits = [*_quotas_v2(membership, root), *_quotas_v1(membership, root)]
    return min(limits, default=None)


def _quotas_v2(membership: Path, root: Path) -> Iterator[float]:
    for folder in ancestors(membership, root, controller=""):
        words = _words(folder / "cpu.max")
        if len(words) == 2 and words[0] != "max":
            yield int(words[0]) / int(words[1])


def _quotas_v1(membership: Path, root: Path) -> Iterator[float]:
    for folder in ancestors(membership, root, controller="cpu"):
        allowed, period = _words(folder / "cpu.cfs_quota_us"), _words(folder / "cpu.cfs_period_us")
        if allowed and period and int(allowed[0]) > 0:
            yield int(allowed[0]) / int(period[0])


def ancestors(membership: Path, root: Path, controller: str) -> Iterator[Path]:
    """The folders of our cgroup and of those above it, in the hierarchy of `controller` ("" is version 2).

    Inside a container the path in /proc/self/cgroup is often the host's, and only the root is mounted: folders
    that do not exist are simply read as having no limit.
    """
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controller not in controllers.split(","):
            continue
        base = root / controllers.split(",")[0] if controller else root
        if controller and not base.exists():
            base = root / controllers
        folder = base / path.lstrip("/")
        yield from [folder, *[parent for parent in folder.parents if parent == base or base in parent.parents]]


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
