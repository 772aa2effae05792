"""Several hosts on one machine: network namespaces, joined by a bridge to the one that the tests run in.

Where namespaces may not be made, addresses of the loopback device stand for hosts, and a reason is printed: then the
processes share memory, and a host is cut off by stopping its processes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dask_clusters import Host, Process

COUNT = 2


class HostUnavailable(Exception):
    """Namespaces cannot be made here."""


@dataclass
class Net:
    """Hosts that can talk to this one."""

    here: Host
    """The scheduler's and the caller's."""
    others: list[Host]
    """Those of workers."""
    real: bool
    """Whether they are namespaces."""
    hidden: Path | None = None
    """A folder of which only this host sees the content; None where hosts are no namespaces."""
    ends: list[str] = field(default_factory=list)
    """This side's end of each host's cable."""

    def cut(self, number: int, processes: list[Process]) -> None:
        """Nothing goes to that host or comes from it any more; its processes go on."""
        if self.real:
            _ip("link", "set", self.ends[number], "down")
        else:
            for process in processes:
                os.killpg(process.pid, signal.SIGSTOP)

    def mend(self, number: int, processes: list[Process]) -> None:
        if self.real:
            _ip("link", "set", self.ends[number], "up")
        else:
            for process in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGCONT)

    def sent(self, number: int) -> int:
        """Bytes that have gone to that host."""
        return int(Path(f"/sys/class/net/{self.ends[number]}/statistics/tx_bytes").read_text())


@contextlib.contextmanager
def several() -> Iterator[Net]:
    folder = Path(tempfile.mkdtemp(prefix="n-"))
    try:
        with _namespaces(folder) as net:
            yield net
    except HostUnavailable as error:
        print(f"no network namespaces here ({error}): loopback addresses stand for hosts")
        others = [Host(folder / f"loopback{n}", f"127.0.0.{n + 2}") for n in range(COUNT)]
        yield Net(Host(folder / "loopback"), others, real=False)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _namespaces(folder: Path) -> Iterator[Net]:
    number = os.getpid()
    names = [f"tenfold-{number}-{n}" for n in range(COUNT)]
    bridge, net = f"tf{number}b", f"10.{200 + number % 50}.{number // 50 % 250}"
    ends = [f"tf{number}v{n}" for n in range(COUNT)]
    with contextlib.ExitStack() as undo:
        try:
            _ip("link", "add", bridge, "type", "bridge")
            undo.callback(_ip, "link", "del", bridge)
            _ip("addr", "add", f"{net}.1/24", "dev", bridge)
            _ip("link", "set", bridge, "up")
            for n, (name, end) in enumerate(zip(names, ends, strict=True)):
                _ip("netns", "add", name)
                undo.callback(_ip, "netns", "del", name)
                _ip("link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", name)
                _ip("link", "set", end, "master", bridge, "up")
                _ip("-n", name, "addr", "add", f"{net}.{n + 2}/24", "dev", "eth0")
                _ip("-n", name, "link", "set", "eth0", "up")
                _ip("-n", name, "link", "set", "lo", "up")
        except (OSError, subprocess.CalledProcessError) as error:
            raise HostUnavailable(getattr(error, "stderr", None) or error) from error
        hidden = folder / "hidden"
        hidden.mkdir()
        # In a namespace of its own, another file system covers that folder.
        covered = ["sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(hidden)]
        others = [
            Host(folder / f"h{n}", f"{net}.{n + 2}", ["ip", "netns", "exec", name, *covered])
            for n, name in enumerate(names)
        ]
        yield Net(Host(folder / "h", f"{net}.1"), others, real=True, hidden=hidden, ends=ends)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)
