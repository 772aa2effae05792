"""Streams: read once from the beginning, in blocks of bounded size; the frameworks' in processes of their own."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tenfold.data.opening import source
from tenfold.data.source import PART_BYTES, count, cut, samples
from tenfold.data.streams import BLOCK
from tenfold.errors import BadCall


def numbers(length: int) -> Iterator[tuple[np.ndarray[Any, Any], int]]:
    for number in range(length):
        yield np.full(3, number), number


def test_samples_are_stacked_in_blocks() -> None:
    found = source(numbers(600))
    assert found.length is None
    parts = list(found.parts())
    assert [(part.start, part.stop) for part in parts] == [(0, BLOCK), (BLOCK, 2 * BLOCK), (2 * BLOCK, 600)]
    assert all(part.key is None and count(part.rows) == part.stop - part.start for part in parts)
    x, y = parts[1].rows
    np.testing.assert_array_equal(x[:, 0], np.arange(BLOCK, 2 * BLOCK))
    np.testing.assert_array_equal(y, np.arange(BLOCK, 2 * BLOCK))


@pytest.mark.parametrize(("batch", "sizes"), [(100, [300, 300]), (500, [500, 100]), (64, [256, 256, 88])])
def test_batches_are_whole(batch: int, sizes: list[int]) -> None:
    assert [part.stop - part.start for part in cut(source(numbers(600)), multiple=batch)] == sizes
    large = source(np.zeros(PART_BYTES // 4, np.uint8) for _ in range(20))
    assert [part.stop - part.start for part in cut(large, multiple=10)] == [10, 10]


def test_no_more_is_read_than_is_taken() -> None:
    drawn = []
    parts = source((drawn.append(number), number)[1] for number in itertools.count()).parts()
    assert list(samples(next(iter(parts)).rows))[5] == 5
    assert len(drawn) == BLOCK


def test_large_samples_make_small_blocks() -> None:
    found = source(np.zeros((1 << 20,), np.uint8) for _ in range(20))
    assert max(part.rows.nbytes for part in found.parts()) <= PART_BYTES


def test_samples_of_different_shapes_are_a_list() -> None:
    [part] = source(np.zeros(number) for number in range(4)).parts()
    assert [len(one) for one in part.rows] == [0, 1, 2, 3]


def test_a_generator_is_not_read_twice() -> None:
    found = source(numbers(3))
    list(found.parts())
    with pytest.raises(BadCall, match=r"this generator has been read already.*such as a list"):
        found.parts()


def test_what_can_be_gone_through_again() -> None:
    found = source({3, 4})
    assert found.expected == 2
    assert source(numbers(3)).expected is None
    assert [part.rows.tolist() for part in found.parts()] == [part.rows.tolist() for part in found.parts()] == [[3, 4]]
    with pytest.raises(BadCall, match="go through its parts"):
        found.read(0, 1)


def test_nothing_comes() -> None:
    assert list(source(iter(())).parts()) == []


TENSORFLOW = """
import numpy as np, tensorflow as tf
from tenfold.data.opening import source
from tenfold.errors import BadCall
data = tf.data.Dataset.from_tensor_slices({"x": np.arange(900).reshape(300, 3), "s": [str(n) for n in range(300)]})
found = source(data.map(lambda one: (one, 1)))
for _ in range(2):
    parts = list(found.parts())
    assert [part.stop for part in parts] == [256, 300], parts
    rows, ones = parts[1].rows
    assert isinstance(rows["x"], np.ndarray) and rows["x"].tolist() == np.arange(768, 900).reshape(-1, 3).tolist()
    assert rows["s"][0] == b"256" and (ones == 1).all()
assert found.length is None and found.expected == 300 and "300 samples" in found.describe()
assert source(data.filter(lambda one: one["x"][0] > 3)).expected is None
for refused, text in ((data.repeat(), "never ends; give some of it"), (data.take(0), "has no samples")):
    try:
        source(refused)
    except BadCall as error:
        assert text in str(error), error
    else:
        raise SystemExit(f"took {refused}")
tensor = source(tf.constant([[1.0, 2.0], [3.0, 4.0]]))
assert tensor.read(1, 2).tolist() == [[3.0, 4.0]]
"""

TORCH = """
import numpy as np, torch
from tenfold.data.opening import source
from tenfold.errors import BadCall, SampleUnreadable

class Flow(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter([{"x": torch.full((2,), float(n)), "y": n} for n in range(5)])

[part] = source(Flow()).parts()
assert part.rows["x"].tolist() == [[n, n] for n in range(5)] and part.rows["y"].tolist() == list(range(5))

class Files(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, n):
        if n == 2:
            raise ValueError("corrupt")
        return torch.ones(3, requires_grad=True) * n

found = source(Files())
assert found.length == 4 and found.read(3, 4).tolist() == [[3, 3, 3]]
assert all(part.key for part in found.parts())
try:
    found.read(0, 4)
except SampleUnreadable as error:
    assert "sample 2 of Files cannot be read: ValueError: corrupt" in str(error)
else:
    raise SystemExit("read what is corrupt")
try:
    source(torch.utils.data.DataLoader(Files()))
except BadCall as error:
    assert "give its dataset" in str(error)
else:
    raise SystemExit("took a loader")

class Unpicklable(Files):
    def __init__(self):
        self.generator = (n for n in range(3))

assert all(part.key is None for part in source(Unpicklable()).parts())
assert source(torch.arange(6).reshape(3, 2)).read(1, 3).tolist() == [[2, 3], [4, 5]]
"""

LIGHT = """
import sys
import tenfold
assert not any(name.startswith("tenfold.data") for name in sys.modules)
import numpy as np
from tenfold.data.opening import source
source((np.zeros(3), [1, 2, 3])); source(["a", "b"]); source(iter([1]))
heavy = {"torch", "tensorflow", "jax", "zarr", "h5py", "pyarrow", "PIL", "dask", "pandas"} & set(sys.modules)
assert not heavy, heavy
"""


@pytest.mark.parametrize("script", [TENSORFLOW, TORCH, LIGHT], ids=["tensorflow", "torch", "light"])
def test_in_a_process_of_its_own(script: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(script)
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


DATASET = """
RATE = 2
def helper(x):
    return x * RATE
class Base:
    def __len__(self):
        return 3
    def one(self, number):
        return number
class Set(Base):
    def __init__(self, transform):
        self.transform = transform
        self.array = np.arange(3)
    def __getitem__(self, number):
        return self.transform(helper(self.one(number)))
def plus(x):
    return x + 1
made = Set(transform=plus)
local = Set(transform=lambda x: plus(x))
"""


@pytest.mark.parametrize("name", ["made", "local"])
def test_a_dataset_is_known_by_all_code_that_makes_its_samples(name: str) -> None:
    def stamp(text: str) -> str:
        names: dict[str, Any] = {"__name__": "a_script_of_the_user", "np": np}
        exec(text, names)
        return source(names[name]).stamp(0, 3)

    assert stamp(DATASET) == stamp("# a comment\n" + DATASET)
    for old, new in (("RATE = 2", "RATE = 3"), ("x * RATE", "x / RATE"), ("return number", "return -number")):
        assert stamp(DATASET) != stamp(DATASET.replace(old, new))
    for old, new in (("x + 1", "x + 2"), ("arange(3)", "ones(3)"), ("self.one(number))", "number)")):
        assert stamp(DATASET) != stamp(DATASET.replace(old, new))
