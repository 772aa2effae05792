"""What Keras asks of a `tf.data.Dataset`: how long it is, one epoch after the other; and a function of its batches."""

from __future__ import annotations

from pathlib import Path

import scripts

FIT = """
import warnings
import numpy
import tenfold

x = numpy.arange(100, dtype="float32").reshape(50, 2)
prepared = tenfold.prepare(lambda row: (row, row[:1]), x, "set", engine="serial", progress=False)
for options in ({}, {"shard": (1, 3)}, {"epochs": 2}, {"map": lambda x, y: (x, y)}):
    data = prepared.tensorflow(8, **options)
    print("length", int(data.cardinality()) == sum(1 for _ in data))
changed = prepared.tensorflow(8, map=lambda x, y: (x * 2, -y))
for (x1, y1), (x2, y2) in zip(prepared.tensorflow(8), changed, strict=True):
    assert (x2 == x1 * 2).numpy().all() and (y2 == -y1).numpy().all()
try:
    prepared.tensorflow(0)
except tenfold.BadCall as error:
    print(error)
dates = tenfold.prepare(lambda row: numpy.datetime64("2026-01-01"), x, "dates", engine="serial", progress=False)
for feed in (dates.tensorflow, dates.torch):
    try:
        feed(8)
    except tenfold.BadCall as error:
        print(str(error).partition(":")[2].partition(";")[0])

import keras

model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
with warnings.catch_warnings():
    warnings.simplefilter("error")
    print(len(model.fit(prepared.tensorflow(8, shuffle=True), epochs=2, shuffle=False, verbose=0).epoch), "epochs")
"""


def test_keras_knows_the_length_and_does_not_warn(tmp_path: Path) -> None:
    assert scripts.run(tmp_path, FIT, {"TF_CPP_MIN_LOG_LEVEL": "3"}, 120).out.splitlines() == [
        *["length True"] * 4,
        "batch_size=0: expected a whole number, 1 or above",
        " TensorFlow has no tensors of dates",
        " PyTorch has no tensors of dates",
        "2 epochs",
    ]
