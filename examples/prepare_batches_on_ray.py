"""Prepare batches with Ray, and train from them with TensorFlow.

Actors that return `tf.data.Dataset`s do not help: there is no way to make one of several that were pickled. Here, the
function takes and returns arrays, and the engine says where it runs: "ray" is a small cluster on this machine.
`python prepare_batches_on_ray.py ray://auto SHARED` uses a real one, whose machines share the folder SHARED.
"""

import sys
import tempfile

import tenfold
import numpy as np


def load(numbers):  # a batch of 32 samples: as they would be read from somewhere, and prepared
    images = np.stack([np.random.default_rng(number).random((32, 32, 3), dtype="float32") for number in numbers])
    brighter = np.random.default_rng(numbers).random(len(numbers)) > 0.5
    images[brighter] = np.sqrt(images[brighter])
    return images - 0.5, brighter.astype("int64")


engine, shared = (*sys.argv[1:], None, None)[:2]
with tempfile.TemporaryDirectory(dir=shared) as folder:
    to = f"{folder}/batches"
    prepared = tenfold.prepare(load, np.arange(1600), to, batch=32, batched=True, engine=engine or "ray")
    print(prepared.describe())

    import keras  # after the work on Ray: this process needs it only now

    training, test = prepared.split(0.9, 0.1, by="y")
    model = keras.Sequential(
        [keras.Input((32, 32, 3)), keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(2, activation="softmax")]
    )
    model.compile(keras.optimizers.Adam(0.1), "sparse_categorical_crossentropy", metrics=["accuracy"])
    history = model.fit(training.tensorflow(32, shuffle=True), epochs=8, verbose=0, shuffle=False)
    for epoch, loss in enumerate(history.history["loss"]):
        print(f"epoch {epoch}: loss {loss:.4f}")
    loss, accuracy = model.evaluate(test.tensorflow(32), verbose=0)
    print(f"on {len(test)} rows that it has not seen: loss {loss:.4f}, accuracy {accuracy:.3f}")
    assert len(prepared) == 1600
    assert accuracy > 0.9
