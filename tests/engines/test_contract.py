"""The contract of every engine: what goes in, what comes out, in which order."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kinds
import numpy
import pytest

import tenfold
from tenfold import errors
from tenfold.plan.choose import Abilities


@pytest.mark.parametrize("kind", kinds.KINDS)
def test_any_callable_gives_what_a_loop_gives(engine: str, kind: str) -> None:
    function = kinds.KINDS[kind]
    items = [3, 0, 7, 1, 12]
    assert tenfold.map(function, items, engine=engine)[:] == [function(item) for item in items]


def test_results_are_in_item_order_however_long_each_takes(engine: str, abilities: Abilities, tmp_path: Path) -> None:
    if not abilities.parallel:
        pytest.skip("one at a time: nothing can overtake")

    def wait_for_the_next(item: int) -> int:
        import waiting

        if item == 0:
            waiting.for_file(tmp_path / "1")
        (tmp_path / str(item)).write_text("done")
        return item

    assert tenfold.map(wait_for_the_next, range(4), engine=engine, workers=2)[:] == [0, 1, 2, 3]


@pytest.mark.parametrize("workers", [1, 2, 3, None])
def test_many_tiny_tasks(engine: str, workers: int | None) -> None:
    results = tenfold.map(lambda x: (x, x % 7), range(5_000), engine=engine, workers=workers)
    assert list(results) == [(x, x % 7) for x in range(5_000)]
    assert len(results) == 5_000


def test_more_workers_than_items(engine: str) -> None:
    assert tenfold.map(lambda x: x + 1, [1], engine=engine, workers=3)[:] == [2]


@pytest.mark.parametrize("items", [[], (), range(0), iter([]), {}])
def test_no_items(engine: str, items: Any) -> None:
    results = tenfold.map(lambda x: x, items, engine=engine)
    assert len(results) == 0
    assert list(results) == []
    assert results[:] == []
    assert results.failures == []
    assert repr(results).startswith("Results: 0 tasks")


@pytest.mark.parametrize("make", [list, iter, set, dict.fromkeys, lambda items: (x for x in items)])
def test_any_iterable(engine: str, make: Any) -> None:
    assert sorted(tenfold.map(lambda x: -x, make([3, 1, 2]), engine=engine)) == [-3, -2, -1]


def test_any_item_travels_there_and_back(engine: str) -> None:
    items = [None, 0, "", (), {"lr": 0.1}, [1, [2]], b"\0\xff", float("inf"), Ellipsis]
    found = tenfold.map(lambda x: [x], items, engine=engine)[:]
    assert found == [[item] for item in items]
    assert [type(one) for (one,) in found] == [type(item) for item in items]


def test_an_endless_generator_is_read_only_as_far_as_needed(engine: str) -> None:
    drawn = itertools.count()

    def fail_at_ten(x: int) -> int:
        if x == 10:
            raise ValueError("that is enough")
        return x

    with pytest.raises(errors.TasksFailed):
        tenfold.map(fail_at_ten, drawn, engine=engine, on_error="stop")
    assert next(drawn) < 50_000


def test_items_wait_where_they_come_from(engine: str, tmp_path: Path) -> None:
    """A million items must not be in memory because the first tasks take long."""
    drawn: list[int] = []

    def items() -> Iterator[int]:
        for x in range(60):
            if not any(tmp_path.iterdir()):  # nobody has finished anything; later, batches grow as the machine wants
                drawn.append(x)
            yield x

    def work(x: int) -> int:
        import time

        if x < 2:
            time.sleep(0.3)  # the work itself
        (tmp_path / str(x)).touch()
        return x

    assert tenfold.map(work, items(), engine=engine, workers=2)[:] == list(range(60))
    assert max(drawn) < 10


def test_what_the_items_raise_arrives_and_ends_the_call(engine: str) -> None:
    def items() -> Iterator[int]:
        yield from range(3)
        raise LookupError("no more photos")

    with pytest.raises(LookupError, match="no more photos"):
        tenfold.map(lambda x: x, items(), engine=engine)


@pytest.mark.parametrize("keep", [False, True], ids=["no run", "run"])
def test_arrays_are_equal_and_writable(engine: str, keep: bool, tmp_path: Path) -> None:
    """Sizes on both sides of each way that a result can take: slate, wire, shared memory; row, file."""

    def make(item: tuple[int, int]) -> dict[str, Any]:
        import numpy

        length, n = item
        array = numpy.arange(length, dtype=float) + n
        return {"array": array, "reversed": array[::-1], "n": n}

    items = [(length, n) for length in (3, 7_000, 9_000, 140_000, 400_000) for n in range(3)]
    results = tenfold.map(make, items, engine=engine, workers=2, run=tmp_path / "run" if keep else None)
    for place, (length, n) in enumerate(items):
        expected = numpy.arange(length, dtype=float) + n
        numpy.testing.assert_array_equal(results[place]["array"], expected, strict=True)
        numpy.testing.assert_array_equal(results[place]["reversed"], expected[::-1], strict=True)
        results[place]["array"] += 1
        results[place]["array"][:] = -5.0
        assert results[place]["array"][0] == -5.0
        assert results[place]["n"] == n


_ARRAYS: dict[str, Any] = {
    "empty": numpy.zeros((0, 3)),
    "Fortran": numpy.asfortranarray(numpy.arange(300_000.0).reshape(300, 1000)),
    "object": numpy.array(["a", None, 3], dtype=object),
    "structured": numpy.array([(1, 2.5)], dtype=[("n", int), ("x", float)]),
    "strided": numpy.arange(400_000).reshape(2, -1).T[::2],
    "scalar": numpy.float32(3.5),
    "0-d": numpy.array(7),
}


def test_arrays_of_every_kind(engine: str) -> None:
    arrays = _ARRAYS.copy()  # of this function, so that they travel with the one that is mapped
    results = tenfold.map(lambda item: (arrays[item[0]], item[1]), list(arrays.items()), engine=engine)
    for (name, value), several in zip(arrays.items(), results, strict=True):
        for found in several:
            assert type(found) is type(value), name
            numpy.testing.assert_array_equal(found, value, strict=True, err_msg=name)


def test_large_values_that_are_not_arrays(engine: str) -> None:
    text, raw = "ä" * 2_000_000, b"x" * 3_000_000
    results = tenfold.map(lambda x: (x, text if x == "text" else raw), ["text", "raw"], engine=engine)
    assert results[0] == ("text", text)
    assert results[1] == ("raw", raw)


def test_a_large_item_can_be_written_to_and_stays_as_it_was_here(engine: str, abilities: Abilities) -> None:
    def overwrite(array: Any) -> float:
        array[:] = 1
        return float(array.sum())

    item = numpy.zeros(300_000)
    assert tenfold.map(overwrite, [item, item], engine=engine)[:] == [300_000.0, 300_000.0]
    if abilities.processes:
        assert item.sum() == 0


def test_small_and_large_results_and_failures_of_one_call_do_not_mix(engine: str) -> None:
    def mixed(x: int) -> Any:
        import numpy

        if x % 7 == 3:
            raise ValueError(x)
        return numpy.full(200_000, x) if x % 5 == 0 else x

    results = tenfold.map(mixed, range(40), engine=engine, on_error="collect")
    for x, value in enumerate(results):
        if x % 7 == 3:
            assert isinstance(value, errors.TaskRaised)
            assert value.index == x
            assert value.__cause__.args == (x,)
        elif x % 5 == 0:
            assert value.shape == (200_000,)
            assert (value == x).all()
        else:
            assert value == x


def test_an_exception_that_is_returned_is_a_value(engine: str) -> None:
    results = tenfold.map(lambda x: ValueError(x), [1], engine=engine)
    assert isinstance(results[0], ValueError)
    assert results.failures == []


class _Locked:
    """Cannot be pickled."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


