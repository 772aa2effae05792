"""Several learners in one process: what workers do with them, without the workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tenfold.fuse.building import member
from tenfold.fuse.reading import Reading
from tenfold.training import opening

SEED = 3


def learners(fit: Any, count: int, **params: Any) -> list[Any]:
    """Copies of one model, as so many workers would build them."""
    found = [alone(fit, index, **params) for index in range(count)]
    for one in found:
        one.check_shares()
    return found


def alone(fit: Any, index: int = 0, **params: Any) -> Any:
    """A copy that need not divide its batches."""
    return opening.learner(fit, _member(fit, index, params))


def _member(fit: Any, index: int, params: dict[str, Any]) -> Any:
    return member({"seed": SEED, **params}, index, SEED, len(fit.data), lambda *_: None)


def batches(fit: Any, epoch: int) -> list[tuple[Any, numpy.ndarray]]:
    one = _member(fit, 0, {})
    size = fit.batch_size
    return [
        (block, orders[0][start : start + size])
        for block, orders in Reading(fit, [one], alone=True).training([one], epoch)
        for start in range(0, orders.shape[1], size)
    ]


def array(size: int) -> Any:
    return numpy.zeros(size, numpy.float32)


def tensor(size: int) -> Any:
    import torch

    return torch.zeros(size)


def step(copies: list[Any], block: Any, rows: numpy.ndarray, shares: int, zeros: Callable[[int], Any] = array) -> float:
    """One step on a batch in so many shares; each is computed by one of the copies."""
    total, vector = zeros(copies[0].size), zeros(copies[0].size)
    vector[:] = numpy.nan
    for share in range(shares):
        part = rows[len(rows) * share // shares : len(rows) * (share + 1) // shares]
        copies[share % len(copies)].gradient(block, part, len(part) / len(rows), vector)
        total += vector
    losses = {copy.apply(copy.whole(total * 1)) for copy in copies}
    assert len(losses) == 1
    return losses.pop()


def train(fit: Any, copies: list[Any], shares: int, zeros: Callable[[int], Any] = array) -> dict[str, list[float]]:
    """All epochs, with vectors of this kind; the history."""
    one = _member(fit, 0, {})
    reading = Reading(fit, [one], alone=True)
    history: dict[str, list[float]] = {}
    for epoch in range(fit.epochs):
        for copy in copies:
            copy.begin()
        for block, rows in batches(fit, epoch):
            step(copies, block, rows, shares, zeros)
        logs = copies[-1].logs()
        if reading.scores:
            total = zeros(copies[0].size)
            for block, _ in reading.validation([one]):
                for rows in numpy.array_split(numpy.arange(len(block)), 4):
                    copies[0].score(block, rows, total)
            logs |= {f"val_{name}": value for name, value in copies[0].logs(total).items()}
        for name, value in logs.items():
            history.setdefault(name, []).append(value)
    return history


def in_one_go(fit: Any, learner: Any) -> dict[str, list[float]]:
    """All epochs by `steps`; the history of training."""
    history: dict[str, list[float]] = {}
    for epoch in range(fit.epochs):
        learner.begin()
        found = batches(fit, epoch)
        losses = learner.steps(found[0][0], [rows for _, rows in found])
        assert len(losses) == len(found)
        for name, value in learner.logs().items():
            history.setdefault(name, []).append(value)
    return history


def advanced(fit: Any, learner: Any, steps: int) -> float:
    """How far `advance` is from `steps`, weights and sums, on a second copy of what the learner is now."""
    run = numpy.empty(learner.weights_size, numpy.float32)
    after = numpy.empty(learner.weights_size + learner.sums_size, numpy.float32)
    state = learner.state()
    learner.write_weights(run)
    sums = numpy.zeros(learner.sums_size)
    for block, rows in batches(fit, 0)[:steps]:
        learner.advance(block, rows, run, after)
        run, after = after[: len(run)].copy(), after
        sums += after[len(run) :]
    learner.put(state)
    learner.begin()
    found = batches(fit, 0)[:steps]
    learner.steps(found[0][0], [rows for _, rows in found])
    expected = numpy.empty_like(run)
    learner.write_weights(expected)
    logs, others = learner.logs(), learner.logs(numpy.concatenate([run, sums]).astype(numpy.float32))
    learner.read_weights(run)
    learner.write_weights(after)
    assert numpy.array_equal(after[: len(run)], run)
    return max(float(numpy.abs(run - expected).max()), *(abs(logs[name] - others[name]) for name in logs))


def goes_on(fit: Any, learner: Any, other: Any) -> bool:
    """Whether a learner that takes another's state goes on as that one does, bit by bit."""
    other.put(learner.state())
    for block, rows in batches(fit, 1)[:3]:
        for one in (learner, other):
            step([one], block, rows, 2)
    return same(learner, other) and learner.logs() == other.logs()


def same(one: Any, other: Any) -> bool:
    """Whether two learners have the same weights, bit by bit."""
    pairs = zip(values(one.weights()), values(other.weights()), strict=True)
    return all(numpy.array_equal(a, b) for a, b in pairs)


def furthest(one: Any, other: Any) -> float:
    """The largest difference of any weight."""
    pairs = zip(values(one), values(other), strict=True)
    return max(float(numpy.abs(a - b).max()) for a, b in pairs)


def values(weights: Any) -> list[numpy.ndarray]:
    return list(weights.values()) if isinstance(weights, dict) else list(weights)


def apart(one: dict[str, list[float]], other: dict[str, list[float]]) -> float:
    """The largest difference of any number in two histories; infinite where they have other names."""
    if one.keys() != other.keys():
        return float("inf")
    return max(abs(a - b) for name in one for a, b in zip(one[name], other[name], strict=True))
