"""Training loops for `tenfold.launch`: as small as they can be, each in a framework's own way."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import tenfold


def in_torch(scale: float = 1.0) -> tuple[int, int, list[float]]:
    import torch
    from torch import distributed

    here = tenfold.here()
    vector = torch.full((2,), here.rank + scale)
    distributed.all_reduce(vector)
    return here.rank, here.workers, vector.tolist()


def in_jax() -> tuple[int, int, float]:
    import jax
    import numpy
    from jax.sharding import NamedSharding, PartitionSpec

    mesh = jax.make_mesh((jax.device_count(),), ("all",))
    own = numpy.array([tenfold.here().rank + 1.0])
    rows = jax.make_array_from_process_local_data(NamedSharding(mesh, PartitionSpec("all")), own)
    added = jax.shard_map(
        lambda part: jax.lax.psum(part, "all"), mesh=mesh, in_specs=PartitionSpec("all"), out_specs=PartitionSpec()
    )
    total = jax.jit(added)(rows)
    return jax.process_count(), jax.device_count(), float(total.addressable_shards[0].data[0])


def in_tensorflow() -> tuple[int, float, float]:
    import tensorflow

    strategy = tensorflow.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        weight = tensorflow.Variable(1.0)
    own = tenfold.here().rank + 1.0

    @tensorflow.function
    def step() -> Any:
        with tensorflow.GradientTape() as tape:
            loss = own * weight
        gradient = tape.gradient(loss, weight)
        total = tensorflow.distribute.get_replica_context().all_reduce("sum", gradient)
        weight.assign_sub(0.1 * total)
        return loss

    losses = strategy.run(step)
    total = strategy.reduce("sum", losses, axis=None)
    return strategy.num_replicas_in_sync, float(total), float(weight.numpy())


def fall(how: str, *, together: bool) -> None:
    """Worker 1 falls; the others wait for it, in the group where there is one."""
    if tenfold.here().rank == 1:
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise ValueError("one too many")
    if together:
        in_torch()
    threading.Event().wait(120)


def nothing() -> int:
    return tenfold.here().rank


def several() -> dict[str, str]:
    return {name: os.environ[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT")}


def forever() -> None:
    threading.Event().wait(120)


async def later() -> int:
    return 0
