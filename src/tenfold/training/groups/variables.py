"""What libraries look for that form a group by themselves: TF_CONFIG, and the variables that torchrun sets.

`tf.distribute.MultiWorkerMirroredStrategy()` reads the first. The others are for libraries on top of PyTorch, whose use
of it is not seen in the function's own code.
"""

from __future__ import annotations

import json
import os
import socket
import sys

from tenfold.training.gang import Gang
from tenfold.training.groups import check_size, free_port
from tenfold.work.here import here

NAME = "variables"


class Made:
    """One port of each worker: TensorFlow listens on each, torchrun's libraries on the first's."""

    def __init__(self) -> None:
        self._port: socket.socket | None = None
        self._set: list[str] = []

    def offer(self, rank: int, count: int) -> int:
        self._port = free_port()
        return int(self._port.getsockname()[1])

    def join(self, gang: Gang) -> None:
        wanted = {"TF_CONFIG": _tensorflow(gang), **_torchrun(gang)}
        self._set = list(wanted)
        os.environ.update(wanted)
        if "tensorflow" in sys.modules:
            import tensorflow

            found = tensorflow.distribute.cluster_resolver.TFConfigClusterResolver().cluster_spec().as_dict()
            check_size("TensorFlow", len(found.get("worker", ())), gang.count)
        if self._port is not None:
            self._port.close()  # from now on the library may have it

    def leave(self) -> None:
        for name in self._set:
            os.environ.pop(name, None)


def _tensorflow(gang: Gang) -> str:
    workers = ["{}:{}".format(*gang.reach(NAME, rank)) for rank in range(gang.count)]
    return json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": gang.rank}})


def _torchrun(gang: Gang) -> dict[str, str]:
    address, port = gang.reach(NAME)
    neighbours = gang.neighbours
    # A worker sees only its own GPUs, so that the first one is its own, whoever its neighbours are.
    local = 0 if here().gpus else neighbours.index(gang.rank)
    return {
        "RANK": str(gang.rank),
        "WORLD_SIZE": str(gang.count),
        "LOCAL_RANK": str(local),
        "LOCAL_WORLD_SIZE": str(len(neighbours)),
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
    }
