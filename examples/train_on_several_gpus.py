"""One Keras model on every GPU of the machine, from the model that you would call `fit` of. Not run on a GPU.

`MirroredStrategy` does nothing in a loop that never calls `strategy.run`, and nobody is told. Here, every batch is
divided among the workers, each on a device of its own, and the weights are those of training on one device. Where there
is no GPU, two workers share the cores.
"""

import numpy as np
import tenfold
from sklearn.datasets import load_digits


def build(lr=0.003):
    import keras

    layers = [keras.layers.Dense(64, "relu"), keras.layers.Dense(10, "softmax")]
    model = keras.Sequential([keras.Input((64,)), *layers])
    model.compile(keras.optimizers.Adam(lr), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


x, y = load_digits(return_X_y=True)
fit = tenfold.Fit(build, ((x / 16).astype("float32"), y), epochs=6, batch_size=64, validation=0.2)

gpus = len(tenfold.here().gpus)
gpu = 1 if gpus else 0
print(f"{gpus} GPUs here: {max(gpus, 2)} workers, {gpu} GPU for each")
one = tenfold.train(fit, workers=1, gpus=gpu, progress=False)
all_of_them = tenfold.train(fit, workers=max(gpus, 2), gpus=gpu, progress=False)

for epoch, (alone, together) in enumerate(zip(one.history["loss"], all_of_them.history["loss"], strict=True)):
    print(f"epoch {epoch}: loss {alone:.6f} by one worker, {together:.6f} by {all_of_them.workers}")
furthest = max(float(np.abs(a - b).max()) for a, b in zip(one.weights, all_of_them.weights, strict=True))
print(f"largest difference of a weight: {furthest:.1e}")
assert furthest < 1e-4
print(f"accuracy on rows that it has not seen: {all_of_them.history['val_accuracy'][-1]:.3f}")
print(all_of_them)  # .model is an ordinary Keras model, .save("digits.keras") writes it
