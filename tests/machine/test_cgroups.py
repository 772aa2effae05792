"""Quotas and limits of cgroups, read from invented trees."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tenfold.machine import cores, memory

MB = 1 << 20


class Cgroups:
    """An invented /proc/self/cgroup and /sys/fs/cgroup."""

    def __init__(self, folder: Path) -> None:
        self.membership = folder / "self-cgroup"
        self.root = folder / "cgroup"
        self.root.mkdir()
        self.membership.write_text("")

    def member_of(self, *lines: str) -> None:
        self.membership.write_text("".join(f"{line}\n" for line in lines))

    def write(self, place: str, text: str) -> None:
        path = self.root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")

    def quota(self) -> float | None:
        return cores.quota(self.membership, self.root)

    def limit(self) -> int:
        return memory.limit(self.membership, self.root)


@pytest.fixture
def cgroups(tmp_path: Path) -> Cgroups:
    return Cgroups(tmp_path)


TOTAL = psutil.virtual_memory().total


# -- version 2 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [("max 100000", None), ("200000 100000", 2.0), ("150000 100000", 1.5), ("5000 10000", 0.5), ("max", None)],
)
def test_quota_of_version_2(cgroups: Cgroups, text: str, expected: float | None) -> None:
    cgroups.member_of("0::/user.slice")
    cgroups.write("user.slice/cpu.max", text)
    assert cgroups.quota() == expected


def test_the_tightest_ancestor_counts(cgroups: Cgroups) -> None:
    cgroups.member_of("0::/a/b/c")
    cgroups.write("a/cpu.max", "300000 100000")
    cgroups.write("a/b/cpu.max", "max 100000")
    cgroups.write("a/b/c/cpu.max", "800000 100000")
    cgroups.write("a/memory.max", f"{512 * MB}")
    cgroups.write("a/b/memory.max", f"{64 * MB}")
    cgroups.write("a/b/c/memory.max", "max")
    assert cgroups.quota() == 3.0
    assert cgroups.limit() == 64 * MB


def test_siblings_and_descendants_do_not_count(cgroups: Cgroups) -> None:
    cgroups.member_of("0::/a/b")
    for place in ("a/other", "a/b/below", "z"):
        cgroups.write(f"{place}/cpu.max", "1000 100000")
        cgroups.write(f"{place}/memory.max", f"{MB}")
    assert cgroups.quota() is None
    assert cgroups.limit() == TOTAL


def test_in_a_container_the_host_path_is_not_visible(cgroups: Cgroups) -> None:
    """Without a cgroup namespace the path is the host's, and only the container's own group is mounted, as root."""
    cgroups.member_of("0::/docker/4a1f")
    cgroups.write("cpu.max", "250000 100000")
    cgroups.write("memory.max", f"{300 * MB}")
    assert cgroups.quota() == 2.5
    assert cgroups.limit() == 300 * MB


def test_a_path_above_the_namespace_is_read_as_the_root(cgroups: Cgroups) -> None:
    cgroups.member_of("0::/../../system.slice")
    cgroups.write("cpu.max", "250000 100000")
    assert cgroups.quota() == 2.5


def test_in_the_root_group(cgroups: Cgroups) -> None:
    cgroups.member_of("0::/")
    cgroups.write("cpu.max", "100000 100000")
    assert cgroups.quota() == 1.0


def test_a_name_with_a_colon(cgroups: Cgroups) -> None:
    cgroups.member_of("0::/a:b")
    cgroups.write("a:b/cpu.max", "100000 100000")
    assert cgroups.quota() == 1.0


@pytest.mark.parametrize("text", ["max", str(1 << 62)])
def test_no_limit_means_the_machine(cgroups: Cgroups, text: str) -> None:
    cgroups.member_of("0::/a")
    cgroups.write("a/memory.max", text)
    assert cgroups.limit() == TOTAL


# -- version 1 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "expected"), [("-1", None), ("200000", 2.0), ("50000", 0.5)])
def test_quota_of_version_1(cgroups: Cgroups, text: str, expected: float | None) -> None:
    cgroups.member_of("3:cpu,cpuacct:/job", "2:memory:/job", "1:name=systemd:/job")
    cgroups.write("cpu,cpuacct/job/cpu.cfs_quota_us", text)
    cgroups.write("cpu,cpuacct/job/cpu.cfs_period_us", "100000")
    assert cgroups.quota() == expected


def test_quota_of_version_1_by_the_name_of_one_controller(cgroups: Cgroups) -> None:
    cgroups.member_of("3:cpu,cpuacct:/job")
    cgroups.write("cpu/job/cpu.cfs_quota_us", "150000")
    cgroups.write("cpu/job/cpu.cfs_period_us", "50000")
    assert cgroups.quota() == 3.0


def test_nested_and_invisible_groups_of_version_1(cgroups: Cgroups) -> None:
    cgroups.member_of("3:cpu:/kube/pod/c", "2:memory:/kube/pod/c")
    cgroups.write("cpu/kube/cpu.cfs_quota_us", "400000")
    cgroups.write("cpu/kube/cpu.cfs_period_us", "100000")
    cgroups.write("memory/memory.limit_in_bytes", f"{200 * MB}")
    cgroups.write("memory/kube/pod/memory.limit_in_bytes", "9223372036854771712")
    assert cgroups.quota() == 4.0
    assert cgroups.limit() == 200 * MB


def test_a_quota_without_its_period_is_no_quota(cgroups: Cgroups) -> None:
    cgroups.member_of("3:cpu:/")
    cgroups.write("cpu/cpu.cfs_quota_us", "100000")
    assert cgroups.quota() is None


def test_both_versions_at_once(cgroups: Cgroups) -> None:
    """The hybrid layout: version 1 for the controllers, an empty version 2 beside it."""
    cgroups.member_of("2:cpu:/a", "1:memory:/a", "0::/a")
    cgroups.write("cpu/a/cpu.cfs_quota_us", "300000")
    cgroups.write("cpu/a/cpu.cfs_period_us", "100000")
    cgroups.write("a/cpu.max", "200000 100000")
    assert cgroups.quota() == 2.0


# -- nothing there ----------------------------------------------------------------------------------------------------


def test_without_cgroups(tmp_path: Path) -> None:
    assert cores.quota(tmp_path / "none", tmp_path / "none") is None
    assert memory.limit(tmp_path / "none", tmp_path / "none") == TOTAL


def test_a_membership_without_its_folders(cgroups: Cgroups) -> None:
    cgroups.member_of("0::/a", "1:cpu:/a", "2:memory:/a")
    assert cgroups.quota() is None
    assert cgroups.limit() == TOTAL


def test_on_this_machine() -> None:
    quota = cores.quota()
    assert quota is None or quota > 0
    assert 0 < memory.limit() <= TOTAL


# -- what a process uses ----------------------------------------------------------------------------------------------


def test_private_memory_grows_with_what_is_written() -> None:
    import os

    before = memory.private(os.getpid())
    block = bytearray(b"\1" * (64 * MB))
    grown = memory.private(os.getpid()) - before
    assert 60 * MB < grown < 80 * MB
    assert len(block) == 64 * MB


def test_a_process_that_is_gone_uses_nothing() -> None:
    import subprocess
    import sys

    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    assert memory.private(done.pid) == 0
