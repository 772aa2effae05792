"""PyTorch models in groups give what each gives by itself: fused, looped, and by a loop written by hand."""

from __future__ import annotations

import contextlib
import warnings
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
import torch_cases as cases
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrize

from tenfold.errors import BadCall
from tenfold.fuse import order, torch_plain, torch_stack
from tenfold.fuse.building import construct
from tenfold.fuse.portrait import difference
from tenfold.fuse.reading import Reading
from tenfold.fuse.stopping import EarlyStopping
from tenfold.fuse.torch_stack import Fused
from tenfold.work.run import Declined

pytestmark = pytest.mark.usefixtures("one_thread")
RATES = [{"lr": 0.002}, {"lr": 0.01}, {"lr": 0.03}]


@pytest.mark.parametrize("kind", ["dense", "conv", "batch norm", "layer norm", "embedding", "tied", "two inputs"])
def test_layers(kind: str, tmp_path: Path) -> None:
    params = [{"kind": kind, "seed": 5 + place, **rate} for place, rate in enumerate(RATES)]
    found = cases.check_parity({}, params, tmp_path, kind)
    assert list(found[0].history) == ["loss", "accuracy", "val_loss", "val_accuracy"]
    assert found[0].history["loss"] != found[1].history["loss"]


@pytest.mark.parametrize("name", cases.OPTIMIZERS)
def test_optimizers(name: str, tmp_path: Path) -> None:
    params = [{"optimizer": name.split()[0], "seed": 3, **settings} for settings in cases.OPTIMIZERS[name]]
    found = cases.check_parity({}, params, tmp_path)
    assert all(f"{len(params)} models, {len(params)} at a time" in one.how for one in found)


def test_sample_weights(tmp_path: Path) -> None:
    weight = numpy.random.default_rng(4).uniform(0, 2, cases.ROWS)
    found = cases.check_parity({"weight": weight}, RATES, tmp_path)
    assert found[0].history["loss"] != cases.check_parity({}, RATES, tmp_path)[0].history["loss"]


def test_validation_data_of_its_own_and_metrics_of_ones_own(tmp_path: Path) -> None:
    def largest(outputs: Any, targets: Any) -> Any:
        return outputs.max()

    validation = (cases.rows(6, seed=9), cases.classes(9))
    found = cases.check_parity({"validation": validation, "metrics": [largest, "accuracy"]}, RATES, tmp_path)
    assert list(found[0].history) == ["loss", "largest", "accuracy", "val_loss", "val_largest", "val_accuracy"]


def test_early_stopping_is_each_models_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stacked: list[int] = []
    train = Fused.train

    def counted(self: Fused, *arguments: Any) -> None:
        train(self, *arguments)
        stacked.extend({len(tensor) for tensor in self.tensors.values()})

    monkeypatch.setattr(Fused, "train", counted)
    stopping = EarlyStopping(monitor="val_loss", patience=1)
    params = [{"lr": lr, "seed": 1} for lr in (0.001, 3.0, 0.02, 1.0)]
    found = cases.check_parity({"callbacks": [stopping], "epochs": 6}, params, tmp_path)
    left = [sum(one.epochs > epoch for one in found) for epoch in range(6)]
    assert len(set(left)) > 1
    assert stacked == left, "those that have stopped are not trained"


def test_rows_of_ones_own(tmp_path: Path) -> None:
    generator = numpy.random.default_rng(7)
    folds = [generator.permutation(cases.ROWS) for _ in range(3)]
    params = [{"lr": 0.01, "rows": fold[:30], "validation_rows": fold[30:]} for fold in folds]
    cases.check_parity({"validation": None}, params, tmp_path)


def test_a_frozen_layer_stays(tmp_path: Path) -> None:
    def build(lr: float) -> tuple[Any, Any, Any]:
        module = cases.module("dense")
        module[0].weight.requires_grad_(False)
        return module, nn.CrossEntropyLoss(), torch.optim.SGD(module[0].parameters(), lr=lr, weight_decay=0.1)

    found = cases.check_parity({"build": build}, RATES, tmp_path)
    before = construct(build, found[0].params)[0].state_dict()
    changed = {name for name, array in found[0].weights.items() if not numpy.array_equal(array, before[name].numpy())}
    assert changed == {"0.bias"}


