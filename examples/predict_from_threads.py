"""Predictions that several threads ask for at once, as those of a server do, from one Keras model.

`model.predict` of one Keras model is not safe from several threads. `tenfold.predict` may be called from any: the model
goes to workers, which have copies of it, and each call gets its own rows back.
"""

from concurrent.futures import ThreadPoolExecutor

import tenfold
import numpy as np
from sklearn.datasets import load_digits


def build():
    import keras

    layers = [keras.layers.Dense(64, "relu"), keras.layers.Dense(10, "softmax")]
    model = keras.Sequential([keras.Input((64,)), *layers])
    model.compile("adam", "sparse_categorical_crossentropy")
    return model


x, y = load_digits(return_X_y=True)
x = (x / 16).astype("float32")
model = build()
model.fit(x, y, epochs=3, verbose=0)


def answer(rows):
    return tenfold.predict(model, x[rows], workers=1, progress=False).numpy()


requests = np.array_split(np.random.default_rng(0).permutation(len(x)), 8)
with ThreadPoolExecutor(4) as pool:
    answers = list(pool.map(answer, requests))

exact = model.predict(x, verbose=0)
for number, (rows, found) in enumerate(zip(requests, answers, strict=True)):
    right, off = (found.argmax(1) == y[rows]).mean(), np.abs(found - exact[rows]).max()
    print(f"request {number}: {len(rows)} rows, {right:.3f} right, off by {off:.0e} from model.predict")
print(f"rows in all: {sum(map(len, answers))} of {len(x)}")
furthest = max(np.abs(found - exact[rows]).max() for rows, found in zip(requests, answers, strict=True))
print(f"largest difference: {furthest:.1e}")
assert furthest < 1e-5
