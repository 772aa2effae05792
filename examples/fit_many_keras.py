"""16 Keras models on the digits, 4 learning rates x 4 seeds, trained as one program. Prints the table and the best."""

import tenfold

tenfold.warm("fuse")  # the workers import Keras while this script loads its data

from sklearn.datasets import load_digits  # noqa: E402


def build(lr):
    import keras

    model = keras.Sequential(
        [
            keras.Input((64,)),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile(keras.optimizers.Adam(lr), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


x, y = load_digits(return_X_y=True)
stopping = tenfold.EarlyStopping("val_loss", patience=3)
fit = tenfold.Fit(build, (x / 16, y), epochs=20, validation=0.2, callbacks=[stopping])
results = tenfold.map(fit, [{"lr": lr, "seed": seed} for lr in (3e-4, 1e-3, 3e-3, 1e-2) for seed in range(4)])
for result in results:
    print(result)
best = max(results, key=lambda result: result.final["val_accuracy"])
print(f"best: {best.params}, {best.how}")
assert not [result for result in results if result.how.startswith("alone")]
