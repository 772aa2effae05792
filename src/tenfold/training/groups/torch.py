"""`torch.distributed`: gloo between CPUs, NCCL between GPUs."""

from __future__ import annotations

import os
import socket
from typing import Any

import psutil

from tenfold.training.gang import Gang
from tenfold.training.groups import check_size
from tenfold.training.wires import LOOPBACK
from tenfold.work.here import here

NAME = "torch"


class Made:
    """The default process group. The first worker has the store by which the others find each other."""

    def __init__(self) -> None:
        self._store: Any = None

    def offer(self, rank: int, count: int) -> int:
        if rank:
            return 0
        from torch.distributed import TCPStore

        # It chooses its port itself, so that nobody can take that in between.
        self._store = TCPStore(LOOPBACK, 0, count, is_master=True, wait_for_workers=False)
        return int(self._store.port)

    def join(self, gang: Gang) -> None:
        import torch
        from torch import distributed

        use_interface(gang.own.address)
        if self._store is None:
            self._store = distributed.TCPStore(*gang.reach(NAME), gang.count, is_master=False)
        backend = "cpu:gloo,cuda:nccl" if here().gpus else "gloo"
        distributed.init_process_group(backend, store=self._store, rank=gang.rank, world_size=gang.count)
        ones = torch.ones(1)
        distributed.all_reduce(ones)
        check_size("PyTorch", int(ones), gang.count)

    def leave(self) -> None:
        from torch import distributed

        if distributed.is_initialized():
            distributed.destroy_process_group()
        self._store = None


def use_interface(address: str) -> None:
    """The one with this address: the name of this machine may lead to one that others cannot reach."""
    interface = _interface(address)
    if interface:
        for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
            os.environ.setdefault(name, interface)


def _interface(address: str) -> str | None:
    """The network interface with this address."""
    for name, addresses in psutil.net_if_addrs().items():
        if any(one.family == socket.AF_INET and one.address == address for one in addresses):
            return name
    return None
