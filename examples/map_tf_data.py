"""A Python function over a data set on every core, for a `tf.data` pipeline.

`dataset.map(function, num_parallel_calls=tf.data.AUTOTUNE)` runs operations of TensorFlow in parallel. A function of
Python has to go into `tf.py_function`, and then one call at a time holds the interpreter, however many are asked for.
Workers have interpreters of their own; the rows that they make are a `tf.data.Dataset` afterwards.
"""

import tempfile

import tenfold
import numpy as np


def letters(sample):
    """How often each letter comes: a loop that only Python can run."""
    text, label = sample
    counts = np.zeros(26, "float32")
    for letter in str(text).lower():
        if "a" <= letter <= "z":
            counts[ord(letter) - ord("a")] += 1
    return counts / max(1, counts.sum()), int(label)


rng = np.random.default_rng(0)
alphabet = np.array(list("abcdefghijklmnopqrstuvwxyz "))
labels = rng.integers(0, 2, 3000)
chances = np.where(np.arange(27) < 13, 1.0, 1.3)  # of class 1: more of the later letters
texts = np.array(["".join(rng.choice(alphabet, 200, p=chances / chances.sum() if label else None)) for label in labels])

with tempfile.TemporaryDirectory() as folder:
    prepared = tenfold.prepare(letters, (texts, labels), f"{folder}/letters")
    print(prepared.describe())

    import keras

    training, test = prepared.split(0.8, 0.2, by="y")
    data = training.tensorflow(batch_size=32, shuffle=True)
    # What is to differ from epoch to epoch belongs behind the cache: here, a layer that adds noise.
    layers = [keras.layers.Rescaling(26.0), keras.layers.GaussianNoise(0.03), keras.layers.Dense(2, "softmax")]
    model = keras.Sequential([keras.Input((26,)), *layers])
    model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
    history = model.fit(data, validation_data=test.tensorflow(32), epochs=9, verbose=0, shuffle=False).history
    for epoch, (loss, accuracy) in enumerate(zip(history["loss"], history["val_accuracy"], strict=True)):
        print(f"epoch {epoch}: loss {loss:.4f}, accuracy on other rows {accuracy:.3f}")
    assert history["val_accuracy"][-1] > 0.7
