"""CuPy. Not run on a GPU: written against its documentation."""

from __future__ import annotations

from tenfold.frameworks import Framework
from tenfold.plan.seats import Seat


class Member(Framework):
    modules = ("cupy",)
    distributions = ("cupy-cuda12x", "cupy-cuda13x", "cupy-cuda11x", "cupy")
    extra = "cupy"
    import_variables = ("CUPY_", "CUDA_")

    def variables(self, seat: Seat) -> dict[str, str]:
        share = min((gpu.share for gpu in seat.gpus), default=1.0)
        return {"CUPY_GPU_MEMORY_LIMIT": f"{100 * share:.0f}%"} if share < 1 else {}

    def seed(self, seed: int) -> None:
        import cupy

        if cupy.cuda.is_available():
            cupy.random.seed(seed)
