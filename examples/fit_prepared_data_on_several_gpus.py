"""A prepared data set, and the Keras model that you would call `fit` of, on every GPU of the machine. Not run on a GPU.

`strategy.scope()` around a model, then `model.fit(parallel_dataset)`, leaves the devices to wait for one process that
prepares. Here, rows are prepared once on every core, each worker reads its own rows of them, and all workers together
make one model. Where there is no GPU, two workers share the cores.
"""

import tempfile

import tenfold
import numpy as np
from sklearn.datasets import load_digits


def enlarged(sample):
    image, label = sample
    return np.kron(image.reshape(8, 8) / 16, np.ones((2, 2)))[..., None].astype("float32"), label


def build():
    import keras

    layers = [keras.layers.Conv2D(8, 3, 2, activation="relu"), keras.layers.Flatten()]
    model = keras.Sequential([keras.Input((16, 16, 1)), *layers, keras.layers.Dense(10, "softmax")])
    model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


with tempfile.TemporaryDirectory() as folder:
    prepared = tenfold.prepare(enlarged, load_digits(return_X_y=True), f"{folder}/digits")
    fit = tenfold.Fit(build, prepared, epochs=4, batch_size=64, validation=0.2)
    gpus = len(tenfold.here().gpus)
    trained = tenfold.train(fit, workers=max(gpus, 2), gpus=1 if gpus else 0, progress=False)

    print(trained)
    for name in ("loss", "val_loss", "val_accuracy"):
        print(name, *(f"{value:.3f}" for value in trained.history[name]))
    assert trained.history["val_accuracy"][-1] > 0.8
    trained.model.summary()  # an ordinary Keras model
