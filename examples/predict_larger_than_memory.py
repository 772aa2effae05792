"""A Keras model over a Dask array of 100,000 x 784, a block at a time on every core.

`model.predict(dask_array)` would make one array of all of it first, in one process. Here, each worker computes the
blocks that it predicts, and keeps only what comes out: in one file, in order. `evaluate` keeps not even that.
"""

import resource
import tempfile

import tenfold
import dask.array as da


def build():
    import keras

    layers = [keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10, activation="softmax")]
    return keras.Sequential([keras.Input((784,)), *layers])


def megabytes(who):
    return resource.getrusage(who).ru_maxrss / 1024


model = build()
x = da.random.default_rng(0).random((100_000, 784), chunks=(5_000, 784), dtype="float32")
y = da.random.default_rng(1).integers(0, 10, 100_000, chunks=5_000)
print(f"the data: {x.shape}, {x.nbytes / 1e6:.0f} MB if it were in memory, in {x.numblocks[0]} blocks")
before = megabytes(resource.RUSAGE_SELF)

with tempfile.TemporaryDirectory() as folder:
    predictions = tenfold.predict(model, x, f"{folder}/predictions")
    print(predictions.describe())
    print(f"this process grew by {megabytes(resource.RUSAGE_SELF) - before:.0f} MB")

    rows = predictions.numpy()  # mapped from its file
    for number in range(5):
        print(f"row {number}: class {rows[number].argmax()} with {rows[number].max():.3f}")
    exact = model.predict(x[:1000].compute(), verbose=0)
    furthest = abs(exact - rows[:1000]).max()
    print(f"largest difference from model.predict in 1,000 rows: {furthest:.1e}")
    assert furthest < 1e-5
    lazy = predictions.dask()  # and back to Dask, where that is wanted
    print(f"as a Dask array: {lazy.shape} in {lazy.numblocks[0]} blocks")
    print(f"mean of each class: {lazy.mean(axis=0).compute().round(3)}")

scores = tenfold.evaluate(model, (x, y), ["accuracy", "log_loss", "top_3"])
print(f"a model that has learned nothing, on {scores.rows} rows: {scores['accuracy']:.3f} right")
print(scores)
