"""Objects as bytes and back: equal, without copies where it matters, and laid out the same for ever."""

from __future__ import annotations

import collections
import copyreg
import datetime
import decimal
import enum
import functools
import io
import itertools
import math
import os
import pickle
import re
import threading
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import scripts
from tenfold.work import filling, parcel

LARGE = parcel.BESIDE  # from this size on, a buffer stays out of the pickle


def there_and_back(value: Any) -> Any:
    return parcel.unpack(bytearray(parcel.pack(value).to_bytes()))


def address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


# -- plain values -----------------------------------------------------------------------------------------------------

atoms = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.binary(max_size=20)
    | st.complex_numbers(allow_nan=False)
)
keys = st.integers() | st.text(max_size=5) | st.tuples(st.integers(), st.booleans())
nested = st.recursive(
    atoms,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(keys, inner, max_size=4)
        | st.frozensets(keys, max_size=4)
        | st.sets(keys, max_size=4)
    ),
    max_leaves=8,
)


@given(nested)
def test_plain_values(value: Any) -> None:
    again = there_and_back(value)
    assert again == value
    assert type(again) is type(value)


@given(nested)
def test_the_layout_is_read_from_any_kind_of_memory(value: Any) -> None:
    content = parcel.pack(value).to_bytes()
    for memory in (content, bytearray(content), memoryview(content), content + b"more behind it"):
        assert parcel.unpack(memory) == value


def test_a_value_that_contains_itself() -> None:
    value: list[Any] = [1]
    value.append(value)
    again = there_and_back(value)
    assert again[0] == 1
    assert again[1] is again


class Colour(enum.Enum):
    RED = 1


@dataclass
class Point:
    x: int
    array: Any = None