# -- what is looped ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", cases.REASONS)
def test_models_that_cannot_be_fused_are_looped(kind: str, tmp_path: Path) -> None:
    params = [{"kind": kind, **rate} for rate in RATES]
    cases.check_looped(cases.REASONS[kind], cases.fit_of(kind), params, tmp_path)


def test_a_model_that_writes_to_its_input_leaves_the_data_alone(tmp_path: Path) -> None:
    fit = cases.fit_of("in place", batch_size=12)
    before = fit.data.x.copy()
    cases.together(fit, [{"kind": "in place", **rate} for rate in RATES], tmp_path)
    cases.alone(fit, [{"kind": "in place"}])
    numpy.testing.assert_array_equal(fit.data.x, before)


def test_dropout_is_the_same_whoever_the_neighbours_are(tmp_path: Path) -> None:
    params = [{"kind": "dropout", "seed": seed} for seed in (1, 2, 3)]
    fit = cases.fit_of("dropout")
    every, one = cases.together(fit, params, tmp_path), cases.together(fit, params[2:], tmp_path)
    cases.check_same(every[2], one[0].history, one[0].weights, rtol=0)


@pytest.mark.parametrize("name", cases.UNUSUAL)
def test_what_is_unusual_is_looped(name: str, tmp_path: Path) -> None:
    reason, change = cases.UNUSUAL[name]
    cases.check_looped(reason, cases.fit_of("dense", build=cases.built_with(change)), RATES, tmp_path)


def test_a_gradient_of_rounding_is_looped_unless_one_insists(tmp_path: Path) -> None:
    def build(lr: float, optimizer: str) -> tuple[Any, Any, Any]:
        module = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, cases.CLASSES))
        return module, nn.CrossEntropyLoss(), getattr(torch.optim, optimizer)(module.parameters(), lr=lr)

    adam, sgd = ([{"optimizer": name, **rate} for rate in RATES] for name in ("Adam", "SGD"))
    fit = cases.fit_of("dense", build=build, how="auto", epochs=1)
    cases.check_looped(
        "the gradient of 0.bias is zero but for rounding, and Adam makes steps of that", fit, adam, tmp_path
    )
    assert cases.together(fit, sgd, tmp_path)[0].how.startswith("fused: ")
    assert cases.together(cases.fit_of("dense", build=build), adam, tmp_path)[0].how.startswith("fused: ")


def test_an_error_in_the_middle_is_declined(tmp_path: Path) -> None:
    class Moody(nn.Linear):
        def forward(self, x: Any) -> Any:
            if len(x) == 8:  # the last batch
                raise RuntimeError("not\nso few")
            return super().forward(x)

    def build(lr: float) -> tuple[Any, Any, Any]:
        module = Moody(6, cases.CLASSES)
        return module, nn.CrossEntropyLoss(), torch.optim.SGD(module.parameters(), lr=lr)

    for how in ("fused", "looped"):
        with pytest.raises(Declined, match=r"^a step cannot be taken: RuntimeError: not$"):
            cases.together(cases.fit_of("dense", build=build, how=how, validation=None), RATES, tmp_path)


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16])
def test_models_of_other_types_get_data_of_theirs(kind: Any, tmp_path: Path) -> None:
    def build(lr: float) -> tuple[Any, Any, Any]:
        module = cases.module("dense").to(kind)
        return module, nn.CrossEntropyLoss(), torch.optim.SGD(module.parameters(), lr=lr)

    found = cases.together(cases.fit_of("dense", build=build), RATES, tmp_path)
    assert ("fused" if kind == torch.float64 else "looped: the parameter 0.weight is of torch.bfloat16") in found[0].how
    for one, (history, weights, _) in zip(found, cases.alone(cases.fit_of("dense", build=build), RATES), strict=True):
        cases.check_same(one, history, weights, rtol=1e-9)


def test_one_model_is_not_fused(tmp_path: Path) -> None:
    cases.check_looped("no other model is the same program", cases.fit_of("dense"), RATES[:1], tmp_path)


def test_a_step_that_differs_is_found(tmp_path: Path) -> None:
    """The safety net: something that no comparison of attributes shows."""

    def build(lr: float) -> tuple[Any, Any, Any]:
        module = nn.Sequential(cases.Sly(6, cases.CLASSES, bias=False))
        return module, nn.CrossEntropyLoss(), torch.optim.SGD(module.parameters(), lr=lr)

    cases.check_looped(
        "a fused step gives another gradient of 0.weight", cases.fit_of("dense", build=build), RATES, tmp_path
    )


