"""NumPy, SciPy and what computes through BLAS or OpenMP without a settings call of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from tenfold.frameworks import Framework
from tenfold.plan.seats import Seat

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


def _threadpoolctl() -> Any:
    """threadpoolctl, without the variable that its import leaves in an environment that may be the caller's."""
    had = "KMP_DUPLICATE_LIB_OK" in os.environ
    import threadpoolctl

    if not had:
        os.environ.pop("KMP_DUPLICATE_LIB_OK", None)
    return threadpoolctl


class Member(Framework):
    modules = ("numpy", "numpy.random")
    distributions = ("numpy",)
    import_variables = ("NPY_",)

    def variables(self, seat: Seat) -> dict[str, str]:
        return {name: str(seat.threads) for name in THREAD_VARIABLES}

    def settle(self, seat: Seat) -> Callable[[], None] | None:
        # The variables are read when a library is loaded; a forked worker has them loaded already.
        limits: Any = _threadpoolctl().threadpool_limits(limits=seat.threads)
        undo: Callable[[], None] = limits.restore_original_limits
        return undo

    def seed(self, seed: int) -> None:
        import numpy

        numpy.random.seed(seed)

    def keep_random(self) -> Callable[[], None]:
        import numpy

        before = numpy.random.get_state()
        return lambda: numpy.random.set_state(before)
