"""Training in legs, for any framework: a `Fit` that pauses and goes on, compared with one that does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

import tenfold
from tenfold.fuse.result import FitResult
from tenfold.work.leg import Leg

ROWS = 44  # three batches of 12 to train on, and 8 to validate
EPOCHS = 5
PAUSE = 2
RTOL = 1e-6

RNG = numpy.random.default_rng(0)
X = RNG.normal(size=(ROWS, 6)).astype("float32")
Y = RNG.integers(0, 3, ROWS)


def fit_of(build: Any, how: str, **more: Any) -> Any:
    """As a study has it: the same program however models are grouped."""
    settings: dict[str, Any] = {"epochs": EPOCHS, "batch_size": 12, "validation": 0.18, "how": how} | more
    found = tenfold.Fit(build, (X, Y), **settings)
    found.steady = True
    return found


def leg(trial: int, params: dict[str, Any], stop: int | None = None, before: FitResult | None = None) -> Leg:
    start = before.epochs if before is not None else 0
    saved = before.saved if before is not None else None
    return Leg(trial, params, "val_loss", start, stop, last=start - 1 if start else None, numbered=True, state=saved)


def run(fit: Any, legs: Sequence[Leg]) -> list[FitResult]:
    return list(tenfold.map(fit, legs, engine="serial", progress=False))


def in_legs(fit: Any, items: Sequence[dict[str, Any]], stops: Sequence[int] = (PAUSE,)) -> list[FitResult]:
    """Paused at each of these epochs, then to the end; what was finished early stays as it was."""
    found: list[FitResult | None] = [None] * len(items)
    for stop in (*stops, None):
        left = [n for n, one in enumerate(found) if one is None or one.ended == "paused"]
        for n, one in zip(left, run(fit, [leg(n, items[n], stop, found[n]) for n in left]), strict=True):
            assert one.ended == "finished" or one.epochs == stop
            assert (one.saved is None) == (one.ended == "finished")
            found[n] = one
    return [one for one in found if one is not None]


def check_same(one: FitResult, other: FitResult, rtol: float = RTOL) -> None:
    assert list(one.history) == list(other.history)
    for name, values in other.history.items():
        numpy.testing.assert_allclose(one.history[name], values, rtol=rtol, err_msg=name)
    assert one.best_epoch == other.best_epoch
    pairs = zip(arrays(one), arrays(other), strict=True)
    for mine, its in pairs:
        numpy.testing.assert_allclose(mine, its, rtol=rtol, atol=rtol)


def arrays(one: FitResult) -> list[numpy.ndarray]:
    return list(one.weights.values() if isinstance(one.weights, dict) else one.weights)


def check_legs(fit: Any, items: Sequence[dict[str, Any]], stops: Sequence[int] = (PAUSE,)) -> list[FitResult]:
    """In legs and in one go: returns what was trained in one go."""
    whole = run(fit, [leg(n, params) for n, params in enumerate(items)])
    for one, other in zip(in_legs(fit, items, stops), whole, strict=True):
        assert other.ended == "finished"
        check_same(one, other)
    return whole


def check_another_rate(fit: Any, by_hand: Any, rates: tuple[float, float], seed: int) -> None:
    """Two that go on from one state, each with its own rate; one of them as somebody would do it by hand."""
    first, second = rates
    (before,) = run(fit, [leg(0, {"lr": first, "seed": seed}, PAUSE)])
    told = [list(values) for values in before.saved.history.values()]
    legs = [leg(n, {"lr": rate, "seed": seed}, None, before) for n, rate in enumerate((second, first))]
    together = run(fit, legs)
    assert [list(values) for values in before.saved.history.values()] == told, "the state is as it was"
    for one, own in zip(together, legs, strict=True):
        (alone,) = run(fit, [own])
        check_same(one, alone)
    (whole,) = run(fit, [leg(0, {"lr": first, "seed": seed})])
    check_same(together[1], whole)
    assert together[0].history["loss"][PAUSE:] != whole.history["loss"][PAUSE:]
    (changed,) = run(by_hand, [leg(0, {"lr": first, "later": second, "seed": seed})])
    check_same(together[0], changed, rtol=1e-4)