@pytest.mark.parametrize(
    "value",
    [
        Colour.RED,
        Point(3, [1, 2]),
        datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
        decimal.Decimal("1.10"),
        collections.OrderedDict(a=1),
        collections.Counter("aab"),
        Path("a/b"),
        range(3, 9, 2),
        re.compile("a+", re.I),
        slice(1, None, 2),
        math.inf,
        functools.partial(int, base=2),
        Point,
        os.path.join,
        "a word of __main__ in a text",
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_of_many_types(value: Any) -> None:
    again = there_and_back(value)
    if isinstance(value, functools.partial):
        assert again("101") == 5
    else:
        assert again == value


def test_not_a_number() -> None:
    assert math.isnan(there_and_back(math.nan))


def test_what_cannot_be_pickled_says_so() -> None:
    with pytest.raises(TypeError, match=r"cannot pickle '_thread\.lock' object"):
        parcel.pack({"lock": threading.Lock()})


# -- functions and classes --------------------------------------------------------------------------------------------


def test_lambdas_and_closures() -> None:
    factor = 3
    assert there_and_back(lambda x: factor * x)(5) == 15
    assert parcel.unpack(parcel.pack_function(lambda x: factor * x).to_bytes())(5) == 15


def test_the_name_of_the_script_among_other_words_makes_nothing_be_pickled_twice() -> None:
    """The filters of warnings have it, and travel with every call of scikit-learn."""
    asked = 0

    class Counted:
        def __reduce__(self) -> tuple[Any, ...]:
            nonlocal asked
            asked += 1
            return int, ()

    assert there_and_back(["__main__", Counted()]) == ["__main__", 0]
    assert asked == 1


def test_a_local_class() -> None:
    class Local:
        def __init__(self, x: int) -> None:
            self.x = x

    again = there_and_back(Local(4))
    assert again.x == 4
    assert type(again).__name__ == "Local"


def test_a_closed_over_array_travels_beside_the_pickle() -> None:
    array = np.arange(LARGE, dtype=np.float64)
    packed = parcel.pack_function(lambda i: array[i])
    assert len(packed.body) < 5000
    assert [buffer.nbytes for buffer in packed.buffers] == [array.nbytes]
    assert parcel.unpack(packed.to_bytes())(7) == 7.0


def test_what_a_script_defines_arrives_in_an_interpreter_without_it(tmp_path: Path) -> None:
    """Plain pickle would name `__main__.Model`, and the worker's `__main__` has no Model."""
    scripts.run(
        tmp_path,
        """
        import enum
        from dataclasses import dataclass
        from tenfold.work import parcel

        RATE = 0.5

        class Kind(enum.Enum):
            SMALL = 1

        @dataclass
        class Model:
            width: int
            kind: Kind
            def scaled(self):
                return helper(self.width)

        def helper(width):
            return width * RATE

        with open("values", "wb") as file:
            parcel.pack([Model(3, Kind.SMALL), Model, helper, lambda: RATE]).write(file)
        """,
    )
    ended = scripts.run(
        tmp_path,
        """
        from pathlib import Path
        from tenfold.work import parcel
        model, kind, helper, constant = parcel.unpack(bytearray(Path("values").read_bytes()))
        print(model.scaled(), model.kind.name, isinstance(model, kind), helper(8), constant())
        """,
    )
    assert ended.out.split() == ["1.5", "SMALL", "True", "4.0", "0.5"]


class Registered:
    """Knows another way to be pickled, as extension types and user code tell `copyreg`."""

    def __init__(self, content: str) -> None:
        self.content = content
        self.handle = "open here only"


def rebuild(content: str) -> Registered:
    return Registered(content + ", rebuilt")


def as_text(array: np.ndarray[Any, Any]) -> Any:
    return str, (f"an array of {len(array)}",)


@pytest.mark.parametrize("beside", [None, lambda: 1], ids=["plain", "by value"])
def test_a_callers_own_ways_come_first(beside: Any) -> None:
    packed = parcel.pack([np.ones(3), beside], ways={np.ndarray: as_text})
    assert parcel.unpack(packed.to_bytes())[0] == "an array of 3"


def test_reducers_of_copyreg_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(copyreg.dispatch_table, Registered, lambda value: (rebuild, (value.content,)))
    assert pickle.loads(pickle.dumps(Registered("text"))).content == "text, rebuilt"
    assert there_and_back(Registered("text")).content == "text, rebuilt"


# -- arrays -----------------------------------------------------------------------------------------------------------

DTYPES = ["float64", "float32", "float16", "int8", "uint64", "bool", "complex128", "M8[s]", "S5", "U3", ">i4"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays(dtype: str) -> None:
    shapes = [(), (0,), (3, 0, 2), (5,), (64, 1100)]
    for shape, order in itertools.product(shapes, "CF"):
        array = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
        given_array = np.array(array, order=order)  # type: ignore[call-overload]
        again = there_and_back(given_array)
        assert again.dtype == array.dtype
        assert again.shape == array.shape
        assert again.flags.f_contiguous == given_array.flags.f_contiguous
        assert np.array_equal(again, array)
        assert again.flags.writeable


def test_structured_arrays_and_objects() -> None:
    records = np.array([(1, 2.5, "a"), (2, 3.5, "b")], dtype=[("n", "i4"), ("x", "f8"), ("s", "U1")])
    assert np.array_equal(there_and_back(records), records)
    things = np.array([{"a": 1}, [2], None], dtype=object)
    assert there_and_back(things).tolist() == things.tolist()
    masked = np.ma.masked_array(np.arange(20000.0), mask=np.arange(20000) % 2 == 0)
    assert there_and_back(masked).sum() == masked.sum()


@pytest.mark.parametrize(
    "view",
    [lambda a: a[::2], lambda a: a[:, ::3], lambda a: a[::-1], lambda a: a.T, lambda a: a[5:6], lambda a: a[:0]],
    ids=["rows", "columns", "backwards", "transposed", "row", "none"],
)
def test_views(view: Any) -> None:
    whole = np.arange(200 * 500, dtype=np.float64).reshape(200, 500)
    again = there_and_back(view(whole))
    assert np.array_equal(again, view(whole))
    again[...] = 0  # it is its own
    assert whole[150, 300] != 0


def test_a_view_of_a_large_array_does_not_bring_the_whole() -> None:
    whole = np.zeros((1000, 1000))
    assert parcel.pack(whole[3]).size < 20_000


@pytest.mark.parametrize("count", [10, LARGE])
def test_a_read_only_array_stays_so(count: int) -> None:
    array = np.arange(count)
    array.flags.writeable = False
    assert not there_and_back(array).flags.writeable
    assert not there_and_back([array])[0].flags.writeable


def test_the_same_array_twice_travels_once() -> None:
    array = np.zeros(LARGE)
    packed = parcel.pack({"a": array, "b": [array]})
    assert len(packed.buffers) == 1
    again = parcel.unpack(bytearray(packed.to_bytes()))
    assert again["a"] is again["b"][0]


# -- nothing is copied ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nbytes", [LARGE - 1, LARGE, LARGE + 1, 1 << 20])
def test_large_buffers_are_not_in_the_body(nbytes: int) -> None:
    packed = parcel.pack(Point(1, np.zeros(nbytes, np.uint8)))
    assert (len(packed.body) < 1000) is (nbytes >= LARGE)
    assert sum(buffer.nbytes for buffer in packed.buffers) == (nbytes if nbytes >= LARGE else 0)


def test_packing_copies_nothing() -> None:
    array = np.arange(LARGE, dtype=np.int64)
    packed = parcel.pack([array])
    assert np.shares_memory(np.frombuffer(packed.buffers[0], np.int64), array)


def test_unpacking_copies_nothing() -> None:
    content = bytearray(parcel.pack([np.arange(LARGE), np.ones((300, 300), order="F")]).to_bytes())
    whole = np.frombuffer(content, np.uint8)
    first, second = parcel.unpack(content)
    assert np.shares_memory(first, whole)
    assert np.shares_memory(second, whole)
    assert not np.shares_memory(first, second)


def test_unpacking_from_shared_memory_copies_nothing() -> None:
    array = np.random.default_rng(0).normal(size=(300, 400))
    handle = parcel.shared(parcel.pack({"x": array}))
    memory = parcel.attach(handle)
    os.close(handle)
    again = parcel.unpack(memory)["x"]
    base = np.frombuffer(memory, np.uint8)
    assert address(base) <= address(again) < address(base) + len(memory)
    assert address(again) % parcel.ALIGNMENT == 0
    assert np.array_equal(again, array)


@pytest.mark.parametrize("writable", [True, False])
def test_shared_memory_is_writable_as_asked_and_private(writable: bool) -> None:
    handle = parcel.shared(parcel.pack(np.zeros(LARGE)))
    ours = parcel.unpack(parcel.attach(handle), writable=writable)
    theirs = parcel.unpack(parcel.attach(handle), writable=writable)
    os.close(handle)
    assert ours.flags.writeable is writable
    if writable:
        ours[:] = 7
        assert theirs.sum() == 0
    else:
        with pytest.raises(ValueError, match="read-only"):
            ours[0] = 1


@pytest.mark.parametrize("size", [2 << 20, filling.LARGE + filling.STRIDE + 12_345])
def test_shared_memory_may_be_filled_while_others_wait_for_it(size: int) -> None:
    array = np.random.default_rng(0).integers(256, size=size, dtype=np.uint8)
    handle, filled = parcel.shared_soon(parcel.pack([array, "text"]))
    theirs = os.open(f"/proc/self/fd/{handle}", os.O_RDWR)  # as another process does
    parcel.wait_for(theirs)
    again, text = parcel.unpack(parcel.attach(theirs))
    filled.result()
    os.close(handle)
    os.close(theirs)
    assert np.array_equal(again, array)
    assert text == "text"


def test_what_cannot_be_filled_is_not_taken_for_the_whole() -> None:
    no_buffer: Any = types.SimpleNamespace(nbytes=128)
    handle, filled = parcel.shared_soon(parcel.Parcel(b"body", (no_buffer,)))
    with pytest.raises(TypeError, match="SimpleNamespace"):
        filled.result()
    parcel.wait_for(handle)
    assert os.fstat(handle).st_size == 0
    os.close(handle)


def test_an_array_keeps_its_memory_alive() -> None:
    import gc

    handle = parcel.shared(parcel.pack([np.full(LARGE, 3.0)]))
    again = parcel.unpack(parcel.attach(handle))[0]
    os.close(handle)
    gc.collect()
    assert again.sum() == 3.0 * LARGE


@given(st.lists(st.integers(0, 200_000), max_size=6), st.integers(0, 300))
def test_every_buffer_is_aligned(sizes: list[int], text: int) -> None:
    arrays = [np.full(size, n % 251, np.uint8) for n, size in enumerate(sizes)]
    packed = parcel.pack(["x" * text, arrays])
    file = io.BytesIO()
    assert packed.write(file) == len(file.getvalue())
    handle = parcel.shared(packed)  # a map starts at a page, so offsets are addresses
    memory = parcel.attach(handle)
    os.close(handle)
    _, again = parcel.unpack(memory)
    for array, copy in zip(arrays, again, strict=True):
        assert np.array_equal(array, copy)
        assert array.nbytes < LARGE or address(copy) % parcel.ALIGNMENT == 0


def test_the_size_is_known_before_writing() -> None:
    packed = parcel.pack([np.zeros(LARGE), "text"])
    assert 0 <= len(packed.to_bytes()) - packed.size <= 200


# -- the layout -------------------------------------------------------------------------------------------------------


def test_the_layout_is_kept_for_ever() -> None:
    """Journals hold it: [count u4][sizes u8...][body], then each buffer at the next multiple of 64."""
    body = pickle.dumps("hello", 5)
    content = bytes([0, 0, 0, 0]) + len(body).to_bytes(8, "little") + body
    assert parcel.pack("hello").to_bytes() == content
    assert parcel.unpack(content) == "hello"


def test_the_layout_with_a_buffer() -> None:
    array = np.arange(LARGE, dtype=np.uint8)
    content = parcel.pack(array).to_bytes()
    assert int.from_bytes(content[:4], "little") == 1
    body = int.from_bytes(content[4:12], "little")
    assert int.from_bytes(content[12:20], "little") == LARGE
    start = -(-(20 + body) // 64) * 64
    assert content[start:] == array.tobytes()


def test_pickles_one_after_the_other() -> None:
    values = [1, "two", [3.0], None]
    bodies = b"".join(parcel.pack(value).body for value in values)
    assert parcel.concatenated(bodies, len(values)) == values
    assert parcel.concatenated(b"", 0) == []
