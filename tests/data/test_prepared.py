"""`Prepared`: the same rows in the same order for every framework; splits, samples, and what it says of itself."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy
import pytest

import scripts
import tenfold
import waiting
from tenfold.data import stores
from tenfold.data.form import form_of

X = numpy.random.default_rng(0).random((103, 3)).astype("float32")
Y = numpy.arange(103) % 4


@pytest.fixture(scope="module", params=stores.FORMATS)
def prepared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tenfold.Prepared:
    found = made(tmp_path_factory.mktemp("sets") / "set", request.param)
    found.numpy()  # files that are mapped stay open from here on
    return found


def made(folder: Path, kind: Any) -> tenfold.Prepared:
    def pair(place: int) -> tuple[Any, int]:
        return X[place], int(Y[place])

    return tenfold.prepare(pair, numpy.arange(103), folder, format=kind, progress=False)


_FEEDS = """
    import numpy, tenfold

    prepared = tenfold.Prepared.open({folder!r})
    plain = list(prepared.iterate(10, shuffle=True, seed=5, epochs=2))
    for feed in (prepared.tensorflow(10, shuffle=True, seed=5), prepared.torch(10, shuffle=True, seed=5)):
        twice = [*feed, *feed]
        assert len(twice) == len(plain) == 22, len(twice)
        for batch, other in zip(plain, twice):
            for array, tensor in zip(batch, other):
                numpy.testing.assert_array_equal(array, numpy.asarray(tensor))
    several = prepared.torch(10, shuffle=True, seed=5, epochs=2)
    assert len(several) == 22
    for batch, other in zip(prepared.iterate(10, shuffle=True, seed=5, epochs=4), [*several, *several], strict=True):
        numpy.testing.assert_array_equal(batch[0], numpy.asarray(other[0]))
    named = tenfold.prepare(lambda n: {{"t": numpy.array(str(n), "U3")}}, range(12), "named", progress=False)
    assert next(iter(named.torch(2))) == {{"t": ["0", "1"]}}
    try:
        named.torch(2, map=len)
    except TypeError:
        print("the same")
