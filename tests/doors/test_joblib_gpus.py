"""GPUs of calls of joblib, on GPUs that are pretended."""

from __future__ import annotations

import itertools
import os
import time

import pytest
from joblib import Parallel, delayed, effective_n_jobs, parallel_config

import tenfold
import tenfold.joblib
from tenfold import errors
from tenfold.nursery import leases


@pytest.fixture(autouse=True)
def _two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENFOLD_GPUS", "2")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def hold(seconds: float = 0.05) -> tuple[tuple[str, ...], str | None, float, float]:
    began = time.monotonic()
    time.sleep(seconds)  # the work on the device
    return tenfold.here().gpus, os.environ.get("CUDA_VISIBLE_DEVICES"), began, time.monotonic()


@pytest.mark.parametrize(("gpus", "at_once"), [(0.5, 4), (1, 2), (2, 2)])
def test_no_gpu_is_held_beyond_its_whole(gpus: float, at_once: int) -> None:
    with parallel_config(backend="tenfold", n_jobs=8, gpus=gpus):
        assert effective_n_jobs(8) == at_once
        found = Parallel()(delayed(hold)() for _ in range(8))
    for held, visible, began, _ in found:
        assert visible == ",".join(held)
        assert len(held) == max(1, int(gpus))
        for gpu in held:
            now = sum(min(1, gpus) for other, _, start, end in found if gpu in other and start <= began < end)
            assert now <= 1
    assert {gpu for held, *_ in found for gpu in held} == {"0", "1"}


def test_nobody_holds_a_gpu_when_the_call_is_over() -> None:
    Parallel(n_jobs=2, backend="tenfold", gpus=1)(delayed(hold)(0) for _ in range(4))
    assert tenfold.map(lambda _: tenfold.here().gpus, range(2), gpus=2, progress=False)[:] == [("0", "1")] * 2
    assert not any(leases._held.values())


def test_a_single_seat_is_not_in_the_callers_own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENFOLD_GPUS", "1")
    found = Parallel(n_jobs=-1, backend="tenfold", gpus=1)(delayed(lambda: (os.getpid(), hold()))() for _ in range(3))
    assert all(pid != os.getpid() and held[0] == ("0",) for pid, held in found)
    spans = sorted(held[2:] for _, held in found)
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(spans))


def test_without_a_number_gpus_are_as_the_caller_sees_them(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [delayed(hold)(0), delayed(hold)(0)]
    assert {visible for _, visible, *_ in Parallel(n_jobs=2, backend="tenfold")(calls)} == {None}
    assert {visible for _, visible, *_ in Parallel(n_jobs=2, backend="tenfold", gpus=0)(calls)} == {"-1"}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert {visible for _, visible, *_ in Parallel(n_jobs=2, backend="tenfold")(calls)} == {"1"}


def test_more_than_there_are_is_refused() -> None:
    with pytest.raises(errors.DoesNotFit, match="gpus=3, and 2 are visible"):
        Parallel(n_jobs=2, backend="tenfold", gpus=3)(delayed(hold)() for _ in range(2))