def test_an_item_that_cannot_be_pickled(engine: str, abilities: Abilities) -> None:
    if not abilities.processes:
        assert tenfold.map(lambda x: type(x).__name__, [_Locked()], engine=engine)[:] == ["_Locked"]
        return
    items = [*range(30), _Locked(), *range(30)]
    results = tenfold.map(lambda x: x, items, engine=engine, retries=2, on_error="collect")
    assert isinstance(results[30], errors.TaskUnsendable)
    assert isinstance(results[30], TypeError)
    assert "its item cannot be pickled" in str(results[30])
    assert results[:30] + results[31:] == [*range(30), *range(30)]
    assert len(results.failures) == 1


def test_a_result_that_cannot_be_pickled(engine: str) -> None:
    def locked(x: int) -> Any:
        import threading

        return threading.Lock() if x == 2 else x

    results = tenfold.map(locked, range(5), engine=engine, retries=2, on_error="collect")
    assert isinstance(results[2], errors.TaskUnsendable)
    assert "its result (lock) cannot be pickled" in str(results[2])
    assert results[2].attempts == 1
    assert [results[n] for n in (0, 1, 3, 4)] == [0, 1, 3, 4]


def test_a_function_that_cannot_be_pickled_is_refused_with_the_reason(engine: str, abilities: Abilities) -> None:
    lock = threading.Lock()
    if not abilities.processes:
        assert tenfold.map(lambda x: lock.locked(), [1], engine=engine)[:] == [False]
        return
    with pytest.raises(errors.TenfoldError, match="pickle"):
        tenfold.map(lambda x: lock.locked(), [1], engine=engine)


def test_two_calls_one_after_the_other_do_not_see_each_other(engine: str) -> None:
    first = tenfold.map(lambda x: ("first", x), range(3), engine=engine)
    second = tenfold.map(lambda x: ("second", x), range(3), engine=engine)
    assert first[:] == [("first", 0), ("first", 1), ("first", 2)]
    assert second[:] == [("second", 0), ("second", 1), ("second", 2)]


def test_called_from_a_thread_and_from_two_at_once(engine: str) -> None:
    found: dict[str, list[int]] = {}

    def call(name: str, factor: int) -> None:
        found[name] = tenfold.map(lambda x: factor * x, range(300), engine=engine)[:]

    threads = [threading.Thread(target=call, args=arguments) for arguments in (("a", 2), ("b", 3))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {"a": [2 * x for x in range(300)], "b": [3 * x for x in range(300)]}
