"""TensorFlow. Its devices and thread pools are fixed at its first operation, and it ignores OMP_NUM_THREADS."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

from tenfold.frameworks import Framework
from tenfold.plan.seats import Seat

_KEPT_SEEDS = 64
"""How many tasks' random kernels may lie about in a worker."""


class Member(Framework):
    modules = ("tensorflow", "keras")
    distributions = ("tensorflow-cpu", "tensorflow")
    extra = "tensorflow"
    import_variables = ("TF_", "KERAS_", "CUDA_", "XLA_")

    def variables(self, seat: Seat) -> dict[str, str]:
        # Two threads between operations at least: with one, nested tf.data pipelines wait for themselves.
        threads = {"TF_NUM_INTRAOP_THREADS": str(seat.threads), "TF_NUM_INTEROP_THREADS": str(max(2, seat.threads))}
        # TensorFlow takes a whole GPU's memory at its first operation, unless told to grow.
        shared = any(gpu.share < 1 for gpu in seat.gpus)
        return threads | ({"TF_FORCE_GPU_ALLOW_GROWTH": "true"} if shared else {})

    def __init__(self) -> None:
        self._planted: set[int] = set()

    def seed(self, seed: int) -> None:
        """`tf.random.set_seed`, which also throws all compiled kernels away, 20 ms a task: only where that matters.

        A random operation's kernel belongs to the seed and remembers how far it has drawn. So kernels must go when a
        seed comes again; those of other seeds are never asked for.
        """
        import tensorflow
        from tensorflow.python.eager import context

        current = context.context()
        if seed in self._planted or len(self._planted) == _KEPT_SEEDS or not hasattr(current, "_rng"):
            self._planted.clear()
            tensorflow.random.set_seed(seed)
        else:
            current._seed, current._rng = seed, random.Random(seed)
        self._planted.add(seed)

    def keep_random(self) -> Callable[[], None] | None:
        module = sys.modules.get("tensorflow.python.eager.context")
        if module is None:
            return None
        context = module.context()
        before = {name: getattr(context, name) for name in ("_seed", "_rng") if hasattr(context, name)}
        return lambda: context.__dict__.update(before)

    def started(self) -> bool:
        context = sys.modules.get("tensorflow.python.eager.context")
        current = getattr(context, "_context", None)
        return bool(current is not None and current._initialized)
