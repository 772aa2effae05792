"""Learners of PyTorch make what a plain loop makes, in however many shares a batch is divided."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dividing
import numpy
import pytest

import tenfold
from tenfold.errors import BadCall
from tenfold.training.origin import origin

ROWS = 66 + 32  # 4 batches of 16 to train, and one of 2, of which a worker may have nothing
NOISE = numpy.random.default_rng(0)
X = NOISE.normal(size=(ROWS, 6)).astype("float32")
CLASSES = numpy.digitize(X[:, 0] + X[:, 1], (-0.7, 0.7))
IGNORED = numpy.where(numpy.arange(ROWS) % 9 == 1, -100, CLASSES)
WEIGHT = NOISE.uniform(0.2, 3.0, ROWS)


@pytest.fixture(autouse=True)
def _settled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """One thread: models this small are slower with more, above all where other tests have the cores."""
    import torch

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))  # or its first optimizer sets it, for good
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def own_sum(outputs: Any, targets: Any) -> Any:
    import torch

    return torch.nn.functional.cross_entropy(outputs, targets, reduction="none").sum()


def own_mean(outputs: Any, targets: Any) -> Any:
    return own_sum(outputs, targets) / len(targets)


def root(outputs: Any, targets: Any) -> Any:
    return own_mean(outputs, targets).sqrt()


def build(optimizer: str = "sgd", between: str | None = None, own: Any = None, **loss: Any) -> Any:
    import torch

    layers: list[Any] = [torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3)]
    if between is not None:
        layers.insert(1, torch.nn.Dropout(0.4) if between == "dropout" else torch.nn.BatchNorm1d(5))
    module = torch.nn.Sequential(*layers)
    summed = own is own_sum or loss.get("reduction") == "sum"
    sgd = torch.optim.SGD(module.parameters(), 0.05 / (16 if summed else 1), momentum=0.9)
    made = sgd if optimizer == "sgd" else torch.optim.AdamW(module.parameters(), 0.01)
    if "weight" in loss:
        loss["weight"] = torch.tensor(loss["weight"])
    if own is None and optimizer == "adam" and "ignore_index" in loss:
        own = functools.partial(torch.nn.functional.cross_entropy, **loss)
    return module, own or torch.nn.CrossEntropyLoss(**loss), made


def build_odd() -> Any:
    """Weights that are complex, that nobody uses, and of the loss; buffers that never change."""
    import torch

    class Odd(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.filter = torch.nn.Parameter(torch.randn(4, dtype=torch.cfloat))
            self.last, self.unused = torch.nn.Linear(6, 3), torch.nn.Linear(6, 3)
            self.register_buffer("began", torch.tensor([1.7e9 + 0.123], dtype=torch.float64))
            self.register_buffer("places", torch.rand(50))
            self.register_buffer("mask", torch.tensor([0.0, -torch.inf]))

        def forward(self, x: Any) -> Any:
            return self.last(torch.fft.irfft(torch.fft.rfft(x) * self.filter, n=6)) + self.places[0]

    class Learned(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.zeros(1))

        def forward(self, outputs: Any, targets: Any) -> Any:
            return own_mean(outputs, targets) * torch.exp(-self.scale) + self.scale.sum()

    module, loss = Odd(), Learned()
    return module, loss, torch.optim.AdamW([*module.parameters(), *loss.parameters()], 0.01, weight_decay=0.1)


def fit_of(data: Any = (X, CLASSES), function: Any = build, **settings: Any) -> Any:
    given = {"epochs": 10, "batch_size": 16, "validation": 32 / ROWS, "metrics": ["accuracy"], **settings}
    return tenfold.Fit(function, data, **given)


@pytest.mark.parametrize(
    ("params", "data"),
    [
        ({"optimizer": "sgd"}, (X, CLASSES, WEIGHT)),
        ({"optimizer": "adam"}, (X, CLASSES)),
        ({"optimizer": "sgd", "reduction": "sum"}, (X, CLASSES)),
        ({"optimizer": "sgd", "own": own_sum}, (X, CLASSES)),
        ({"optimizer": "adam", "own": own_mean}, (X, CLASSES)),
        ({"optimizer": "sgd", "label_smoothing": 0.1}, (X, IGNORED)),
        ({"optimizer": "adam", "weight": (0.2, 1.0, 3.0), "ignore_index": 2}, (X, CLASSES)),
        ({"optimizer": "sgd", "weight": (0.2, 1.0, 3.0)}, (X, numpy.eye(3, dtype="float32")[CLASSES])),
    ],
    ids=["weighted", "adam", "summed", "own sum", "own mean", "ignored", "class weights", "probabilities"],
)
def test_shares_of_a_batch_make_what_a_plain_loop_makes(params: dict[str, Any], data: Any) -> None:
    fit = fit_of(data)
    expected = fit({"seed": dividing.SEED, **params})
    for count in (1, 2, 4):
        copies = dividing.learners(fit, count, **params)
        history = dividing.train(fit, copies, count)
        assert dividing.furthest(copies[-1].weights(), expected.weights) < 1e-5
        assert dividing.apart(history, expected.history) < 1e-4
        assert all(dividing.same(copies[0], copy) for copy in copies)
    alone = dividing.learners(fit, 1, **params)[0]
    dividing.in_one_go(fit, alone)
    assert dividing.furthest(alone.weights(), expected.weights) < 1e-6
    assert dividing.advanced(fit, alone, 3) < 1e-6


def test_averages_and_counters_are_the_same_in_all_copies() -> None:
    fit = fit_of((X[:-1], CLASSES[:-1]), batch_size=13, epochs=2, validation=32 / (ROWS - 1))
    copies = dividing.learners(fit, 2, between="norm")
    dividing.train(fit, copies, 2)
    assert dividing.same(*copies)
    assert copies[0].weights()["1.num_batches_tracked"] == 10
    assert dividing.goes_on(fit, copies[0], dividing.learners(fit, 1, between="norm")[0])


def test_vectors_may_be_tensors_where_the_module_is() -> None:
    fit, found = fit_of((X[:-1], CLASSES[:-1]), batch_size=13, epochs=2, validation=32 / (ROWS - 1)), []
    for zeros in (dividing.array, dividing.tensor):
        copies = dividing.learners(fit, 2, between="norm")
        found.append((dividing.train(fit, copies, 2, zeros), copies))
        assert dividing.same(*copies)
    assert found[0][0] == found[1][0]
    assert dividing.same(found[0][1][0], found[1][1][0])
    vector = dividing.tensor(copies[0].size)
    copies[0].gradient(*dividing.batches(fit, 0)[0], 1.0, vector)
    assert copies[0].optimizer.param_groups[0]["params"][0].grad.data_ptr() == vector.data_ptr(), "nothing is copied"


def test_who_has_no_rows_counts_with_the_others() -> None:
    fit = fit_of()
    copies = dividing.learners(fit, 2, between="norm")
    block, rows = dividing.batches(fit, 0)[0]
    vectors = numpy.zeros((2, copies[0].size), numpy.float32)
    copies[0].gradient(block, rows, 1.0, vectors[0])
    copies[1].gradient(block, rows[:0], 0.0, vectors[1])
    for copy in copies:
        copy.apply(vectors.sum(0))
    assert dividing.same(*copies)
    assert copies[1].weights()["1.num_batches_tracked"] == 1


def test_copies_begin_equal_and_draw_numbers_of_their_own() -> None:
    fit = fit_of()
    first, second, third = dividing.learners(fit, 3, between="dropout")
    assert dividing.same(first, second)
    assert origin(first) == origin(second) == origin(third)
    assert origin(first) != origin(dividing.learners(fit, 1, between="norm")[0])
    third.put(first.state())
    block, rows = dividing.batches(fit, 0)[0]
    vectors = numpy.zeros((3, first.size), numpy.float32)
    for learner, vector in zip((first, second, third), vectors, strict=True):
        learner.gradient(block, rows, 1.0, vector)
    assert len({vector.tobytes() for vector in vectors}) == 3
    assert dividing.goes_on(fit, first, dividing.learners(fit, 1, between="dropout")[0])


def test_a_loss_that_does_not_add_up_over_shares_is_refused_only_where_there_are_some() -> None:
    fit = fit_of()
    rows = dividing.batches(fit, 0)[0][1]
    dividing.alone(fit, own=root).steps(fit.training, [rows])
    with pytest.raises(BadCall, match=r"the loss root is [\d.]+ of 16 rows, [\d.]+ of the first 5 of them and"):
        dividing.learners(fit, 1, own=root)


def test_targets_that_are_broadcast_are_refused_where_there_are_shares() -> None:
    import torch

    with pytest.raises(BadCall, match=r"outputs of the shape \(2, 3\) and targets of \(2, 1, 1\) for 2 rows"):
        dividing.learners(fit_of((X, X[:, :1, None]), metrics=[]), 1, own=torch.nn.MSELoss())


def test_one_that_divides_by_some_targets_is_refused_where_they_cannot_be_counted() -> None:
    """As in a pipeline."""
    import torch

    from tenfold.fuse.torch_step import Blocks
    from tenfold.training.torch_losses import sums_rows

    def read(loss: Any, data: Any) -> None:
        module = torch.nn.Linear(6, 3)
        blocks = Blocks(module)
        sums_rows(module, loss, data, blocks)
        blocks.tensors(data)

    for loss, y, words in (
        (torch.nn.CrossEntropyLoss(torch.ones(3)), CLASSES, r"divides by those of its rows.*class_weight"),
        (torch.nn.CrossEntropyLoss(), IGNORED, r"CrossEntropyLoss leaves out targets of -100 \(ignore_index\)"),
        (torch.nn.CrossEntropyLoss(ignore_index=2), CLASSES, r"CrossEntropyLoss leaves out targets of 2"),
    ):
        with pytest.raises(BadCall, match=words):
            read(loss, fit_of((X, y)).training)


def test_a_gradient_is_clipped_when_it_is_that_of_the_whole_batch() -> None:
    fit = fit_of((X, IGNORED))
    (one,) = dividing.learners(fit, 1)
    block, rows = dividing.batches(fit, 0)[0]
    total = dividing.array(one.size)
    for part in (rows[:5], rows[5:]):
        vector = dividing.array(one.size)
        one.gradient(block, part, len(part) / len(rows), vector)
        total += vector
    before = total.copy()
    found = one.whole(total)
    counts = int((IGNORED[rows] != -100).sum())
    assert numpy.array_equal(total, before), "others read it"
    assert numpy.allclose(found[: one.gradient_size] * counts, before[: one.gradient_size])
    assert one.apply(found) == pytest.approx(before[-one.sums_size] / counts)


def test_to_ask_a_loss_changes_nothing() -> None:
    import torch

    from tenfold.fuse.torch_step import Randomness

    def draws(outputs: Any, targets: Any) -> Any:
        torch.rand(3)
        return own_mean(outputs, targets)

    asked, other = (dividing.alone(fit_of(), own=draws, between="norm") for _ in range(2))
    before = Randomness()
    asked.check_shares()
    assert Randomness().drawn(before) is None
    assert dividing.same(asked, other)


def test_odd_weights_and_buffers_are_those_of_a_plain_loop() -> None:
    fit = fit_of(function=build_odd)
    expected = fit({"seed": dividing.SEED})
    for count, zeros in ((2, dividing.array), (3, dividing.array), (2, dividing.tensor)):
        copies = dividing.learners(fit, 2)
        history = dividing.train(fit, copies, count, zeros)
        weights = copies[0].weights()
        assert all(numpy.array_equal(weights[name], expected.weights[name]) for name in ("began", "places", "mask"))
        del weights["mask"]  # the difference of what is infinite is not a number
        assert all(numpy.abs(weights[name] - expected.weights[name]).max() < 1e-5 for name in weights)
        assert dividing.apart(history, expected.history) < 1e-4
        assert dividing.same(*copies)
    assert dividing.goes_on(fit, copies[0], dividing.learners(fit, 1)[0])


def test_an_unused_weight_is_trained_once_it_is_used() -> None:
    """No worker may keep it as it is while others do not, whoever saw that nobody used it."""
    fit = fit_of(function=build_odd)
    one = dividing.learners(fit, 1)[0]
    block, rows = dividing.batches(fit, 0)[0]
    dividing.step([one], block, rows, 2)
    before = one.weights()["unused.bias"]
    vector = dividing.array(one.size)
    one.gradient(block, rows, 1.0, vector)
    dividing.step([one], block, rows, 2)
    assert numpy.array_equal(one.weights()["unused.bias"], before)
    vector[: one.gradient_size][vector[: one.gradient_size] == 0] = 1.0
    one.apply(vector)
    assert not numpy.array_equal(one.weights()["unused.bias"], before)


def test_what_build_may_not_return() -> None:
    import torch

    class Rate:
        def set_model(self, model: Any) -> None: ...

    def lazy() -> Any:
        module = torch.nn.LazyLinear(3)
        return module, torch.nn.CrossEntropyLoss(), torch.optim.SGD(module.parameters(), 0.1)

    def with_closure() -> Any:
        module, loss, _ = build()
        return module, loss, torch.optim.LBFGS(module.parameters())

    def foreign() -> Any:
        module, loss, _ = build()
        return module, loss, torch.optim.SGD([*module.parameters(), torch.nn.Parameter(torch.zeros(1))], 0.1)

    def sparse() -> Any:
        module = torch.nn.Sequential(torch.nn.Embedding(3, 3, sparse=True), torch.nn.Flatten())
        return module, torch.nn.CrossEntropyLoss(), torch.optim.SparseAdam(module.parameters())

    for function, settings, words in (
        (lazy, {}, "LazyLinear with lazy layers.*call it once on a few rows in build"),
        (with_closure, {}, "optimizer is LBFGS, whose step wants a closure"),
        (foreign, {}, "neither the module's nor the loss's"),
        (build, {"callbacks": [Rate()]}, "callbacks: Rate is for Keras models"),
    ):
        with pytest.raises(BadCall, match=words):
            dividing.alone(fit_of(function=function, **settings))
    with pytest.raises(BadCall, match="SparseAdam, which takes sparse gradients only"):
        dividing.learners(fit_of(function=sparse), 1)
