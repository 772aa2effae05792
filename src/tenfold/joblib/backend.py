"""The joblib backend "tenfold": what joblib asks of a backend, answered with tenfold's workers."""

from __future__ import annotations

import multiprocessing
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from joblib.parallel import (
    AutoBatchingMixin,
    BatchedCalls,
    FallbackToBackend,
    ParallelBackendBase,
    SequentialBackend,
    cpu_count,
)

from tenfold.errors import BadCall
from tenfold.joblib import pools, sending
from tenfold.joblib.calling import Call
from tenfold.joblib.pool import Pool
from tenfold.joblib.shape import Shape, held_by_gpus
from tenfold.nursery.surroundings import surroundings
from tenfold.plan.needs import needs

IDLE = 300.0  # seconds that unused workers are kept; loky's number

_SETTINGS = ("gpus", "initializer", "initargs", "idle_worker_timeout")
_OF_JOBLIB = ("context", "max_nbytes", "mmap_mode", "prefer", "require", "temp_folder", "verbose")
"""What joblib gives to every backend."""


class TenfoldBackend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]
    """Processes of this machine, forked from tenfold's nursery.

    gpus                    GPUs that each call holds, such as 0.5; None leaves GPUs as the caller sees them
    initializer, initargs   called in each worker before its first call
    idle_worker_timeout     seconds that unused workers are kept
    """

    supports_retrieve_callback = True
    supports_inner_max_num_threads = True

    def __init__(
        self,
        nesting_level: int | None = None,
        inner_max_num_threads: int | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(nesting_level=nesting_level, inner_max_num_threads=inner_max_num_threads)
        self._settings = _checked(settings)
        self._asked = self._settings
        self._mapped: tuple[int | None, str | None] = None, None
        self._workers: Pool | None = None
        self.parallel: Any = None

    # -- the number of workers ----------------------------------------------------------------------------------

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """How many calls run at once, by loky's rules, and no more than there are GPUs for."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs is None or n_jobs == 1:
            return 1
        if self._is_within_others():
            return 1
        wanted = n_jobs if n_jobs > 0 else max(cpu_count() + 1 + n_jobs, 1)
        gpus = self._asked.get("gpus")
        # joblib runs a single job in its own process, where nobody has leased a GPU: two jobs take turns instead.
        return max(2, held_by_gpus(wanted, gpus)) if gpus else wanted

    def _is_within_others(self) -> bool:
        """Whether this process or thread is itself one of several, and must not start more; warns of it."""
        if multiprocessing.current_process().daemon:
            where = "called in a multiprocessing"
        elif threading.current_thread() is not threading.main_thread() and self.nesting_level != 0:
            where = "nested below threads"
        else:
            return False
        warnings.warn(f"Tenfold-backed parallel loops cannot be {where}, setting n_jobs=1", stacklevel=4)
        return True

    # -- the life of a Parallel ---------------------------------------------------------------------------------

    def configure(self, n_jobs: int | None = 1, parallel: Any = None, **settings: Any) -> int:
        """Take workers for `parallel`; returns how many."""
        if self._workers is not None and self.parallel is not parallel:
            # A parallel_config gives one backend to every Parallel in it, also to those that run at the same time.
            raise FallbackToBackend(type(self)(self.nesting_level, self.inner_max_num_threads, **self._settings))
        joblibs = {name: settings.pop(name, None) for name in _OF_JOBLIB}
        self._asked = {**self._settings, **_checked(settings)}
        jobs = self.effective_n_jobs(n_jobs)
        if jobs == 1:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        self.terminate()
        self.parallel = parallel
        self._mapped = joblibs["max_nbytes"], joblibs["mmap_mode"]
        self._workers = pools.take(self._shape(jobs, joblibs["temp_folder"]))
        return jobs

    def _shape(self, jobs: int, temp_folder: str | None) -> Shape:
        return Shape(
            jobs=jobs,
            threads=self.inner_max_num_threads or max(cpu_count() // jobs, 1),
            gpus=self._asked.get("gpus"),
            variables=self._prepare_worker_env(n_jobs=jobs),
            initializer=self._asked.get("initializer"),
            initargs=tuple(self._asked.get("initargs", ())),
            files=sending.root(temp_folder),
            idle=self._asked.get("idle_worker_timeout") or IDLE,
            around=surroundings(),
        )

    def start_call(self) -> None:
        if self._workers is not None:
            self._workers.begin(*self._mapped)

    def submit(self, func: Callable[[], Any], callback: Callable[[Any], None] | None = None) -> Future[Any]:
        """Have `func` run, which is a batch of joblib's or anything else that can be called."""
        future = self._submit(func)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def _submit(self, func: Callable[[], Any]) -> Future[Any]:
        workers = self._workers
        if workers is None:
            future: Future[Any] = Future()
            future.set_exception(RuntimeError("the workers are gone: this call of joblib.Parallel has ended"))
            return future
        if not isinstance(func, BatchedCalls):
            return workers.submit([Call(func, (), {}, None)], single=True)
        nested = self.get_nested_backend()
        within = nested if isinstance(nested, tuple) else (nested, None)
        return workers.submit([Call(function, args, kwargs, within) for function, args, kwargs in func.items])

    def retrieve_result_callback(self, out: Future[Any]) -> Any:
        return out.result()

    def terminate(self) -> None:
        """The call is over; the workers are kept for the next one."""
        if self._workers is not None:
            pools.give(self._workers)
            self._workers = None
        self.reset_batch_stats()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """The call has failed, or nobody wants its results any more."""
        if self._workers is not None:
            pools.drop(self._workers)
            self._workers = None
        if ensure_ready:
            self.configure(n_jobs=self.parallel.n_jobs, parallel=self.parallel, **self.parallel._backend_kwargs)


def _checked(settings: dict[str, Any]) -> dict[str, Any]:
    """What can be set here and is; all faults come in one message."""
    faults = [f"{name}={value!r} cannot be set here" for name, value in settings.items() if name not in _SETTINGS]
    gpus, idle, initializer = map(settings.get, ("gpus", "idle_worker_timeout", "initializer"))
    if gpus is not None:
        try:
            needs(1, gpus, None)
        except BadCall as error:
            faults.append(str(error))
    if idle is not None and (isinstance(idle, bool) or not isinstance(idle, int | float) or not idle > 0):
        faults.append(f"idle_worker_timeout={idle!r}: expected seconds above 0, or None")
    if initializer is not None and not callable(initializer):
        faults.append(f"initializer={initializer!r}: expected a function, or None")
    if faults:
        raise BadCall(f'backend="tenfold": {"; ".join(faults)}. What can be set is {", ".join(_SETTINGS)}')
    return settings
