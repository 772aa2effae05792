"""What `tenfold demo` works on: the digits of scikit-learn, and a small Keras network. Used in workers."""

from __future__ import annotations

import time
from typing import Any

import numpy

EPOCHS = 9
BATCH = 32
TRAINED_ON = 1440  # of 1797 images: whole batches, also of a third or two thirds; the others are for the evaluation
ENLARGED = 2


def images() -> tuple[Any, Any]:
    """The images, 8 x 8, and what they show."""
    from sklearn.datasets import load_digits

    found = load_digits()
    return found.images, found.target


def enlarged(sample: tuple[Any, Any]) -> tuple[Any, Any]:
    """An image with values between 0 and 1 and twice as many pixels each way, and what it shows."""
    image, label = sample
    return numpy.kron(image / 16, numpy.ones((ENLARGED, ENLARGED))).astype(numpy.float32), label


def build(lr: float, dropout: float) -> Any:
    """A compiled model."""
    import keras

    layers = keras.layers
    side = 8 * ENLARGED
    network = [keras.Input((side, side)), layers.Flatten(), layers.Dense(64, "relu")]
    model = keras.Sequential([*network, layers.Dropout(dropout), layers.Dense(10, "softmax")])
    model.compile(keras.optimizers.Adam(lr), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def by_hand(count: int) -> dict[str, float]:
    """Seconds that the same takes without tenfold: one image, and one model on two thirds of the images."""
    x, y = images()
    began = time.monotonic()
    prepared = [enlarged((x[place], y[place]))[0] for place in range(count)]
    image = (time.monotonic() - began) / count
    rows = numpy.resize(numpy.stack(prepared), (2 * TRAINED_ON // 3, *prepared[0].shape))
    build(0.01, 0.1).fit(rows[:BATCH], y[:BATCH], verbose=0)  # imports and the first program are not counted
    began = time.monotonic()
    build(0.01, 0.1).fit(rows, y[: len(rows)], epochs=EPOCHS, batch_size=BATCH, verbose=0)
    return {"image": image, "model": time.monotonic() - began}