def test_a_second_model_that_differs_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by vmap's own rule for an embedding, which leaves out the gradient of a padding in the first model only."""

    def build(lr: float) -> tuple[Any, Any, Any]:
        module = nn.Sequential(nn.Embedding(9, 3, padding_idx=0), nn.Flatten(), nn.Linear(12, cases.CLASSES))
        return module, nn.CrossEntropyLoss(), torch.optim.SGD(module.parameters(), lr=lr)

    found = cases.check_parity({"build": build}, RATES, tmp_path, "embedding")
    assert all(one.how.startswith("fused: ") for one in found)
    monkeypatch.setattr(torch_stack, "Forms", contextlib.nullcontext)
    fit = cases.fit_of("embedding", build=build)
    cases.check_looped("a fused step gives another gradient of 0.weight", fit, RATES, tmp_path / "without")


# -- which models are one program -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"), cases.DIFFERENCES, ids=lambda value: None if isinstance(value, dict) else value
)
def test_models_that_differ_are_told_apart(changes: dict[str, Any], message: str) -> None:
    workshop, _, models = cases.taken(cases.fit_of("dense", build=cases.variant), [{}, {}, changes, changes])
    assert workshop.same(models) == [[0, 1], [2, 3]]
    found = difference(*(workshop.portrait(models[place]) for place in (0, 2)))
    assert workshop.portrait(models[0]) == workshop.portrait(models[1])
    assert message in found


def test_values_are_compared_by_what_they_are() -> None:
    workshop, _, models = cases.taken(
        cases.fit_of("dense", build=cases.variant),
        [
            {"note": note}
            for note in (1, True, 1.0, float("nan"), float("nan"), torch.ones(2), torch.ones(2), torch.relu)
        ],
    )
    assert workshop.same(models) == [[0], [1], [2], [3, 4], [5, 6], [7]]


def test_functions_are_compared_by_what_they_do() -> None:
    def times(factor: float) -> Any:
        return {"note": lambda x: factor * x, "loss": lambda outputs, y: functional.cross_entropy(outputs, y)}

    workshop, _, models = cases.taken(cases.fit_of("dense", build=cases.variant), [times(2), times(2), times(3)])
    assert workshop.same(models) == [[0, 1], [2]]


