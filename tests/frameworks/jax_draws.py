"""Run by test_jax_draws.py, in an interpreter of its own: JAX has threads, and a test process forks.

Each function checks one thing; prints the names of those that held.
"""

from __future__ import annotations

import itertools

import jax
import numpy

from tenfold.frameworks.jax import draws, quick_compilations

SHAPES = ((), (7,), (64, 128), (3, 3, 4, 8), (0, 5))
LIMITS = ((0.0, 1.0), (-0.17, 0.17), (-3.0, -1.0), (0, 5))


def key(*words: int) -> numpy.ndarray:
    return numpy.array(words, numpy.uint32)


def the_bits_are_those_of_jax() -> None:
    for words in ((0, 0), (12345, 7), (2**32 - 1, 2**31)):
        expected = numpy.asarray(jax.random.bits(key(*words), (300,), "uint32"))
        numpy.testing.assert_array_equal(draws.hashed(key(*words), numpy.arange(300, dtype=numpy.uint32)), expected)


def the_numbers_are_those_of_jax() -> None:
    for shape, (low, high) in itertools.product(SHAPES, LIMITS):
        expected = numpy.asarray(jax.random.uniform(key(3, 4), shape, "float32", low, high))
        found = draws.drawn(key(3, 4), shape, low, high)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        rounding = float(numpy.finfo("float32").eps) * max(abs(low), abs(high))  # of a machine that rounds twice
        numpy.testing.assert_allclose(found, expected, rtol=0, atol=rounding)


def what_is_drawn_in_other_ways_is_left_to_jax() -> None:
    draw = draws.instead(lambda *_, **__: "by JAX")
    assert isinstance(draw(key(1, 2), (3,), "float32"), jax.Array)
    others = [
        draw(key(1, 2), (3,)),  # of a type that its settings decide
        draw(key(1, 2), (3,), "float16"),
        draw(key(1, 2), (draws.MOST + 1,), "float32"),
        draw(jax.random.key(1), (3,), "float32"),
        draw(key(1, 2), (3,), "float32", 0.0, numpy.ones(3)),
        draw(key(1, 2), (3,), "float32", out_sharding=None),
    ]
    with jax.threefry_partitionable(False):
        others.append(draw(key(1, 2), (3,), "float32"))
    assert others == ["by JAX"] * 7


def what_is_filled_is_as_jax_fills_it() -> None:
    zeros = draws.filled(jax.numpy.zeros, numpy.zeros)
    for shape, dtype in itertools.product(SHAPES, ("float32", "int32", "bool", "bfloat16", "float64", None)):
        found, expected = zeros(shape, dtype=dtype), jax.numpy.zeros(shape, dtype=dtype)
        assert (found.dtype, found.shape, found.weak_type) == (expected.dtype, expected.shape, expected.weak_type)
        numpy.testing.assert_array_equal(found, expected)
    assert zeros(3).shape == (3,)
    assert jax.jit(lambda: zeros((2,), "float32") + 1)().tolist() == [1, 1]


def a_traced_draw_is_left_to_jax_and_jax_is_as_before_afterwards() -> None:
    before = jax.random.uniform, jax.numpy.zeros, jax.numpy.ones
    with quick_compilations():
        found = jax.jit(lambda words: jax.random.uniform(words, (5,), "float32"))(key(1, 2))
    assert (jax.random.uniform, jax.numpy.zeros, jax.numpy.ones) == before
    numpy.testing.assert_array_equal(found, before[0](key(1, 2), (5,), "float32"))


if __name__ == "__main__":
    for check in (
        the_bits_are_those_of_jax,
        the_numbers_are_those_of_jax,
        what_is_drawn_in_other_ways_is_left_to_jax,
        what_is_filled_is_as_jax_fills_it,
        a_traced_draw_is_left_to_jax_and_jax_is_as_before_afterwards,
    ):
        check()
        print(check.__name__)