"""


@pytest.mark.slow
def test_all_frameworks_see_the_same_order(tmp_path: Path) -> None:
    text = _FEEDS.format(folder=str(made(tmp_path / "set", "npy").folder))
    ended = scripts.run(tmp_path, text, {"TF_CPP_MIN_LOG_LEVEL": "3"}, seconds=120)
    assert "the same" in ended.out


def test_every_epoch_has_all_rows_in_another_order(prepared: tenfold.Prepared) -> None:
    plain = list(prepared.iterate(10, shuffle=True, seed=5, epochs=2))
    for epoch in (plain[:11], plain[11:]):
        assert sorted(value for _, y in epoch for value in y) == sorted(Y)
    assert not numpy.array_equal(plain[0][0], plain[11][0])
    numpy.testing.assert_array_equal(next(prepared.iterate(4, prefetch=0))[0], X[:4])


class Noting:
    """A store that notes when it is read."""

    def __init__(self) -> None:
        self.taken: list[int] = []

    def read(self, start: int, stop: int) -> list[Any]:
        return [numpy.arange(start, stop)]

    def take(self, rows: Any) -> list[Any]:
        self.taken.append(int(rows[0]))
        return [rows]

    def whole(self) -> list[Any]:
        return self.read(0, 100)


@pytest.mark.parametrize("prefetch", [0, 1, 3])
def test_the_next_batches_are_read_while_one_is_used(prefetch: int) -> None:
    store = Noting()
    batches = tenfold.Prepared(form_of(0, batched=False), store, 100, None).iterate(10, prefetch=prefetch)
    for used in range(3):
        assert next(batches)[0] == used * 10
        waiting.until(lambda ready=1 + used + prefetch: len(store.taken) == ready)  # and there it stays
        assert store.taken == list(range(0, 10 * (1 + used + prefetch), 10))
    assert sum(map(len, batches)) == 70
    assert len(store.taken) == 10, "each was read once"


def test_arrays_are_the_files_where_that_is_possible(tmp_path: Path) -> None:
    whole = made(tmp_path / "npy", "npy")
    x, y = whole.numpy()
    assert isinstance(x, numpy.memmap)
    assert isinstance(y, numpy.memmap)
    [following] = whole.split(1.0)  # all rows, which follow each other
    assert numpy.shares_memory(following.numpy()[0], x)
    assert not numpy.shares_memory(whole.sample(50).numpy()[0], x)
    assert not isinstance(made(tmp_path / "zarr", "zarr").numpy()[0], numpy.memmap)


def test_shards_have_every_row_once(prepared: tenfold.Prepared) -> None:
    shards = [list(prepared.iterate(8, shuffle=True, seed=1, shard=(rank, 3))) for rank in range(3)]
    assert len({len(shard) for shard in shards}) == 1
    rows = numpy.concatenate([x for shard in shards for x, _ in shard])
    assert sorted(map(tuple, rows)) == sorted(map(tuple, X))
    whole = list(prepared.iterate(24, shuffle=True, seed=1))
    side_by_side = numpy.concatenate([shard[0][0] for shard in shards])
    numpy.testing.assert_array_equal(side_by_side, whole[0][0])


def test_dask_reads_chunks(prepared: tenfold.Prepared) -> None:
    x, y = prepared.dask()
    assert x.shape == (103, 3)
    numpy.testing.assert_array_equal(x[7:50, 1].compute(scheduler="synchronous"), X[7:50, 1])
    assert int(y.sum().compute(scheduler="synchronous")) == Y.sum()
    for key in (slice(None, None, 2), slice(90, 3, -7), 5, -1, slice(5, 5), [7, 2, 2]):
        numpy.testing.assert_array_equal(x[key].compute(scheduler="synchronous"), X[key])
        numpy.testing.assert_array_equal(y[key].compute(scheduler="synchronous"), Y[key])


def test_of_one_column_no_other_is_read(prepared: tenfold.Prepared, tmp_path: Path) -> None:
    folder = tmp_path / "set"
    shutil.copytree(prepared.folder, folder)  # type: ignore[arg-type]
    shutil.rmtree(folder / "data.zarr" / "x", ignore_errors=True)  # Parquet has one file for both
    if (folder / "x.npy").exists():
        (folder / "x.npy").write_bytes(b"")
    found = tenfold.Prepared.open(folder)
    _, y = found.dask()
    assert int(y.sum().compute(scheduler="synchronous")) == Y.sum()
    assert [len(part) for part in found.split(0.5, by="y")] == [52]


def test_parts_of_a_set_are_verified_as_the_set(prepared: tenfold.Prepared) -> None:
    assert prepared.only(1).verify() == prepared.split(0.5)[0].verify() == []


def test_splits_have_nothing_in_common_and_keep_the_shares(prepared: tenfold.Prepared) -> None:
    training, testing = prepared.split(0.75, 0.25, by="y", seed=3)
    rows = [tuple(row) for part in (training, testing) for row in part.numpy()[0]]
    assert len(set(rows)) == len(rows) == 103
    for value in range(4):
        share = (training.numpy()[1] == value).sum() / (Y == value).sum()
        assert 0.7 < share < 0.8
    assert numpy.array_equal(prepared.split(0.5)[0].numpy()[1], prepared.split(0.5)[0].numpy()[1])
    inner = training.split(0.5, 0.5)[1]
    assert {tuple(row) for row in inner.numpy()[0]} < {tuple(row) for row in training.numpy()[0]}
    for wrong in ((), (0.5, 0.6), (0.0, 1.0), (float("nan"), 0.5)):
        with pytest.raises(tenfold.BadCall, match="shares above 0"):
            prepared.split(*wrong)
    with pytest.raises(tenfold.BadCall, match=r"by='label': there is no such column, only x, y"):
        prepared.split(0.5, by="label")


def test_splits_by_rare_values_keep_the_shares() -> None:
    rows = {"alone": numpy.arange(1000), "pair": numpy.arange(1000) // 2, "rare": numpy.arange(1000) < 10}
    found = tenfold.predict(lambda rows: rows, rows, progress=False)
    for by, values in rows.items():
        for shares in ((0.8, 0.2), (0.5, 0.5), (0.6, 0.3, 0.1)):
            parts = found.split(*shares, by=by)
            assert [len(part) for part in parts] == [round(share * 1000) for share in shares]
            assert len(set(numpy.concatenate([part.numpy()["alone"] for part in parts]))) == 1000
            for value, count in zip(*numpy.unique(values, return_counts=True), strict=True):
                for share, part in zip(shares, parts, strict=True):
                    assert abs((part.numpy()[by] == value).sum() - share * count) < (1 if len(shares) == 2 else 2)
    first, second = (found.split(0.2, by="alone", seed=seed)[0].numpy()["alone"] for seed in (0, 1))
    assert not numpy.array_equal(first, second), "which values they are is drawn"


def test_rows_of_a_set_in_memory_are_known_by_what_they_are(tmp_path: Path) -> None:
    first, second = tenfold.predict(lambda rows: rows * 2, numpy.arange(20.0), progress=False).split(0.5, 0.5)
    for half in (first, second):
        made = tenfold.prepare(lambda row: row, half, tmp_path / "half", progress=False)
        assert made.numpy().tolist() == half.numpy().tolist()


def test_a_sample_is_a_set(prepared: tenfold.Prepared) -> None:
    some = prepared.sample(10, seed=1)
    assert len(some) == 10
    x, y = some.numpy()
    for row, value in zip(x, y, strict=True):
        assert Y[(X == row).all(1).argmax()] == value
    with pytest.raises(tenfold.BadCall, match="expected a whole number, from 1 to 103"):
        prepared.sample(104)
    with pytest.raises(tenfold.BadCall, match="expected a whole number"):
        prepared.sample(True)


def test_it_travels_and_can_be_opened_again(prepared: tenfold.Prepared) -> None:
    for other in (pickle.loads(pickle.dumps(prepared)), tenfold.Prepared.open(prepared.folder)):  # type: ignore[arg-type]
        numpy.testing.assert_array_equal(other.numpy()[0], X)
    assert "103 rows" in prepared.describe()
    assert "x (3 of float32), y (a number of int64)" in str(prepared)


def test_it_is_a_source_and_the_data_of_a_fit(prepared: tenfold.Prepared, tmp_path: Path) -> None:
    sums = tenfold.prepare(lambda pair: pair[0].sum(), prepared, tmp_path / "sums", progress=False)
    numpy.testing.assert_array_equal(sums.numpy(), X.sum(1))
    again = tenfold.prepare(lambda pair: pair[1], prepared.folder, tmp_path / "again", progress=False)
    numpy.testing.assert_array_equal(again.numpy(), Y)

    def build() -> Any:
        import torch

        model = torch.nn.Linear(3, 4)
        return model, torch.nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr=0.1)

    losses = [
        tenfold.map(tenfold.Fit(build, data, epochs=2), [{"seed": 1}], progress=False)[0].history["loss"]
        for data in (prepared, (X, Y))
    ]
    assert losses[0] == losses[1]


def test_what_is_read_may_be_changed_and_what_is_viewed_is_the_same(prepared: tenfold.Prepared) -> None:
    x, _ = prepared.read(3, 9)
    x += 1
    numpy.testing.assert_array_equal(prepared.view(3, 9)[0], X[3:9])


def test_a_set_is_not_made_of_itself(prepared: tenfold.Prepared) -> None:
    with pytest.raises(tenfold.BadCall, match="the source itself"):
        tenfold.prepare(lambda pair: pair, prepared, str(prepared.folder), progress=False)


def test_bad_numbers_are_refused(prepared: tenfold.Prepared) -> None:
    with pytest.raises(tenfold.BadCall, match=r"batch_size=0: .*; epochs=0: .*; shard=\(3, 3\): expected \(i, n\)"):
        prepared.iterate(0, epochs=0, shard=(3, 3))
    with pytest.raises(tenfold.BadCall, match=r"seed=None: expected a whole number.*; shard=\(0.5, 2\): expected"):
        prepared.iterate(seed=None, shard=(0.5, 2))  # type: ignore[arg-type]
    assert len(next(prepared.iterate(numpy.int64(4)))[0]) == 4  # type: ignore[arg-type]


def test_what_is_not_a_set_says_so(tmp_path: Path) -> None:
    with pytest.raises(tenfold.BadCall, match=r"holds no prepared set: there is no manifest.json"):
        tenfold.Prepared.open(tmp_path)
