"""`tenfold.train` on data that is read block by block: each worker reads its own rows; the weights are those of one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import nets
import numpy
import pytest

import tenfold
from tenfold.errors import TasksFailed
from tenfold.fuse import columns, reading

ROWS, EPOCHS = 203, 2
TRAINED = 162  # the others validate; the last batch has 12


def build(folder: str) -> Any:
    """Blocks are small, and what is read of them is written down."""
    import torch

    columns.BLOCK = 64 * (12 * 4 + 8)
    read = reading._read

    def noted(block: Any, rows: Any = None) -> Any:
        found = read(block, rows)
        with open(Path(folder) / str(tenfold.here().index), "a") as file:
            file.write(f"{len(found)}\n")
        return found

    reading._read = noted
    module = torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    return module, torch.nn.CrossEntropyLoss(), torch.optim.Adam(module.parameters(), 0.01)


@pytest.fixture(params=["memmap", "prepared"])
def data(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """Opens it."""
    monkeypatch.setattr(columns, "STREAM_ABOVE", 1000)  # what takes a gigabyte takes too long for a test
    if request.param == "prepared":
        options: dict[str, Any] = {"to": tmp_path / "set", "workers": 1, "progress": False}
        return lambda: tenfold.prepare(lambda sample: sample, (nets.X, nets.Y), **options)
    numpy.save(tmp_path / "x.npy", nets.X)
    numpy.save(tmp_path / "y.npy", nets.Y)
    return lambda: (tmp_path / "x.npy", tmp_path / "y.npy")


def rows_read(folder: Path) -> list[int]:
    """By each worker."""
    return [sum(map(int, path.read_text().split())) for path in sorted(folder.iterdir())]


def train(data: Any, folder: Path, **how: Any) -> tuple[Any, list[int]]:
    folder.mkdir()
    fit = tenfold.Fit(build, data(), epochs=EPOCHS, batch_size=30, validation=0.2)
    assert fit.data.streams
    trained = tenfold.train(fit, {"seed": 3, "folder": str(folder)}, progress=False, **how)
    return trained, rows_read(folder)


def test_each_worker_reads_its_own_rows(data: Any, tmp_path: Path) -> None:
    one, (whole,) = train(data, tmp_path / "one", workers=1)
    assert whole == EPOCHS * ROWS
    for how in ("synchronous", "sharded"):
        two, read = train(data, tmp_path / how, workers=2, how=how)
        assert nets.furthest(one.weights, two.weights) < 1e-5
        for name, values in one.history.items():
            numpy.testing.assert_allclose(two.history[name], values, rtol=1e-4, atol=1e-6)
        assert sum(read) == whole, "every row once"
        assert all(0.4 * whole < rows < 0.6 * whole for rows in read)


@pytest.mark.parametrize("every", [None, 2])
def test_asynchronous_workers_read_their_own_batches(every: int | None, data: Any, tmp_path: Path) -> None:
    two, read = train(data, tmp_path / "two", workers=2, how="asynchronous", average_every=every)
    assert two.updates == EPOCHS * -(-TRAINED // 30)
    assert sum(read) == EPOCHS * ROWS
    if every is not None:
        assert all(0.3 * sum(read) < rows < 0.7 * sum(read) for rows in read)


@pytest.mark.parametrize(
    "how",
    [{"workers": 1}, {"workers": 2}, {"workers": 2, "how": "asynchronous"}, {"workers": 2, "how": "sharded"}],
    ids=str,
)
def test_rows_of_a_loss_that_is_not_a_number_are_those_of_the_data(
    how: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "STREAM_ABOVE", 1000)
    x = nets.X.copy()
    x[150, 4] = numpy.nan  # in the third block, which begins at 120
    numpy.save(tmp_path / "x.npy", x)
    fit = tenfold.Fit(build, (tmp_path / "x.npy", nets.Y), epochs=1, batch_size=30, shuffle=False)
    (tmp_path / "read").mkdir()
    with pytest.raises(TasksFailed, match=r"epoch 0, batch 5, rows 150, 151, 152,"):
        tenfold.train(fit, {"seed": 3, "folder": str(tmp_path / "read")}, progress=False, retries=0, **how)
