"""A Ray cluster on this machine, whose processes belong to one of ours; it ends when its caller does, also killed.

The caller goes on importing while the cluster comes up, which takes Ray two seconds. Ray's own end takes more than one,
because it asks its processes one after the other; here all that works in the cluster's folder is killed at once.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from tenfold.errors import WorkersUnavailable
from tenfold.nursery import client

_CODE = "import sys; sys.path[:] = {path!r}; from {module} import serve; serve({life}, {answer}, {cpus}, {gpus})"
_FAILED = "failed: "
LIMIT = 10.0  # seconds; Ray's processes start others while they end


class RayProcess:
    """The caller's end of it."""

    def __init__(self, cpus: int, gpus: int) -> None:
        self.gpus = gpus
        life_theirs, self._life = os.pipe()
        answer, answer_theirs = os.pipe()
        code = _CODE.format(
            path=sys.path, module=__name__, life=life_theirs, answer=answer_theirs, cpus=cpus, gpus=gpus
        )
        quiet: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        self._process = subprocess.Popen(
            client.command(code), pass_fds=(life_theirs, answer_theirs), start_new_session=True, **quiet
        )
        os.close(life_theirs)
        os.close(answer_theirs)
        self._answer = open(answer)  # noqa: SIM115  # read once, and closed with the cluster

    def address(self) -> str:
        """Wait until it is up, and say where. Asked once."""
        found = self._answer.read().strip()
        if not found or found.startswith(_FAILED):
            why = found.removeprefix(_FAILED) or f"status {self._process.wait()}"
            raise WorkersUnavailable(f"a Ray cluster could not be started on this machine: {why}")
        return found

    def close(self) -> None:
        """End the cluster, and wait until it is gone."""
        self._answer.close()
        os.close(self._life)
        self._process.wait(2 * LIMIT)


# -- in the process ---------------------------------------------------------------------------------------------------


def serve(life: int, answer: int, cpus: int, gpus: int) -> None:
    """Be a cluster until the other end of `life` is closed; its address goes to `answer`."""
    folder = tempfile.mkdtemp(prefix="tfr-", dir="/tmp")  # the names of Ray's sockets must be short
    threading.Thread(target=_end_with, args=(life, folder), daemon=True).start()
    with open(answer, "w") as file:
        try:
            file.write(_start(cpus, gpus, folder))
        except Exception as error:
            file.write(f"{_FAILED}{type(error).__name__}: {error}")
    signal.pause()


def _start(cpus: int, gpus: int, folder: str) -> str:
    """Only what tasks need: no autoscaler, nobody who reads logs, no server of pages. `ray.init` has them all."""
    from ray._private.node import Node
    from ray._private.parameter import RayParams

    class Head(Node):  # type: ignore[misc]
        def start_api_server(self, **_: object) -> None:
            self._webui_url = None

    _protect()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # as with `ray.init`
    params = RayParams(
        num_cpus=cpus,
        num_gpus=gpus,
        temp_dir=folder,
        include_dashboard=False,
        include_log_monitor=False,
        no_monitor=True,
        min_worker_port=0,
        max_worker_port=0,
    )
    # With a reaper, the kernel kills Ray's processes when this one is killed.
    return str(Head(params, head=True, shutdown_at_exit=False, spawn_reaper=True).gcs_address)


def _protect() -> None:
    """Have a token asked for, as `ray.init` has it for a cluster of its own."""
    with contextlib.suppress(ImportError):  # older ones do not
        from ray._private.authentication import authentication_token_setup as setup

        setup.enable_token_auth_by_default()
        setup.ensure_token_if_auth_enabled(create_token_if_missing=True)


def _end_with(life: int, folder: str) -> None:
    os.read(life, 1)
    deadline = time.monotonic() + LIMIT
    while (found := _working_in(folder) - {os.getpid()}) and time.monotonic() < deadline:
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    with contextlib.suppress(ChildProcessError):  # none is left
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def _working_in(folder: str) -> set[int]:
    found = set()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # gone, or somebody else's
            if entry.name.isdigit() and _is_rays(entry, folder):
                found.add(int(entry.name))
    return found


def _is_rays(entry: Path, folder: str) -> bool:
    """Ray gives its folder to every process that it starts; those that rename themselves have files open in it."""
    words = (entry / "cmdline").read_bytes()
    if words.startswith(b"ray::"):
        return any(os.readlink(handle).startswith(folder) for handle in (entry / "fd").iterdir())
    return b"/ray/" in words and folder.encode() in words
