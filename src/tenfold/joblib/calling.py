"""What a worker does for joblib: take over the caller's ways once, then run one call after the other.

Only workers run this. The caller sends a `Caller` as the function of its crew, and then `Call`s as items; a value comes
back as loky would send it: an array that was written to a file for the workers is not a map of that file in the caller.
"""

from __future__ import annotations

import contextlib
import mmap
import multiprocessing
import os
import pickle
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import numpy
from joblib import parallel_config
from joblib._memmapping_reducer import JOBLIB_MMAPS, _get_backing_memmap, _reduce_memmap_backed

from tenfold.joblib import ahead
from tenfold.nursery.slate import LARGEST
from tenfold.work import parcel, seeds

_POOLS = {"openmp": "OMP_NUM_THREADS", "blas": "OPENBLAS_NUM_THREADS"}  # what threadpoolctl calls them


class Call(NamedTuple):
    """One call of a function."""

    function: Callable[..., Any]
    """What joblib's `delayed` was given."""
    args: tuple[Any, ...]
    """Its arguments."""
    kwargs: dict[str, Any]
    """Its arguments by name."""
    nested: tuple[Any, int | None] | None
    """The backend and the number of jobs of a `Parallel` within it; None leaves them as they are."""

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", None) or repr(self.function)
        words = [repr(value) for value in self.args] + [f"{key}={value!r}" for key, value in self.kwargs.items()]
        return f"{name}({', '.join(words)})"


class Beginning(NamedTuple):
    """What a worker does once."""

    variables: Mapping[str, str | None]
    """What its environment says, whatever its seat says; None takes a variable away."""
    threads: int
    """What its seat has set thread pools to."""
    authkey: bytes
    """The caller's, for the proxies of its `multiprocessing.Manager`."""
    initializer: bytes
    """A parcel: the function that is called before the first call, or None, and its arguments."""


class Caller:
    """The function of a crew. Where it is unpickled, `arrive` runs, before any call is unpickled."""

    def __init__(self, beginning: Beginning) -> None:
        self._beginning = beginning
        self._begun = False
        self._nested: tuple[Any, int | None] | None = None
        self._within = contextlib.ExitStack()

    def __reduce__(self) -> tuple[Any, ...]:
        return arrive, (self._beginning,)

    def __call__(self, call: tuple[Any, ...]) -> bytes | list[Any]:
        """Run a `Call`, which arrives as a plain tuple: pickling one takes a tenth of the time."""
        if not self._begun:
            self._begin()
        function, args, kwargs, nested = call
        if nested is not self._nested:  # the calls of a batch share it, as they do in loky's workers
            self._go_within(nested)
        return _packed(function(*args, **kwargs))

    def _go_within(self, nested: tuple[Any, int | None] | None) -> None:
        """From now on, a `Parallel` in a call has this backend and number of jobs."""
        self._within.close()
        if nested is not None:
            backend, jobs = nested
            self._within.enter_context(parallel_config(backend=backend, n_jobs=jobs))
        self._nested = nested

    def _begin(self) -> None:
        # Forks of one nursery would all draw the same numbers; loky's workers draw others each time.
        seeds.plant(int.from_bytes(os.urandom(4), "little"))
        initializer, arguments = parcel.unpack(bytearray(self._beginning.initializer))
        if initializer is not None:
            initializer(*arguments)
        self._begun = True

    @staticmethod
    def __tenfold_modules__(_named: set[str]) -> list[str]:
        return ahead.modules()


def arrive(beginning: Beginning) -> Caller:
    """Make this process a worker of joblib's."""
    for name, value in beginning.variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    _limit_threads(beginning.threads)
    multiprocessing.current_process().authkey = beginning.authkey
    with contextlib.suppress(ImportError, AttributeError):
        from joblib.externals.loky import process_executor

        # joblib's other backends ask this whether they are in a worker, and keep from starting processes there.
        process_executor._CURRENT_DEPTH += 1
    return Caller(beginning)


def _limit_threads(settled: int) -> None:
    """Set thread pools as the variables say: where the user has set one, it counts more than the seat."""
    wanted = {pool: int(os.environ[name]) for pool, name in _POOLS.items() if os.environ.get(name, "").isdigit()}
    if any(count != settled for count in wanted.values()):
        import threadpoolctl

        threadpoolctl.threadpool_limits(limits=wanted)


# -- arrays -----------------------------------------------------------------------------------------------------------


def mapped(path: str, dtype: Any, shape: tuple[int, ...], order: Literal["C", "F"]) -> Any:
    """An array whose content is in a file: as if it had been copied, and nothing is until it is written to."""
    with open(path, "rb") as file:
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    return numpy.ndarray(shape, dtype, buffer=memory, order=order)


def _packed(value: Any) -> bytes | list[Any]:
    """The pickle of a value, with its large buffers after it where it has any."""
    packed = parcel.pack(value, beside=LARGEST, ways=_WAYS)
    return [packed.body, *map(pickle.PickleBuffer, packed.buffers)] if packed.buffers else packed.body


def _reduce_array(array: Any) -> Any:
    """A map of the user's own file travels as one; everything else as its content."""
    backing = _get_backing_memmap(array)
    if backing is None:
        return array.__reduce_ex__(parcel.PROTOCOL)
    if isinstance(backing, numpy.memmap) and backing.filename not in JOBLIB_MMAPS:
        return _reduce_memmap_backed(array, backing)
    return numpy.array(array, copy=True, subok=False).__reduce_ex__(parcel.PROTOCOL)


_WAYS: parcel.Ways = {numpy.ndarray: _reduce_array, numpy.memmap: _reduce_array}
