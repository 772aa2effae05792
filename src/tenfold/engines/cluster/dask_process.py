"""A Dask cluster on this machine: a scheduler and a worker in one process, which ends when its caller does.

Dask's own local cluster would import the user's script again in each worker; scripts here need no guard for that.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from typing import Any

from tenfold.errors import WorkersUnavailable
from tenfold.nursery import client

END_LIMIT = 3.0  # seconds that the process may take to end

_CODE = "import sys; sys.path[:] = {path!r}; from {module} import serve; serve({life}, {answer}, {threads}, {gpus})"


class DaskProcess:
    """The caller's end of it."""

    def __init__(self, threads: int, gpus: int) -> None:
        self.gpus = gpus
        life_theirs, self._life = os.pipe()
        answer, answer_theirs = os.pipe()
        code = _CODE.format(
            path=sys.path, module=__name__, life=life_theirs, answer=answer_theirs, threads=threads, gpus=gpus
        )
        self._process = subprocess.Popen(
            client.command(code),
            pass_fds=(life_theirs, answer_theirs),
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the caller
        )
        os.close(life_theirs)
        os.close(answer_theirs)
        self._answer = open(answer)  # noqa: SIM115  # read once, and closed with the cluster

    def address(self) -> str:
        """Wait until it is up, and say where. Asked once."""
        found = self._answer.read().strip()
        if not found:
            status = self._process.wait()
            raise WorkersUnavailable(f"a Dask cluster could not be started on this machine: status {status}")
        return found

    def close(self) -> None:
        self._answer.close()
        os.close(self._life)
        try:
            self._process.wait(END_LIMIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def serve(life: int, answer: int, threads: int, gpus: int) -> None:
    """In the process: be a cluster until the other end of `life` is closed; its address goes to `answer`."""
    import dask
    import distributed  # noqa: F401  # sets the level of its loggers

    for name in ("distributed", "distributed.scheduler", "distributed.worker", "distributed.core"):
        logging.getLogger(name).setLevel(logging.ERROR)
    folder = tempfile.mkdtemp(prefix="tenfold-dask-")
    dask.config.set({"temporary-directory": folder})
    asyncio.run(_serve(life, answer, threads, gpus, folder))


async def _serve(life: int, answer: int, threads: int, gpus: int, folder: str) -> None:
    from distributed import Scheduler, Worker

    gone = asyncio.Event()
    asyncio.get_running_loop().add_reader(life, gone.set)
    places: dict[str, Any] = {"host": "127.0.0.1", "dashboard": False, "dashboard_address": "127.0.0.1:0"}
    async with (
        Scheduler(port=0, **places) as scheduler,
        Worker(scheduler.address, nthreads=threads, memory_limit=0, resources={"GPU": gpus} if gpus else {}, **places),
    ):
        with open(answer, "w") as file:
            file.write(scheduler.address)
        await gone.wait()
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)  # nobody is left to whom Dask would have to say good-bye
