"""TensorFlow. Its devices and thread pools are fixed at its first operation, and it ignores OMP_NUM_THREADS."""

from __future__ import annotations

import sys
from collections.abc import Callable

from tenfold.frameworks import Framework
from tenfold.plan.seats import Seat


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

    def seed(self, seed: int) -> None:
        import tensorflow

        tensorflow.random.set_seed(seed)

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
