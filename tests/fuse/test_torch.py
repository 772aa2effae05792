"""PyTorch models in groups give what each gives by itself: fused, looped, and by a loop written by hand."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
import torch_cases as cases
from torch import nn
from torch.nn import functional

from tenfold.errors import BadCall
from tenfold.fuse import order, torch_plain
from tenfold.fuse.building import construct
from tenfold.fuse.feed import Feed
from tenfold.fuse.stopping import EarlyStopping
from tenfold.work.run import Declined

RATES = [{"lr": 0.002}, {"lr": 0.01}, {"lr": 0.03}]


def check_parity(
    fit_settings: dict[str, Any], params: list[dict[str, Any]], folder: Path, kind: str = "dense"
) -> list[Any]:
    """Fused, looped and alone; returns what was fused."""
    fused = cases.together(cases.fit_of(kind, how="fused", **fit_settings), params, folder)
    looped = cases.together(cases.fit_of(kind, how="looped", **fit_settings), params, folder)
    for one, other, (history, weights, best) in zip(
        fused, looped, cases.alone(cases.fit_of(kind, **fit_settings), params), strict=True
    ):
        assert one.how.startswith("fused: "), one.how
        assert other.how == 'looped: how="looped" was asked for'
        assert one.best_epoch == other.best_epoch == best
        cases.check_same(one, history, weights)
        cases.check_same(other, history, weights, rtol=0)
    return fused


@pytest.mark.parametrize("kind", ["dense", "conv", "batch norm", "layer norm", "embedding", "tied", "two inputs"])
def test_layers(kind: str, tmp_path: Path) -> None:
    params = [{"kind": kind, "seed": 5 + place, **rate} for place, rate in enumerate(RATES)]
    found = check_parity({}, params, tmp_path, kind)
    assert list(found[0].history) == ["loss", "accuracy", "val_loss", "val_accuracy"]
    assert found[0].history["loss"] != found[1].history["loss"]


OPTIMIZERS: dict[str, list[dict[str, Any]]] = {
    "SGD": [{"lr": 0.1}, {"lr": 0.02, "weight_decay": 0.1}],
    "SGD momentum": [{"momentum": 0.9, "dampening": 0.3}, {"momentum": 0.5, "weight_decay": 0.1, "lr": 0.1}],
    "SGD nesterov": [{"momentum": 0.9, "nesterov": True}, {"momentum": 0.5, "nesterov": True, "lr": 0.1}],
    "Adam": [{"betas": (0.8, 0.9)}, {"betas": (0.9, 0.999), "weight_decay": 0.1, "eps": 1e-3, "lr": 0.1}],
    "Adam amsgrad": [{"amsgrad": True}, {"amsgrad": True, "betas": (0.5, 0.6), "lr": 0.1}],
    "AdamW": [{"weight_decay": 0.3}, {"weight_decay": 0.0, "lr": 0.1}, {"betas": (0.7, 0.95)}],
    "RMSprop": [{"alpha": 0.8}, {"alpha": 0.99, "weight_decay": 0.1, "eps": 1e-3}],
    "RMSprop momentum": [{"momentum": 0.9}, {"momentum": 0.2, "lr": 0.02}],
    "RMSprop centered": [{"centered": True, "alpha": 0.8}, {"centered": True, "momentum": 0.0, "lr": 0.001}],
    "RMSprop both": [{"centered": True, "momentum": 0.3}, {"centered": True, "momentum": 0.6, "lr": 0.001}],
    "NAdam": [{"momentum_decay": 0.1}, {"betas": (0.7, 0.9), "weight_decay": 0.1, "lr": 0.05}],
    "NAdam decoupled": [
        {"decoupled_weight_decay": True, "weight_decay": 0.5},
        {"decoupled_weight_decay": True, "momentum_decay": 0.3},
    ],
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name: str, tmp_path: Path) -> None:
    params = [{"optimizer": name.split()[0], "seed": 3, **settings} for settings in OPTIMIZERS[name]]
    found = check_parity({}, params, tmp_path)
    assert all(f"{len(params)} models, {len(params)} at a time" in one.how for one in found)


def test_sample_weights(tmp_path: Path) -> None:
    weight = numpy.random.default_rng(4).uniform(0, 2, cases.ROWS)
    found = check_parity({"weight": weight}, RATES, tmp_path)
    assert found[0].history["loss"] != check_parity({}, RATES, tmp_path)[0].history["loss"]


def test_validation_data_of_its_own_and_metrics_of_ones_own(tmp_path: Path) -> None:
    def largest(outputs: Any, targets: Any) -> Any:
        return outputs.max()

    validation = (cases.rows(6, seed=9), cases.classes(9))
    found = check_parity({"validation": validation, "metrics": [largest, "accuracy"]}, RATES, tmp_path)
    assert list(found[0].history) == ["loss", "largest", "accuracy", "val_loss", "val_largest", "val_accuracy"]


def test_early_stopping_is_each_models_own(tmp_path: Path) -> None:
    stopping = EarlyStopping(monitor="val_loss", patience=1)
    params = [{"lr": lr, "seed": 1} for lr in (0.001, 3.0, 0.02, 1.0)]
    found = check_parity({"callbacks": [stopping], "epochs": 6}, params, tmp_path)
    assert len({one.epochs for one in found}) > 1


def test_rows_of_ones_own(tmp_path: Path) -> None:
    generator = numpy.random.default_rng(7)
    folds = [generator.permutation(cases.ROWS) for _ in range(3)]
    params = [{"lr": 0.01, "rows": fold[:30], "validation_rows": fold[30:]} for fold in folds]
    check_parity({"validation": None}, params, tmp_path)


def test_a_frozen_layer_stays(tmp_path: Path) -> None:
    def build(lr: float) -> tuple[Any, Any, Any]:
        module = cases.module("dense")
        module[0].weight.requires_grad_(False)
        return module, nn.CrossEntropyLoss(), torch.optim.SGD(module[0].parameters(), lr=lr, weight_decay=0.1)

    found = check_parity({"build": build}, RATES, tmp_path)
    before = construct(build, found[0].params)[0].state_dict()
    changed = {name for name, array in found[0].weights.items() if not numpy.array_equal(array, before[name].numpy())}
    assert changed == {"0.bias"}


# -- what is looped ---------------------------------------------------------------------------------------------------


def check_looped(reason: str, fit: Any, params: list[dict[str, Any]], folder: Path) -> None:
    found = cases.together(fit, params, folder)
    for one, (history, weights, _) in zip(found, cases.alone(fit, params), strict=True):
        assert reason in one.how
        assert one.how.startswith("looped: ")
        cases.check_same(one, history, weights, rtol=0)


REASONS = {
    "gru": "(GRU) holds weights besides the parameters",
    "dropout": "Dropout draws from PyTorch's global random numbers",
    "counting": "its forward pass changes the attribute calls of the module",
    "deciding": "vmap does not support Deciding: ",
    "forgetful": "the parameter spare.weight has no part in the loss",
    "cumulative batch norm": "vmap does not support Sequential: ",
}


@pytest.mark.parametrize("kind", REASONS)
def test_models_that_cannot_be_fused_are_looped(kind: str, tmp_path: Path) -> None:
    params = [{"kind": kind, **rate} for rate in RATES]
    check_looped(REASONS[kind], cases.fit_of(kind), params, tmp_path)


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


def built_with(change: Any) -> Any:
    def build(lr: float) -> tuple[Any, Any, Any]:
        module, loss, optimizer = cases.build(lr=lr)
        return change(module, loss, optimizer) or (module, loss, optimizer)

    return build


UNUSUAL: dict[str, tuple[str, Any]] = {
    "optimizer": (
        "the optimizer Adagrad has no fused form",
        lambda m, f, o: (m, f, torch.optim.Adagrad(m.parameters())),
    ),
    "groups": (
        "several groups of parameters with different settings",
        lambda m, f, o: (
            m,
            f,
            torch.optim.SGD([{"params": m[0].parameters(), "lr": 1.0}, {"params": m[2].parameters()}]),
        ),
    ),
    "maximize": ("Adam(maximize=True)", lambda m, f, o: (m, f, torch.optim.Adam(m.parameters(), maximize=True))),
    "schedule": ("a learning-rate scheduler", lambda m, f, o: torch.optim.lr_scheduler.StepLR(o, 2) and None),
    "hook": ("has hooks", lambda m, f, o: m[0].register_forward_hook(lambda *_: None) and None),
    "parameter hook": (
        "the parameter 0.weight has hooks",
        lambda m, f, o: m[0].weight.register_hook(lambda g: 2 * g) and None,
    ),
    "loss": ("the loss holds parameters", lambda m, f, o: (m, lambda out, y: f(out, y) + m[0].weight.sum() ** 2, o)),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_what_is_unusual_is_looped(name: str, tmp_path: Path) -> None:
    reason, change = UNUSUAL[name]
    check_looped(reason, cases.fit_of("dense", build=built_with(change)), RATES, tmp_path)


def test_one_model_is_not_fused(tmp_path: Path) -> None:
    check_looped("there is no other model of this shape", cases.fit_of("dense"), RATES[:1], tmp_path)


def test_a_step_that_differs_is_found(tmp_path: Path) -> None:
    """The safety net: something that no comparison of attributes shows."""
    hidden = []

    class Sly(nn.Linear):
        def forward(self, x: Any) -> Any:
            hidden.append(self.weight.detach())
            return functional.linear(x, self.weight) * (
                2.0 if type(hidden[-1]) is torch.Tensor and _is_wrapped(hidden[-1]) else 1.0
            )

    def _is_wrapped(tensor: Any) -> bool:
        return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))

    def build(lr: float) -> tuple[Any, Any, Any]:
        module = nn.Sequential(Sly(6, cases.CLASSES, bias=False))
        return module, nn.CrossEntropyLoss(), torch.optim.SGD(module.parameters(), lr=lr)

    check_looped("a fused step gives another gradient of 0.weight", cases.fit_of("dense", build=build), RATES, tmp_path)


# -- which models are one program -------------------------------------------------------------------------------------


def variant(**changes: Any) -> tuple[Any, Any, Any]:
    rate, width = changes.get("rate", 0.1), changes.get("width", 8)
    module = nn.Sequential(nn.Linear(6, width), nn.LeakyReLU(rate), nn.Linear(width, cases.CLASSES))
    module[1].note = changes.get("note")
    loss = nn.CrossEntropyLoss(label_smoothing=changes.get("smoothing", 0.0), weight=changes.get("weight"))
    loss = changes.get("loss", loss)
    optimizer = getattr(torch.optim, changes.get("optimizer", "SGD"))
    return module, loss, optimizer(module.parameters(), lr=0.1, **changes.get("settings", {}))


DIFFERENCES: list[tuple[dict[str, Any], str]] = [
    ({"width": 9}, "the attribute out_features of layer 0 differs: 8 and 9"),
    ({"rate": 0.2}, "the attribute negative_slope of layer 1 differs: 0.1 and 0.2"),
    ({"note": 1}, "the attribute note of layer 1 differs: None and 1"),
    ({"smoothing": 0.1}, "the attribute label_smoothing of the loss differs: 0.0 and 0.1"),
    ({"weight": torch.ones(3)}, "the loss differs"),
    ({"loss": functional.cross_entropy}, "the loss differs"),
    ({"optimizer": "Adam"}, "the class of the optimizer differs: SGD and Adam"),
    ({"settings": {"momentum": 0.9}}, "the switches of the optimizer differs: () and ('momentum',)"),
]


@pytest.mark.parametrize(
    ("changes", "message"), DIFFERENCES, ids=lambda value: None if isinstance(value, dict) else value
)
def test_models_that_differ_are_told_apart(changes: dict[str, Any], message: str) -> None:
    workshop, _, models = cases.taken(cases.fit_of("dense", build=variant), [{}, {}, changes, changes])
    assert workshop.same(models) == [[0, 1], [2, 3]]
    found = workshop.difference(models[0], models[2])
    assert found == message or (message == "the loss differs" and "loss differs" in found)


def test_functions_and_values_are_compared_by_what_they_are() -> None:
    workshop, _, models = cases.taken(
        cases.fit_of("dense", build=variant),
        [
            {"note": note}
            for note in (1, True, 1.0, float("nan"), float("nan"), torch.ones(2), torch.ones(2), torch.relu)
        ],
    )
    assert workshop.same(models) == [[0], [1], [2], [3, 4], [5, 6], [7]]


def test_what_cannot_be_pickled_is_like_nothing_else() -> None:
    workshop, _, models = cases.taken(
        cases.fit_of("dense", build=variant), [{"note": (n for n in ())} for _ in range(2)]
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

    def new(chunk: int | None) -> tuple[Any, list[Any], Feed, int]:
        workshop, own, models = cases.taken(fit, params)
        stack, size, _ = workshop.stack(models, 36, chunk)
        return stack, own, Feed(fit, own), size

    def run(stack: Any, own: list[Any], feed: Feed, epoch: int) -> dict[str, Any]:
        stack.begin()
        for block, rows in feed.training(own, epoch):
            stack.train(block, rows)
        return {name: values.tolist() for name, values in stack.logs().items()}

    stack, own, feed, size = new(None)
    run(stack, own, feed, 0)
    stack.remember([1])
    arrays = [array.copy() for array in stack.snapshot()]
    best = stack.weights(1, best=True)
    expected = run(stack, own, feed, 1)
    other, own, feed, _ = new(size)
    other.restore([numpy.stack([array[row] for row in range(3)]) for array in arrays])
    assert run(other, own, feed, 1) == expected
    stack.keep([1, 2])
    other.keep([1, 2])
    assert len(other) == 2
    assert run(other, own[1:], feed, 2) == run(stack, own[1:], feed, 2)
    for name, array in best.items():
        numpy.testing.assert_array_equal(other.weights(0, best=True)[name], array)
        assert name.endswith("tracked") or not numpy.array_equal(other.weights(0, best=False)[name], array)


def test_a_few_at_a_time_are_the_same(tmp_path: Path) -> None:
    params = [{"kind": "batch norm", "lr": 0.01 * place, "seed": place} for place in range(5)]
    fit = cases.fit_of("batch norm")
    workshop, own, models = cases.taken(fit, params)
    stack, size, why = workshop.stack(models, 36, 2)
    assert (size, why) == (2, "5 models, 2 at a time, as before")
    feed = Feed(fit, own)
    for epoch in range(3):
        for block, rows in feed.training(own, epoch):
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
    history, weights, best = torch_plain.train(fit, one, construct(fit.build, one.params))

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
            total += float(found) * len(places)
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

    check_parity({"build": build, "weight": numpy.linspace(0, 1, cases.ROWS)}, RATES, tmp_path)


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


def test_faults_of_build_and_metrics_are_told() -> None:
    with pytest.raises(BadCall, match=r"optimizer is of str, expected one of torch\.optim"):
        torch_plain.unpacked((nn.Linear(1, 1), nn.MSELoss(), "adam"))
    with pytest.raises(BadCall, match='expected "accuracy" or functions'):
        cases.taken(cases.fit_of("dense", metrics=["auc"]), [{}])
