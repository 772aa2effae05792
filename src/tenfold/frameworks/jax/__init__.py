"""JAX. It has no global random numbers, and XLA's threads are bounded only by the affinity mask at its start."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tenfold.frameworks import Framework
from tenfold.frameworks.jax import draws
from tenfold.plan.seats import Seat

QUICK = "jax_disable_most_optimizations"
FOLDER, LEAST_SECONDS = "jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs"


class Member(Framework):
    modules = ("jax", "jax.numpy")
    distributions = ("jax",)
    extra = "jax"
    import_variables = ("JAX_", "XLA_", "TF_CPP_")

    def variables(self, seat: Seat) -> dict[str, str]:
        share = min((gpu.share for gpu in seat.gpus), default=1.0)
        # JAX takes three quarters of a GPU at its start; give each share three quarters of its own.
        return {"XLA_PYTHON_CLIENT_MEM_FRACTION": f"{0.75 * share:.3f}"} if share < 1 else {}

    def settle(self, seat: Seat) -> Callable[[], None]:
        """Nothing to set; what is set later (`keep_compilations`) is undone."""
        before = _kept()
        return lambda: _keep(before)

    def started(self) -> bool:
        bridge = sys.modules.get("jax._src.xla_bridge")
        return bool(getattr(bridge, "_backends", None))

    def reducers(self) -> dict[type, Callable[[Any], Any]]:
        array = sys.modules.get("jax._src.array")
        kind = getattr(array, "ArrayImpl", None)
        return {kind: _reduce_array} if kind is not None else {}


def keep_compilations(folder: Path) -> None:
    """Keep what is compiled in this folder, for other workers and later calls; it is safe to delete."""
    if _kept()[FOLDER] != str(folder):
        # To read one back takes 5 ms. Whoever waits for another's must find it, or all would compile it, one by one.
        _keep({FOLDER: str(folder), LEAST_SECONDS: 0.03})


def _kept() -> dict[str, Any]:
    import jax

    return {name: jax.config.values[name] for name in (FOLDER, LEAST_SECONDS)}


def _keep(settings: dict[str, Any]) -> None:
    if settings == _kept():
        return
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    for name, value in settings.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


@contextlib.contextmanager
def quick_compilations() -> Iterator[None]:
    """For what runs once: initial weights come from programs that take longer to compile than to run, if from any."""
    jax = sys.modules.get("jax")
    if jax is None:
        yield
        return
    before = jax.config.values[QUICK]
    jax.config.update(QUICK, True)
    try:
        with _by_numpy(jax):
            yield
    finally:
        jax.config.update(QUICK, before)


@contextlib.contextmanager
def _by_numpy(jax: Any) -> Iterator[None]:
    import numpy

    uniform, zeros, ones = jax.random.uniform, jax.numpy.zeros, jax.numpy.ones
    jax.random.uniform = draws.instead(uniform)
    jax.numpy.zeros, jax.numpy.ones = draws.filled(zeros, numpy.zeros), draws.filled(ones, numpy.ones)
    try:
        yield
    finally:
        jax.random.uniform, jax.numpy.zeros, jax.numpy.ones = uniform, zeros, ones


def _reduce_array(array: Any) -> Any:
    import numpy

    # A weak type (2.0 times a bfloat16 stays a bfloat16) would be lost on the way through NumPy.
    return array.__reduce__() if array.weak_type else (_rebuild_array, (numpy.asarray(array),))


def _rebuild_array(array: Any) -> Any:
    import jax.numpy

    return jax.numpy.asarray(array)
