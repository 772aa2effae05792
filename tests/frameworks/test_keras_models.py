"""Keras models as bytes: the same whenever it is packed, and what it was, with classes and functions of a script."""

from __future__ import annotations

from pathlib import Path

import pytest

import scripts

_SCRIPT = """
    import datetime, time, zipfile
    import keras, numpy, tenfold
    from keras.src.saving import saving_lib
    from tenfold.work import parcel

    def later(seconds):
        now = time.time() + seconds

        class Moment(datetime.datetime):
            @classmethod
            def now(cls):
                return datetime.datetime.fromtimestamp(now)

        class Clock:
            datetime = Moment

        saving_lib.datetime = Clock
        zipfile.time = type("Clock", (), {"time": lambda: now, "localtime": lambda *_: time.gmtime(now)})

    inputs = keras.Input((3,))
    data = numpy.ones((4, 3), "float32")

    class Scaled(keras.layers.Layer):
        def build(self, shape):
            self.scale = self.add_weight(shape=shape[-1:], initializer="ones")

        def call(self, x):
            return x * self.scale

    class Own(keras.Model):
        def __init__(self, width, **named):
            super().__init__(**named)
            self.inner = keras.Sequential([keras.layers.Dense(width, activation=bent), Scaled()])
            self.width = width

        def call(self, x):
            return self.inner(x)

        def get_config(self):
            return {**super().get_config(), "width": self.width}

    def bent(x):
        return keras.ops.tanh(x)

    def distance(true, given):
        return keras.ops.mean((true - given) ** 2)

    own = Own(2)
    own(data)
    models = [
        own,
        keras.Sequential([inputs, keras.layers.Dense(2), keras.layers.BatchNormalization()]),
        keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Dense(5)(inputs))),
    ]
    for model in models:
        model.compile("adam", distance if model is own else "mse", metrics=[distance])
        model.fit(data, model.predict(data, verbose=0) + 1, verbose=0)
        packed, plain = [], []
        for seconds in (0, 86400):
            later(seconds)
            packed.append(parcel.pack_function(lambda x, model=model: model.predict(x, verbose=0)).to_bytes())
            plain.append(model.__reduce__()[1][0].getvalue())
        assert plain[0] != plain[1], "the clocks show the same: this shows nothing"
        assert packed[0] == packed[1]
        found = parcel.unpack(parcel.pack(model).to_bytes())
        assert type(found) is type(model)
        assert found.optimizer.iterations == 1
        for ours, theirs in zip(model.variables, found.variables, strict=True):
            numpy.testing.assert_array_equal(ours, theirs)
    there = tenfold.map(lambda x: own.evaluate(x, x[:, :2], verbose=0), [data], progress=False)
    numpy.testing.assert_allclose(there[0], own.evaluate(data, data[:, :2], verbose=0), rtol=1e-5)
    print("equal")
"""


@pytest.mark.slow
def test_a_model_is_the_same_bytes_tomorrow(tmp_path: Path) -> None:
    variables = {"KERAS_BACKEND": "jax", **scripts.HASTY}
    assert scripts.run(tmp_path, _SCRIPT, variables).out.splitlines()[-1] == "equal"
