"""Objects as bytes: a pickle, with its large buffers beside it instead of in it.

    pack(value) -> Parcel(body, buffers)      buffers point into the value's own memory: nothing is copied
    Parcel.write(file)                        [count][sizes...][body][buffer][buffer]...   64-byte aligned
    unpack(memory)                            arrays point into `memory`: nothing is copied

The layout is the same in shared memory, in a file of a run, and in a message, and it is kept for ever: journals hold
it. Plain pickle is tried first, because it is ten times faster than cloudpickle on small values; cloudpickle takes
what plain pickle cannot (lambdas, classes of a script or notebook).
"""

from __future__ import annotations

import contextlib
import copyreg
import fcntl
import io
import mmap
import os
import pickle
import struct
import tempfile
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import FunctionType
from typing import IO, Any, TypeVar

import cloudpickle

from tenfold import frameworks
from tenfold.errors import BadCall
from tenfold.work import mapped
from tenfold.work.filling import fill

PROTOCOL = 5
BESIDE = 64 << 10  # a buffer from this size on stays out of the pickle
WORTH_A_MAP = 64 << 20
ALIGNMENT = 64  # what BLAS and XLA like; a cache line

_DEFINED = (type, FunctionType, TypeVar)  # what plain pickle names, and cloudpickle can pickle by value
_ATOMS = frozenset({int, float, str, bool, type(None), complex, bytes})
_COUNT = struct.Struct("<I")

Buffer = bytes | bytearray | memoryview | mmap.mmap
Ways = Mapping[type, Callable[[Any], Any]]
"""How values of a type are pickled: what `copyreg` calls a reduction function, by type."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """An object on its way to another process."""

    body: bytes
    """The pickle."""
    buffers: tuple[memoryview, ...] = ()
    """What the pickle refers to and does not contain, in order."""

    @property
    def size(self) -> int:
        return len(self.body) + sum(buffer.nbytes for buffer in self.buffers)

    def pieces(self) -> Iterator[tuple[int, memoryview]]:
        """The layout above: what is where. The bytes between pieces are zero."""
        sizes = [len(self.body), *[buffer.nbytes for buffer in self.buffers]]
        head = _COUNT.pack(len(self.buffers)) + struct.pack(f"<{len(sizes)}Q", *sizes)
        yield 0, memoryview(head + self.body)
        place = len(head) + len(self.body)
        for buffer in self.buffers:
            place += -place % ALIGNMENT
            yield place, buffer
            place += buffer.nbytes

    def write(self, file: IO[bytes]) -> int:
        """Write the layout above; returns its length."""
        length = 0
        for place, piece in self.pieces():
            file.write(bytes(place - length))
            file.write(piece)
            length = place + piece.nbytes
        return length

    def to_bytes(self) -> bytes:
        file = io.BytesIO()
        self.write(file)
        return file.getvalue()


@dataclass(frozen=True, slots=True)
class Sealed:
    """A parcel that somebody else has packed, and that is passed on unopened."""

    content: bytes
    """What `Parcel.write` has written."""

    @property
    def size(self) -> int:
        return len(self.content)

    def write(self, file: IO[bytes]) -> int:
        return file.write(self.content)

    def to_bytes(self) -> bytes:
        return self.content


def pack(value: object, beside: int = BESIDE, ways: Ways | None = None) -> Parcel:
    """Pickle `value` for another process, with buffers of `beside` bytes and more kept beside the pickle.

    `ways` says how values of some types are pickled, before everything else; it may be asked twice for one value.
    Raises what pickle raises where that is not possible.
    """
    if type(value) in _ATOMS:
        return Parcel(pickle.dumps(value, PROTOCOL))
    if not cloudpickle.list_registry_pickle_by_value():
        with contextlib.suppress(Exception):  # plain pickle fails in many ways; cloudpickle has the last word
            return _dump(value, _Plain, beside, ways)
    return _dump(value, _ByValue, beside, ways)


def pack_function(function: Callable[..., Any]) -> Parcel:
    """Pickle a function by value, with everything that it closes over."""
    try:
        return _dump(function, _ByValue)
    except Exception as error:
        raise BadCall(
            f"task={function!r} cannot be sent to a worker: {type(error).__name__}: {error}. Make what cannot travel "
            "(open files, locks, connections) inside the function"
        ) from error


def unpack(memory: Buffer, *, writable: bool = True) -> Any:
    """The object in `memory`, as `Parcel.write` wrote it. Its arrays point into `memory` and keep it alive."""
    view = memoryview(memory)
    (count,) = _COUNT.unpack_from(view)
    sizes = struct.unpack_from(f"<{count + 1}Q", view, _COUNT.size)
    place = _COUNT.size + 8 * (count + 1)
    body = view[place : place + sizes[0]]
    place += sizes[0]
    buffers = []
    for size in sizes[1:]:
        place += -place % ALIGNMENT
        buffers.append(view[place : place + size] if writable else view[place : place + size].toreadonly())
        place += size
    return pickle.loads(body, buffers=buffers)


def shared(parcel: Parcel | Sealed) -> int:
    """A file descriptor of nameless shared memory that holds the parcel. The caller closes it."""
    handle = _nameless()
    with open(handle, "wb", closefd=False) as file:
        parcel.write(file)
    return handle


def shared_soon(parcel: Parcel) -> tuple[int, Future[None]]:
    """The same at once: a thread fills it, and whoever opens it anew waits with `wait_for`."""
    handle = _nameless()
    pieces = list(parcel.pieces())
    place, last = pieces[-1]
    os.ftruncate(handle, place + last.nbytes)
    fcntl.flock(handle, fcntl.LOCK_EX)
    filler = ThreadPoolExecutor(1, "tenfold-filler")
    filling = filler.submit(_fill, handle, pieces)
    filler.shutdown(wait=False)
    return handle, filling


def _fill(handle: int, pieces: Sequence[tuple[int, memoryview]]) -> None:
    try:
        for place, piece in pieces:
            fill(handle, place, piece)
    except BaseException:
        os.ftruncate(handle, 0)  # nobody shall take the half of it for the whole
        raise
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)


def wait_for(handle: int) -> None:
    """Return when the shared memory behind a descriptor is filled."""
    fcntl.flock(handle, fcntl.LOCK_SH)


def attach(handle: int) -> mmap.mmap:
    """The memory behind a descriptor, private to this process: what is written to it, nobody else sees."""
    return mmap.mmap(handle, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)


def load(handle: int) -> bytearray | mmap.mmap:
    """The same, for many: Python keeps a descriptor for every map, so only what is worth one is mapped."""
    size = os.fstat(handle).st_size
    if size >= WORTH_A_MAP:
        return attach(handle)
    memory = bytearray(size)
    view, place = memoryview(memory), 0
    while place < size:
        place += os.preadv(handle, [view[place:]], place)
    return memory


def _nameless() -> int:
    # memfd is not bounded by the size of /dev/shm (64 MB in containers); elsewhere a file without a name does.
    if hasattr(os, "memfd_create"):
        return os.memfd_create("tenfold")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class Table(ChainMap[Any, Any]):
    """How values of a type are pickled; frameworks are asked about types that are not named."""

    def __init__(self, *tables: MutableMapping[Any, Any]) -> None:
        super().__init__(*tables)
        self.members = frameworks.imported()  # once, because every value asks

    def __missing__(self, kind: Any) -> Callable[[Any], Any]:
        for member in self.members:
            if (found := member.reducer(kind)) is not None:
                return found
        raise KeyError(kind)

    def get(self, kind: Any, default: Any = None) -> Any:
        """Pickle's own in Python asks in this way, and a chain of maps would not look further than what it holds."""
        try:
            return self[kind]
        except KeyError:
            return default


