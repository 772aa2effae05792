"""Run by test_parcel_of_frameworks.py, in an interpreter of its own: how JAX's values travel."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tenfold.work import parcel

LARGE = parcel.BESIDE


def back(value: Any) -> Any:
    return parcel.unpack(bytearray(parcel.pack(value).to_bytes()))


def case_arrays() -> None:
    for shape in ((), (0,), (3, 0), (5,), (300, 400)):
        for dtype in (jnp.float32, jnp.bfloat16, jnp.float16, jnp.int32, jnp.bool_, jnp.complex64, jnp.uint8):
            array = jnp.asarray(np.ones(shape, dtype))
            again = back(array)
            assert isinstance(again, jax.Array)
            assert again.dtype == array.dtype, dtype
            assert again.shape == shape
            assert np.array_equal(np.asarray(again), np.asarray(array))


def case_trees() -> None:
    tree = {"w": jnp.asarray(np.arange(LARGE)), "layers": [(jnp.zeros(3), jnp.ones(2)), None]}
    again = back(tree)
    assert jax.tree.structure(again) == jax.tree.structure(tree)
    assert np.array_equal(np.asarray(again["w"]), np.arange(LARGE))


def case_weak_types_stay_weak() -> None:
    """A weak float32 does not widen a bfloat16; a strong one does: the result of a task would change its type."""
    array = jnp.asarray(2.0)
    assert array.weak_type
    assert back(array).weak_type
    assert (back(array) * jnp.ones(2, jnp.bfloat16)).dtype == jnp.bfloat16


def case_keys() -> None:
    old, new = jax.random.PRNGKey(3), jax.random.key(3)
    assert bool((jax.random.uniform(back(old)) == jax.random.uniform(old)).all())
    assert bool((jax.random.uniform(back(new)) == jax.random.uniform(new)).all())


def case_large_arrays_travel_beside_the_pickle() -> None:
    packed = parcel.pack([jnp.arange(LARGE)])
    assert len(packed.body) < 2000
    assert [buffer.nbytes for buffer in packed.buffers] == [4 * LARGE]


def case_closed_over_arrays_travel_beside_the_pickle() -> None:
    array = jnp.arange(LARGE)
    packed = parcel.pack_function(lambda i: int(array[i]))
    assert len(packed.body) < 5000, len(packed.body)
    assert parcel.unpack(packed.to_bytes())(7) == 7


def case_a_read_only_parcel() -> None:
    content = parcel.pack(jnp.arange(LARGE)).to_bytes()
    assert np.array_equal(np.asarray(parcel.unpack(content, writable=False)), np.arange(LARGE))
