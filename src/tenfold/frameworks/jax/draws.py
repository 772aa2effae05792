"""Initial weights by NumPy, bit for bit those of JAX: XLA takes longer to compile than to draw them, or to fill them.

XLA compiles a program for each shape, up to a sixth of a second each. JAX draws with Threefry (Salmon et al., "Parallel
random numbers: as easy as 1, 2, 3", 2011): a number is a hash of the key and of its place, whatever the shape.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy

MOST = 1 << 20  # numbers for which NumPy's 2 ns a number and round are less than a compilation
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
ONE = 0x3F800000  # of a float32
FRACTION = 23  # its bits
FILLED = ("float32", "int32", "uint32", "bool")
"""Types that are the same with and without JAX's 64 bits."""


def instead(uniform: Callable[..., Any]) -> Callable[..., Any]:
    """A function for the place of `jax.random.uniform`, which draws what it can itself."""

    @functools.wraps(uniform)
    def draw(key: Any, shape: Any = (), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0, **more: Any) -> Any:
        if more or not _can(key, shape, dtype, (minval, maxval)):
            return uniform(key, shape, dtype, minval, maxval, **more)
        import jax

        return jax.device_put(drawn(numpy.asarray(key), tuple(shape), float(minval), float(maxval)))

    return draw


def filled(function: Callable[..., Any], fill: Callable[..., Any]) -> Callable[..., Any]:
    """A function for the place of `jax.numpy.zeros` or `ones`, with NumPy's own."""

    @functools.wraps(function)
    def make(shape: Any, dtype: Any = None, **more: Any) -> Any:
        if more or dtype is None or str(dtype) not in FILLED or not _is_shape(shape):
            return function(shape, dtype, **more)
        import jax

        return jax.device_put(fill(shape, str(dtype)))

    return make


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, tuple | list) and all(isinstance(size, int) for size in shape)


def _can(key: Any, shape: Any, dtype: Any, limits: tuple[Any, Any]) -> bool:
    """Whether JAX would draw float32 from this key in the way that is written here."""
    jax = sys.modules["jax"]
    known = jax.config.values
    return (
        known.get("jax_threefry_partitionable", False)
        and known.get("jax_default_prng_impl") == "threefry2x32"
        and isinstance(key, jax.Array | numpy.ndarray)
        and not isinstance(key, jax.core.Tracer)
        and key.shape == (2,)
        and key.dtype == numpy.uint32
        and dtype is not None
        and numpy.dtype(dtype) == numpy.float32
        and all(isinstance(limit, int | float) for limit in limits)
        and math.prod(shape) <= MOST
    )


def drawn(key: numpy.ndarray, shape: tuple[int, ...], low: float, high: float) -> numpy.ndarray:
    """Numbers from `low` to `high`."""
    bits = hashed(key, numpy.arange(math.prod(shape), dtype=numpy.uint32))
    fractions = (bits >> numpy.uint32(32 - FRACTION) | numpy.uint32(ONE)).view(numpy.float32) - numpy.float32(1)
    least, span = numpy.float32(low), numpy.float32(high) - numpy.float32(low)
    # XLA multiplies and adds in one go, with one rounding: in float64 the product is exact.
    found = (fractions.astype(numpy.float64) * float(span) + float(least)).astype(numpy.float32)
    return numpy.maximum(least, found).reshape(shape)


def hashed(key: numpy.ndarray, places: numpy.ndarray) -> numpy.ndarray:
    """Threefry with 2 words of 32 bits and 20 rounds, of places below 2**32; its two words as one."""
    keys = [*key, key[0] ^ key[1] ^ numpy.uint32(PARITY)]
    with numpy.errstate(over="ignore"):
        one: numpy.ndarray = numpy.full_like(places, keys[0])
        two: numpy.ndarray = places + keys[1]
        for block in range(1, 6):
            for bits in ROTATIONS[(block - 1) % 2]:
                one += two
                two = one ^ (two << numpy.uint32(bits) | two >> numpy.uint32(32 - bits))
            one += keys[block % 3]
            two += keys[(block + 1) % 3] + numpy.uint32(block)
    found: numpy.ndarray = one ^ two
    return found
