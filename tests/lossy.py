"""A small model of PyTorch in whose training a worker can be killed: for tests of `train` on engines and clusters."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy

import tenfold
import waiting

X = numpy.random.default_rng(0).normal(size=(150, 6)).astype("float32")
Y = (X[:, 0] > 0).astype("int64")


def build(lr: float = 0.05, folder: str = "", pooled: bool = False) -> Any:
    """With a folder, the first worker that comes to its tenth loss is killed.

    `pooled`: the others are ended with it, and wait for that.
    """
    import torch

    module = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    calls = []

    def loss(outputs: Any, targets: Any) -> Any:
        calls.append(0)
        if folder and len(calls) == 10:
            try:
                open(os.path.join(folder, "killed"), "x").close()
                os.kill(os.getpid(), signal.SIGKILL)
            except FileExistsError:
                if pooled and tenfold.here().attempt == 1:
                    signal.pause()
        return torch.nn.functional.cross_entropy(outputs, targets)

    return module, loss, torch.optim.Adam(module.parameters(), lr)


def network() -> str:
    """The host of this process, where hosts are network namespaces."""
    return os.readlink("/proc/self/ns/net")


def build_far(folder: str, host: str, act: str, lr: float = 0.05) -> Any:
    """At its tenth loss, the first worker on a host is stopped, or waits for what happens to that host."""
    module, loss, optimizer = build(lr)
    calls = []

    def meeting(outputs: Any, targets: Any) -> Any:
        calls.append(0)
        if len(calls) == 10 and network() == host:
            try:
                open(os.path.join(folder, "met"), "x").close()
            except FileExistsError:
                pass
            else:
                if act == "stop":
                    os.kill(os.getpid(), signal.SIGSTOP)
                else:
                    waiting.until((Path(folder) / act).exists, 60)
        return loss(outputs, targets)

    return module, meeting, optimizer
