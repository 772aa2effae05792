"""Takes the calls that scikit-learn's search hands to joblib, all of them, and has them run together.

A search calls `Parallel(...)(delayed(_fit_and_score)(...) for ...)`. A backend of joblib is given these calls one by
one; this one runs nothing before the first result is asked for. The bookkeeping stays scikit-learn's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from joblib.parallel import ParallelBackendBase


@dataclass(frozen=True, slots=True)
class Call:
    """One function call, as `joblib.delayed` holds it."""

    function: Callable[..., Any]
    """What is called."""
    args: tuple[Any, ...]
    """With this."""
    kwargs: Mapping[str, Any]
    """And this."""


Run = Callable[[Sequence[Call]], list[Any]]
"""Makes all calls; returns what they returned, or raises for the first that is to be raised."""


class Gathering(ParallelBackendBase):  # type: ignore[misc]
    """A backend of joblib, for the `Parallel` of one search."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = run
        self._waiting: list[_Job] = []

    def effective_n_jobs(self, n_jobs: int) -> int:
        return 2  # more than one, or joblib would make the calls itself

    def configure(self, n_jobs: int = 1, parallel: Any = None, **_: Any) -> int:
        self.parallel = parallel
        parallel.pre_dispatch = "all"  # it is read after this
        return self.effective_n_jobs(n_jobs)

    def submit(self, func: Any, callback: Callable[[Any], None] | None = None) -> _Job:
        job = _Job([Call(*item) for item in func.items], self._run_all, callback)
        self._waiting.append(job)
        return job

    def apply_async(self, func: Any, callback: Callable[[Any], None] | None = None) -> _Job:
        """What joblib before 1.5 calls `submit`."""
        return self.submit(func, callback)

    def retrieve_result(self, out: _Job, timeout: float | None = None) -> list[Any]:
        return out.get(timeout)

    def _run_all(self) -> None:
        jobs, self._waiting = self._waiting, []
        found = iter(self._run([call for job in jobs for call in job.calls]))
        for job in jobs:
            job.results = [next(found) for _ in job.calls]


class _Job:
    """What joblib holds until it asks for the results of some calls."""

    def __init__(self, calls: Sequence[Call], run: Callable[[], None], callback: Callable[[Any], None] | None) -> None:
        self.calls = calls
        self.results: list[Any] | None = None
        self._run = run
        self._callback = callback

    def get(self, timeout: float | None = None) -> list[Any]:
        if self.results is None:
            self._run()
        assert self.results is not None
        if self._callback is not None:
            self._callback(self.results)
        return self.results