class _Plain(pickle.Pickler):
    """Plain pickle with the frameworks' ways of pickling."""

    def __init__(self, file: IO[bytes], beside: Callable[[pickle.PickleBuffer], bool], ways: Ways) -> None:
        super().__init__(file, PROTOCOL, buffer_callback=beside)
        self.dispatch_table = Table({**reducers(), **ways}, copyreg.dispatch_table)

    def reducer_override(self, value: Any) -> Any:
        """Refuse what is defined in the caller's script: by its name, a worker would look for it in its own."""
        if issubclass(type(value), _DEFINED) and value.__module__ == "__main__":
            raise pickle.PicklingError(f"{value!r} is defined in __main__")
        return NotImplemented


class _ByValue(cloudpickle.Pickler):  # type: ignore[misc]
    """cloudpickle with the frameworks' ways of pickling."""

    def __init__(self, file: IO[bytes], beside: Callable[[pickle.PickleBuffer], bool], ways: Ways) -> None:
        # Before __init__, because the table is read there: cloudpickle's own hides the base class's attribute.
        self.dispatch_table = Table({**reducers(), **ways}, cloudpickle.Pickler.dispatch_table)
        super().__init__(file, PROTOCOL, buffer_callback=beside)


def _dump(
    value: object, pickler: type[_Plain] | type[_ByValue], least: int = BESIDE, ways: Ways | None = None
) -> Parcel:
    buffers: list[memoryview] = []

    def beside(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < least:
            return True  # into the pickle
        buffers.append(raw)
        return False

    file = io.BytesIO()
    pickler(file, beside, ways or {}).dump(value)
    return Parcel(file.getvalue(), tuple(buffers))


def reducers() -> dict[type, Callable[[Any], Any]]:
    """How the values of imported libraries are pickled with their memory beside the pickle."""
    table: dict[type, Callable[[Any], Any]] = dict(mapped.reducers())
    for member in frameworks.imported():
        table.update(member.reducers())
    return table


def concatenated(bodies: Buffer, count: int) -> Sequence[Any]:
    """The values of `count` pickles that follow each other."""
    file = io.BytesIO(bodies)
    return [pickle.load(file) for _ in range(count)]
