"""A `Fit` as people use it: mapped from a script whose Keras is on TensorFlow, explained, looked at, saved."""

from __future__ import annotations

import json
from typing import Any

import numpy
import pytest

import scripts

_SCRIPT = """
    import contextlib, io, json
    import numpy
    import tenfold

    rng = numpy.random.default_rng(0)
    x = rng.normal(size=(60, 5)).astype("float32")
    y = (x[:, 0] > 0).astype("int64")

    def build(lr=0.01, width=4, rate=0.1, kind="plain"):
        import keras
        from keras import layers

        class Own(keras.Sequential):
            def train_step(self, *given, **more):
                return super().train_step(*given, **more)

        def of_tensorflow(values):
            import tensorflow
            return tensorflow.nn.relu(values)

        class Warm(keras.optimizers.schedules.LearningRateSchedule):
            def __call__(self, step):
                import tensorflow
                return 0.01 * tensorflow.math.rsqrt(tensorflow.cast(step, tensorflow.float32) + 1.0)

        if kind == "bad":
            raise ValueError("there is no such kind")
        middle = layers.Lambda(of_tensorflow, name="middle") if kind == "tensorflow" else layers.Activation("relu")
        model = (Own if kind == "own" else keras.Sequential)(
            [keras.Input((5,)), layers.Dense(width), middle, layers.Dropout(rate), layers.Dense(2, "softmax")]
        )
        optimizer = keras.optimizers.Adam(Warm() if kind == "warm" else lr)
        model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
        return model

    fit = tenfold.Fit(build, (x, y), epochs=2, batch_size=16, validation=0.2)
    items = [dict(lr=0.01, seed=s, width=w, rate=r) for s in (0, 1) for w in (4, 6) for r in (0.1, 0.2)]
    items += [dict(kind="tensorflow", seed=0), dict(kind="own", seed=1), dict(kind="bad", seed=2)]
    items += [dict(kind="warm", seed=3)]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        plan = fit.explain(items)
    results = tenfold.map(fit, items, on_error="collect", progress=False)

    import keras

    def rebuilding():
        class Own(keras.Model):
            def __init__(self):
                super().__init__()
                self.inner = keras.layers.Dense(5)

            def call(self, values):
                found = self.inner(values)
                self.add_loss(keras.ops.mean((found - values) ** 2))
                return found

        whole = Own()
        whole.compile("sgd")
        return whole

    unlabelled = tenfold.Fit(rebuilding, (x, None), epochs=2, validation=0.2, how="alone")(dict(seed=0))
    model = results[0].model()
    paths = [str(results[0].save(name)) for name in ("a.keras", "a.weights.h5", "a.npz")]
    loaded = keras.saving.load_model("a.keras")
    refusals = []
    for name in ("a.pt", "a.txt"):
        try:
            results[0].save(name)
        except tenfold.BadCall as error:
            refusals.append(str(error))
    print(json.dumps(dict(
        backend=keras.backend.backend(),
        printed=printed.getvalue(),
        groups={name: places for name, places in plan.groups.items()},
        expected=[[finding.seconds, finding.nbytes] for finding in plan.findings],
        how=[getattr(result, "how", str(result)) for result in results],
        reported=[report.values for report in results.reports(0)],
        history=results[0].history,
        weights=[array.tolist() for array in results[0].weights],
        rebuilt=[array.tolist() for array in model.get_weights()],
        loaded=[array.tolist() for array in loaded.get_weights()],
        kept=[numpy.load("a.npz")[name].tolist() for name in sorted(numpy.load("a.npz"))],
        columns=list(results.frame().columns),
        refusals=refusals,
        text=repr(results[0]),
        unlabelled=unlabelled.history,
    )))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    variables = {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3", **scripts.HASTY}
    ended = scripts.run(tmp_path_factory.mktemp("fit"), _SCRIPT, variables, seconds=200)
    return dict(json.loads(ended.out.splitlines()[-1]))


@pytest.mark.slow
def test_the_plan_says_which_groups_and_why(told: dict[str, Any]) -> None:
    assert told["printed"].startswith("12 models: 2 groups, 4 alone")
    assert sorted(places for name, places in told["groups"].items() if name) == [[0, 1, 4, 5], [2, 3, 6, 7]]
    assert "shapes differ in sequential/dense/kernel: (5, 4) and (5, 6)" in told["printed"]
    assert "layer middle uses TensorFlow operations" in told["printed"]
    assert "the learning-rate schedule Warm uses TensorFlow operations" in told["printed"]
    assert "Own has a train_step of its own" in told["printed"]
    assert "expected: " in told["printed"]
    for place, (seconds, nbytes) in enumerate(told["expected"]):
        parameters = 4 * (6 * (4, 6)[place // 2 % 2] + 2 * ((4, 6)[place // 2 % 2] + 1))
        if place < 8:
            assert 0 < seconds < 60
            # With Adam's memory and gradients at least; a batch of 16 is no more than some tens of kilobytes.
            assert 4 * parameters < nbytes < 200_000, (parameters, nbytes)
        else:
            assert (seconds, nbytes) == (0, 0), "trained alone: nobody knows"


def test_models_are_fused_or_trained_alone_as_the_plan_says(told: dict[str, Any]) -> None:
    assert all(how.startswith("fused: 4 models") for how in told["how"][:8])
    assert told["how"][8] == "alone: layer middle uses TensorFlow operations"
    assert told["how"][9] == "alone: Own has a train_step of its own"
    assert "there is no such kind" in told["how"][10]
    assert told["how"][11] == "alone: the learning-rate schedule Warm uses TensorFlow operations"


def test_weights_come_back_exactly_in_the_callers_backend(told: dict[str, Any]) -> None:
    assert told["backend"] == "tensorflow"
    for found in ("rebuilt", "loaded", "kept"):
        for one, other in zip(told[found], told["weights"], strict=True):
            numpy.testing.assert_array_equal(one, other)


def test_histories_are_reported_while_it_trains(told: dict[str, Any]) -> None:
    assert set(told["history"]) == {"loss", "accuracy", "val_loss", "val_accuracy"}
    assert [report["val_loss"] for report in told["reported"]] == told["history"]["val_loss"]


def test_results_are_a_table_and_a_line(told: dict[str, Any]) -> None:
    assert {"lr", "width", "seed", "val_loss", "epochs", "how", "error"} <= set(told["columns"])
    assert "2 epochs" in told["text"]
    assert all(".keras, .weights.h5 or .npz" in refusal for refusal in told["refusals"])
    assert len(told["refusals"]) == 2


def test_data_without_labels_are_trained_alone_too(told: dict[str, Any]) -> None:
    first, second = told["unlabelled"]["loss"]
    assert second < first
    assert len(told["unlabelled"]["val_loss"]) == 2
