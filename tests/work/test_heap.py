"""Blocks that a worker takes and frees again and again are the same memory: their pages are not made anew."""

from __future__ import annotations

import resource

import numpy
import pytest

import tenfold

TIMES, TOGETHER, SIZE = 50, 8, 1 << 20
PAGES = TIMES * TOGETHER * SIZE // resource.getpagesize()


def step() -> None:
    """Several arrays at the same time, as the gradients of a model are, and then none."""
    _held = [numpy.ones(SIZE, numpy.uint8) for _ in range(TOGETHER)]


def faults(_: int) -> int:
    step()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(TIMES):
        step()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def test_a_worker_keeps_a_little_of_what_it_frees() -> None:
    assert max(tenfold.map(faults, range(2), workers=2, progress=False)) < PAGES / 10


def test_settings_of_the_user_are_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "0")
    assert min(tenfold.map(faults, range(2), workers=2, progress=False)) > PAGES / 2