def test_a_class_that_build_defines_is_compared_by_what_it_does(tmp_path: Path) -> None:
    def build(lr: float, factor: float = 1.0) -> tuple[Any, Any, Any]:
        class Bounded(nn.Module):
            def forward(self, weight: Any) -> Any:
                return torch.tanh(weight)

        class Block(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = nn.Linear(6, 8)
                parametrize.register_parametrization(self.inner, "weight", Bounded())

            def forward(self, x: Any) -> Any:
                return self.scaled(torch.tanh(self.inner(x)))

            @staticmethod
            def scaled(x: Any) -> Any:
                return factor * x

        class Net(nn.Sequential):
            def __init__(self) -> None:
                super().__init__(Block(), nn.Linear(8, cases.CLASSES))

            def later(self) -> Any:
                return bound_later

        module = Net()
        return module, nn.CrossEntropyLoss(), torch.optim.Adam(module.parameters(), lr)
        bound_later = None  # never: the class closes over an empty cell

    found = cases.check_parity({"build": build}, [{**rate, "seed": n} for n, rate in enumerate(RATES)], tmp_path)
    assert all("3 models, 3 at a time" in one.how for one in found)
    workshop, _, models = cases.taken(cases.fit_of("dense", build=build), [{"lr": 1.0, "factor": n} for n in (1, 2, 1)])
    assert workshop.same(models) == [[0, 2], [1]]
    assert "the class of the module differs: 'Net " in difference(*map(workshop.portrait, models[:2]))


def test_a_first_model_that_is_nan_from_the_start_is_no_reason(tmp_path: Path) -> None:
    def build(start: float) -> tuple[Any, Any, Any]:
        module, loss, optimizer = cases.build(optimizer="SGD")
        with torch.no_grad():
            module[2].bias.fill_(start)
        return module, loss, optimizer

    cases.check_parity({"build": build}, [{"start": start} for start in (float("nan"), 0.0, 1.0)], tmp_path)


def test_what_cannot_be_pickled_is_like_nothing_else() -> None:
    workshop, _, models = cases.taken(
        cases.fit_of("dense", build=cases.variant), [{"note": (n for n in ())} for _ in range(2)]
    )
    assert workshop.same(models) == [[0], [1]]


# -- neighbours, and going on -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dense", "batch norm", "conv"])
def test_a_nan_leaves_its_neighbours_untouched(kind: str, tmp_path: Path) -> None:
    def params(rate: float) -> list[dict[str, Any]]:
        return [{"kind": kind, "optimizer": "SGD", "lr": lr, "seed": seed} for seed, lr in enumerate((0.1, rate, 0.05))]

    well = cases.together(cases.fit_of(kind), params(0.1), tmp_path)
    ill = cases.together(cases.fit_of(kind), params(1e30), tmp_path)
    assert numpy.isnan(ill[1].history["loss"][-1])
    for place in (0, 2):
        cases.check_same(ill[place], well[place].history, well[place].weights, rtol=0)


@pytest.mark.parametrize(("kind", "optimizer"), [("batch norm", "NAdam"), ("dense", "AdamW"), ("dropout", "SGD")])
def test_a_stack_goes_on_from_a_snapshot(kind: str, optimizer: str) -> None:
    fit = cases.fit_of(kind, callbacks=[EarlyStopping()])
    params = [{"kind": kind, "optimizer": optimizer, **rate} for rate in RATES]

    def new(chunk: int | None) -> tuple[Any, list[Any], Reading, int]:
        workshop, own, models = cases.taken(fit, params)
        stack, size, _ = workshop.stack(models, 36, chunk)
        return stack, own, Reading(fit, own), size

    def run(stack: Any, own: list[Any], reading: Reading, epoch: int) -> dict[str, Any]:
        stack.begin()
        for block, rows in reading.training(own, epoch):
            stack.train(block, rows)
        return {name: values.tolist() for name, values in stack.logs().items()}

    stack, own, reading, size = new(None)
    run(stack, own, reading, 0)
    stack.remember([1])
    arrays = [array.copy() for array in stack.snapshot()]
    best = stack.weights(1, best=True)
    expected = run(stack, own, reading, 1)
    other, own, reading, _ = new(size)
    other.restore([numpy.stack([array[row] for row in range(3)]) for array in arrays])
    assert run(other, own, reading, 1) == expected
    stack.keep([1, 2])
    other.keep([1, 2])
    assert len(other) == 2
    assert run(other, own[1:], reading, 2) == run(stack, own[1:], reading, 2)
    for name, array in best.items():
        numpy.testing.assert_array_equal(other.weights(0, best=True)[name], array)
        assert name.endswith("tracked") or not numpy.array_equal(other.weights(0, best=False)[name], array)


def test_a_few_at_a_time_are_the_same(tmp_path: Path) -> None:
    params = [{"kind": "batch norm", "lr": 0.01 * place, "seed": place} for place in range(5)]
    fit = cases.fit_of("batch norm")
    workshop, own, models = cases.taken(fit, params)
    stack, size, why = workshop.stack(models, 36, 2)
    assert (size, why) == (2, "5 models, 2 at a time, as before")
    reading = Reading(fit, own)
    for epoch in range(3):
        for block, rows in reading.training(own, epoch):
            stack.train(block, rows)
    for place, one in enumerate(cases.together(fit, params, tmp_path)):
        for name, array in stack.weights(place, best=False).items():
            numpy.testing.assert_allclose(array, one.weights[name], rtol=1e-5, atol=1e-6)


def test_the_faster_way_is_chosen(tmp_path: Path) -> None:
    found = cases.together(cases.fit_of("dense", how="auto", epochs=8), RATES, tmp_path)
    assert "ms a step" in found[0].how
    for one, (history, weights, _) in zip(found, cases.alone(cases.fit_of("dense", epochs=8), RATES), strict=True):
        cases.check_same(one, history, weights)


# -- the plain loop ---------------------------------------------------------------------------------------------------


def test_the_plain_loop_is_what_one_writes_by_hand() -> None:
    told: list[Any] = []
    fit = cases.fit_of("dropout")
    (one,) = cases.members(fit, [{"kind": "dropout", "seed": 4}])
    object.__setattr__(one, "report", lambda epoch, logs: told.append((epoch, logs)))
    result = torch_plain.train(fit, one, construct(fit.build, one.params), "alone")
    history, weights, best = result.history, result.weights, result.best_epoch

    torch.manual_seed(4)
    module, loss, optimizer = cases.build("dropout")
    x, y = torch.tensor(cases.rows(6), dtype=torch.float32), torch.tensor(cases.classes())
    for epoch in range(3):
        module.train()
        total = 0.0
        for places in torch.tensor(order.rows(36, 4, epoch, 0, shuffle=True)).split(12):
            optimizer.zero_grad()
            found = loss(module(x[places]), y[places])
            found.backward()
            optimizer.step()
            total += float(found.detach()) * len(places)
        module.eval()
        with torch.no_grad():
            outputs = module(x[36:])
        assert history["loss"][epoch] == total / 36
        assert history["val_loss"][epoch] == float(loss(outputs, y[36:]))
        assert history["val_accuracy"][epoch] == pytest.approx(float((outputs.argmax(1) == y[36:]).float().mean()))
    assert best is None
    assert [epoch for epoch, _ in told] == [0, 1, 2]
    assert told[2][1] == {name: values[2] for name, values in history.items()}
    for name, tensor in module.state_dict().items():
        numpy.testing.assert_array_equal(weights[name], tensor.numpy())


@pytest.mark.parametrize(
    ("loss", "outputs", "targets", "expected"),
    [
        (nn.BCEWithLogitsLoss(), [[-1.0], [0.2]], [[0.0], [1.0]], 1.0),
        (nn.BCELoss(), [[0.2], [0.4]], [[0.0], [1.0]], 0.5),
        (nn.CrossEntropyLoss(), [[1.0, 0.0], [1.0, 0.0]], [0, 1], 0.5),
        (nn.CrossEntropyLoss(), [[1.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]], 0.5),
    ],
)
def test_accuracy(loss: Any, outputs: Any, targets: Any, expected: float) -> None:
    from tenfold.fuse.torch_step import Objective

    (found,) = Objective(loss, ["accuracy"]).scores(torch.tensor(outputs), torch.tensor(targets))
    assert float(found) == expected


def test_weights_without_a_loss_for_rows_are_refused() -> None:
    def build() -> tuple[Any, Any, Any]:
        module, _, optimizer = cases.build()
        return module, lambda outputs, y: functional.cross_entropy(outputs, y), optimizer

    fit = cases.fit_of("dense", build=build, weight=numpy.ones(cases.ROWS))
    for train in (cases.taken, cases.alone):
        with pytest.raises(BadCall, match="has no `reduction`"):
            train(fit, [{}])


def test_functions_of_torch_take_weights(tmp_path: Path) -> None:
    def build(lr: float) -> tuple[Any, Any, Any]:
        module, _, optimizer = cases.build(lr=lr)
        return module, functional.cross_entropy, optimizer

    cases.check_parity({"build": build, "weight": numpy.linspace(0, 1, cases.ROWS)}, RATES, tmp_path)


def test_what_cannot_be_trained_is_declined() -> None:
    def lazy() -> tuple[Any, Any, Any]:
        module = nn.Sequential(nn.LazyLinear(3))
        return module, nn.CrossEntropyLoss(), torch.optim.SGD(module.parameters(), lr=0.1)

    def wrong(lr: float) -> tuple[Any, Any, Any]:
        module = nn.Linear(5, 3)
        return module, nn.CrossEntropyLoss(), torch.optim.SGD(module.parameters(), lr=lr)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # lazy modules are new, it says
        with pytest.raises(Declined, match="without a shape"):
            cases.taken(cases.fit_of("dense", build=lazy), [{}])
    workshop, _, models = cases.taken(cases.fit_of("dense", build=wrong), RATES)
    with pytest.raises(Declined, match="a step cannot be taken: RuntimeError: "):
        workshop.stack(models, 36, None)


def test_faults_of_build_and_metrics_are_told(tmp_path: Path) -> None:
    watched = cases.fit_of("dense", metrics=[], callbacks=[EarlyStopping("val_accuracy")])
    with pytest.raises(
        BadCall, match=r"EarlyStopping\(monitor='val_accuracy'\): models have loss, and with val_ before"
    ):
        cases.together(watched, [{}], tmp_path)
    with pytest.raises(BadCall, match=r"optimizer is of str, expected one of torch\.optim"):
        torch_plain.unpacked((nn.Linear(1, 1), nn.MSELoss(), "adam"))
    with pytest.raises(BadCall, match='expected "accuracy" or functions'):
        cases.taken(cases.fit_of("dense", metrics=["auc"]), [{}])
