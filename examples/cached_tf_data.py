"""Prepare once, train for many epochs, and find everything prepared when the script is run again.

`tf.data.Dataset.cache()` fills its cache in the first epoch, in one process, and after `batch()` it keeps the batches
as they were then. Here, all cores fill it before the first epoch, and rows come in a new order in each. Give the script
a folder and run it twice: `python cached_tf_data.py data`.
"""

import sys
import tempfile
import time

import tenfold
import numpy as np


def spectrum(sample):
    image, label = sample
    waves = np.abs(np.fft.fft2(image))  # costly, and the same in every epoch
    return np.log1p(waves).astype("float32"), label


def main(folder):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 2000)
    stripes = np.sin(np.arange(28) / 2)[None, :] * labels[:, None, None]
    images = rng.normal(size=(2000, 28, 28)) + 0.5 * stripes

    for call in ("first", "second"):
        began = time.perf_counter()
        prepared = tenfold.prepare(spectrum, (images, labels), f"{folder}/spectra")
        print(f"{call} call: {len(prepared)} rows after {time.perf_counter() - began:.2f} s")
    print(prepared.describe())

    import keras

    training, test = prepared.split(0.8, 0.2, by="y")
    layers = [keras.layers.Flatten(), keras.layers.Dense(16, "relu"), keras.layers.Dense(2, "softmax")]
    model = keras.Sequential([keras.Input((28, 28)), *layers])
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    data = training.tensorflow(batch_size=64, shuffle=True)
    one, other = (np.concatenate([labels for _, labels in data]) for _ in range(2))
    assert sorted(one) == sorted(other)
    assert (one != other).any()  # each epoch has all rows, in an order of its own
    history = model.fit(data, validation_data=test.tensorflow(64), epochs=8, verbose=0, shuffle=False).history
    for epoch, (loss, accuracy) in enumerate(zip(history["loss"], history["val_accuracy"], strict=True)):
        print(f"epoch {epoch}: loss {loss:.4f}, accuracy on other rows {accuracy:.3f}")


if sys.argv[1:]:
    main(sys.argv[1])
else:
    with tempfile.TemporaryDirectory() as temporary:
        main(temporary)
