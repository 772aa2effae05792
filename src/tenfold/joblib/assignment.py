"""What one `submit` asked for: some calls, how far they are, and what became of them."""

from __future__ import annotations

import pickle
from concurrent.futures import Future
from typing import Any

from tenfold.engines import Failed
from tenfold.joblib.calling import Call
from tenfold.work.outcome import Outcome, describe, original
from tenfold.work.parcel import Sealed

DEATHS = 3  # of workers, after which the call that they ran is to blame


class RemoteTraceback(Exception):
    """The cause of an exception that was raised in a worker: its traceback there, as text."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


class Assignment:
    """Calls that travel together. Its future has all their values, or the first error."""

    def __init__(self, calls: list[Call], single: bool) -> None:
        self.future: Future[Any] = Future()
        self.sealed: Sealed | None = None
        """What a worker gets next, packed."""
        self.needed: list[object] = []
        """What must not go before it is done: files."""
        self.first = 0
        """The number of the first call among all calls of the pool."""
        self.earlier = 0
        """How many calls the pool had before this `Parallel`."""
        self.until = 0
        """As far as this, calls are with a worker."""
        self.deaths = 0
        """Workers that have died of the call that is next."""
        self.one_by_one = False
        """Whether its calls travel apart: one of them cannot be unpickled."""
        self._calls = calls
        self._single = single
        self._values: list[Any] = []
        self._error: BaseException | None = None

    # -- what is to be sent -------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def done(self) -> int:
        return len(self._values)

    def rest(self) -> list[Call]:
        """What a worker gets next: all that is not done, or one at a time."""
        return self._calls[self.done : self.done + 1] if self.one_by_one else self._calls[self.done :]

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to be sent: all is done, or an error has made an end of it."""
        return self._error is not None or self.done == len(self)

    # -- what became of it --------------------------------------------------------------------------------------

    def add(self, packed: Any) -> None:
        """The next call has returned: the pickle of its value, or that and buffers."""
        try:
            value = pickle.loads(packed) if isinstance(packed, bytes) else pickle.loads(packed[0], buffers=packed[1:])
        except Exception as error:  # a class that this process does not have, for example
            self._error = self._error or error
            value = None
        self._values.append(value)
        self.deaths = 0

    def fail(self, error: BaseException) -> None:
        self._error = self._error or error

    def failed(self, event: Failed) -> None:
        """The next call has failed, by its own fault."""
        self.fail(self._error_of(event))
        self._values.append(None)

    def resolve(self) -> None:
        if self.future.done():
            return
        if self._error is not None:
            self.future.set_exception(self._error)
        else:
            self.future.set_result(self._values[0] if self._single else self._values)

    def _error_of(self, event: Failed) -> BaseException:
        """The exception of the call itself, where it could travel; otherwise one that tells its story."""
        failure = event.failure
        found = original(failure)
        if found is not None:
            found.__cause__ = RemoteTraceback(failure.traceback)
            return found
        index, item = self.first - self.earlier + self.done, self._calls[self.done]
        attempts = max(1, self.deaths)
        outcome = Outcome(
            index, False, None, failure, event.seconds, 0.0, event.peak, event.seat, event.worker, attempts, item
        )
        return describe(outcome)
