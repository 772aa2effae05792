"""`jax.distributed`: the devices of all workers are one set of devices."""

from __future__ import annotations

import socket

from tenfold.training.gang import Gang
from tenfold.training.groups import check_size, free_port

NAME = "jax"


class Made:
    """JAX's own service runs in the first worker."""

    def __init__(self) -> None:
        self._port: socket.socket | None = None

    def offer(self, rank: int, count: int) -> int:
        if rank:
            return 0
        self._port = free_port()
        return int(self._port.getsockname()[1])

    def join(self, gang: Gang) -> None:
        import jax

        if self._port is not None:
            self._port.close()
        address = "{}:{}".format(*gang.reach(NAME))
        # "deactivate": what a batch system says of its jobs is not about this gang.
        jax.distributed.initialize(address, gang.count, gang.rank, cluster_detection_method="deactivate")
        check_size("JAX", jax.process_count(), gang.count)

    def leave(self) -> None:
        import jax

        jax.distributed.shutdown()
