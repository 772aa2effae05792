"""One model of `tenfold demo`, in a worker: a small Keras network on the digits of scikit-learn."""

from __future__ import annotations

import functools
from typing import Any

EPOCHS = 5
BATCH = 64
TRAINED_ON = 1437  # of 1797 images, which is 80 %; the rest is for the accuracy


@functools.cache
def images() -> tuple[Any, Any]:
    """The images and what they show; read once per worker."""
    from sklearn.datasets import load_digits

    found = load_digits()
    return (found.data / 16).astype("float32"), found.target


def train(item: dict[str, float]) -> dict[str, float]:
    """Train one model with item["lr"] and item["seed"]; reports the accuracy of every epoch."""
    import keras

    import tenfold

    here = tenfold.here()
    keras.utils.set_random_seed(int(item["seed"]))
    layers = keras.layers
    network = [keras.Input((64,)), layers.Dense(64, "relu"), layers.Dense(32, "relu"), layers.Dense(10)]
    model = keras.Sequential(network)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(item["lr"]), loss, metrics=["accuracy"])

    def report(epoch: int, logs: dict[str, float]) -> None:
        here.report(epoch, accuracy=logs["val_accuracy"])

    x, y = images()
    history = model.fit(
        x[:TRAINED_ON],
        y[:TRAINED_ON],
        validation_data=(x[TRAINED_ON:], y[TRAINED_ON:]),
        epochs=EPOCHS,
        batch_size=BATCH,
        verbose=0,
        callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=report)],
    ).history
    return {"accuracy": float(history["val_accuracy"][-1]), "loss": float(history["val_loss"][-1])}
