"""Arrays on their way to joblib's calls and back: as loky has them, and written once where they come again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from joblib import Parallel, delayed, parallel_config

import scripts
import waiting


@pytest.fixture(autouse=True)
def _two() -> Iterator[None]:
    """Two workers for everything in the test."""
    with parallel_config(backend="tenfold", n_jobs=2):
        yield


LARGE = np.arange(300_000.0)  # 2.4 MB: above joblib's threshold
MIDDLING = np.arange(30_000.0)  # 240 KB: below it, and worth a file when it comes again


def kind_of(array: Any) -> tuple[str, bool, float]:
    return type(array).__name__, bool(array.flags.writeable), float(array.sum())


def test_large_arrays_are_mapped_as_joblib_does(tmp_path: Path) -> None:
    total = float(LARGE.sum())
    assert set(Parallel()(delayed(kind_of)(LARGE) for _ in range(4))) == {("memmap", False, total)}
    assert set(Parallel(mmap_mode="c")(delayed(kind_of)(LARGE) for _ in range(4))) == {("memmap", True, total)}
    assert set(Parallel(max_nbytes=None)(delayed(kind_of)(LARGE) for _ in range(4))) == {("ndarray", True, total)}
    with Parallel(temp_folder=tmp_path) as parallel:
        parallel(delayed(kind_of)(LARGE) for _ in range(4))
        (folder,) = tmp_path.iterdir()
        assert len(list(folder.iterdir())) == 1, "written once for all calls"
        LARGE[0] = 1.0
        assert set(parallel(delayed(kind_of)(LARGE) for _ in range(4))) == {("memmap", False, total + 1)}
        LARGE[0] = 0.0
    waiting.until(lambda: not list(tmp_path.iterdir()))


def test_the_users_own_map_is_written_by_all(tmp_path: Path) -> None:
    def fill(target: Any, place: int) -> None:
        target[place] = place

    shared = np.memmap(tmp_path / "shared", mode="w+", dtype=float, shape=(10,))
    Parallel()(delayed(fill)(shared, place) for place in range(10))
    assert shared.tolist() == list(range(10))


def test_an_array_that_comes_again_is_as_if_it_were_copied() -> None:
    def write(array: Any, n: int) -> tuple[float, str]:
        before = float(array[0])
        array[0] = n
        return before, type(array).__name__

    # In a batch, calls share what they share with the caller, as everywhere in joblib; so there is one call in each.
    assert set(Parallel(batch_size=1)(delayed(write)(MIDDLING, n) for n in range(1, 9))) == {(0.0, "ndarray")}
    assert MIDDLING[0] == 0.0
    in_columns = np.asfortranarray(np.arange(30_000).reshape(100, 300))
    for found in Parallel()(delayed(np.copy)(in_columns) for _ in range(6)):
        np.testing.assert_array_equal(found, in_columns)


def test_an_array_that_changes_between_two_calls_is_sent_as_it_is() -> None:
    buffer = np.zeros(30_000)

    def calls() -> Iterator[Any]:
        for n in range(12):
            buffer[:] = n
            yield delayed(np.ptp)(buffer)

    assert set(Parallel(pre_dispatch=2)(calls())) == {0.0}


def test_a_part_of_a_larger_array_is_as_if_it_were_copied() -> None:
    """The data of scikit-learn's digits is one: nothing of it is next to each other as a whole."""
    whole = np.arange(90_000, dtype=np.float64).reshape(300, 300)
    whole[0, 0] = np.nan
    for part in (whole[:, :-1], whole[:, :-1].T, (whole + 1j)[:, :-1], whole.astype(np.float32)[::2]):
        for found in Parallel(batch_size=1)(delayed(np.asarray)(part) for _ in range(4)):
            np.testing.assert_array_equal(found, part)
            assert found.flags.writeable


@pytest.mark.parametrize("length", [50_000, 300_000], ids=["copied by joblib", "mapped by joblib"])
def test_files_go_with_the_arrays_that_they_are_for(length: int, tmp_path: Path) -> None:
    """A call may go through more arrays than memory holds; each in its turn."""
    most = 0

    def calls() -> Iterator[Any]:
        nonlocal most
        for n in range(40):
            most = max(most, len(list(tmp_path.rglob("*.pkl"))))
            yield delayed(np.ptp)(np.full(length, float(n)))

    assert set(Parallel(temp_folder=str(tmp_path), batch_size=1)(calls())) == {0.0}
    assert 0 < most < 10


def test_a_mapped_array_comes_back_as_one_of_its_own() -> None:
    for found in Parallel()(delayed(lambda array: (array, array[:10]))(LARGE) for _ in range(2)):
        for part in found:
            assert type(part) is np.ndarray
            part[0] = 5.0
    assert LARGE[0] == 0.0


def test_more_arrays_than_files_may_be_open_are_copied(tmp_path: Path) -> None:
    code = """
        import resource
        import numpy as np
        from tenfold.joblib.calling import Call
        from tenfold.joblib.sending import Sender

        arrays = [np.full(50_000, float(n)) for n in range(200)]
        sender = Sender("sent")
        sender.begin(1_000_000, "r")
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
        kept = [sender.pack([Call(np.sum, (array,), {}, None)]) for _ in range(3) for array in arrays]
        sender.clear()
        print(len(kept), "packed")
    """
    assert "600 packed" in scripts.run(tmp_path, code, {}).out


def test_a_full_disk_keeps_no_array_from_being_copied(tmp_path: Path) -> None:
    """A folder that cannot be written to stands for it."""
    occupied = tmp_path / "file"
    occupied.write_text("not a folder")
    with pytest.raises(Exception, match="Could not pickle the task"):
        Parallel(temp_folder=str(occupied))(delayed(kind_of)(LARGE) for _ in range(4))
    found = Parallel(temp_folder=str(occupied))(delayed(kind_of)(MIDDLING) for _ in range(4))
    assert set(found) == {("ndarray", True, float(MIDDLING.sum()))}
