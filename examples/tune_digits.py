"""Search for a learning rate and a dropout on the digits: 48 trials on 3 folds, most of them given up early."""

import tenfold
import sklearn.datasets

tenfold.warm("fuse")  # the workers' imports begin now


def build(lr, dropout):
    import keras

    layers = [keras.layers.Dense(128, "relu"), keras.layers.Dropout(dropout), keras.layers.Dense(10, "softmax")]
    model = keras.Sequential([keras.Input((64,)), *layers])
    model.compile(keras.optimizers.Adam(lr), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


x, y = sklearn.datasets.load_digits(return_X_y=True)
fit = tenfold.Fit(build, ((x / 16).astype("float32"), y), epochs=9)
space = {"lr": tenfold.loguniform(1e-4, 1e-1), "dropout": tenfold.uniform(0.0, 0.5)}
study = tenfold.tune(fit, space, trials=48, cv=3, objective="val_accuracy", pruner="asha")

print(study.summary())
print(f"\n{'trial':>5}  {'accuracy':>8}  {'spread':>6}  {'lr':>8}  {'dropout':>7}")
for trial in study.top(8):
    params = trial.params
    print(f"{trial.number:5}  {trial.value:8.4f}  {trial.spread:6.4f}  {params['lr']:8.5f}  {params['dropout']:7.3f}")
print("\nwhat matters:", {name: round(share, 2) for name, share in study.importance().items()})
assert sum(trial.state == "pruned" for trial in study.trials) > 24  # most are given up early
