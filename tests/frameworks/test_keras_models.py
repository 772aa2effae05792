"""Keras models as bytes: the same model is the same bytes whenever it is packed, and is what it was."""

from __future__ import annotations

from pathlib import Path

import pytest

import scripts

_SCRIPT = """
    import datetime, time, zipfile
    import keras, numpy
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

    class Own(keras.Model):
        pass

    models = [
        keras.Sequential([inputs, keras.layers.Dense(2), keras.layers.BatchNormalization()]),
        keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Dense(5)(inputs))),
    ]
    for model in models:
        model.compile("adam", "mse")
        model.fit(data, numpy.zeros((4, *model.output_shape[1:])), verbose=0)
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
    print("equal")
"""


@pytest.mark.slow
def test_a_model_is_the_same_bytes_tomorrow(tmp_path: Path) -> None:
    variables = {"KERAS_BACKEND": "jax", **scripts.HASTY}
    assert scripts.run(tmp_path, _SCRIPT, variables).out.splitlines()[-1] == "equal"
