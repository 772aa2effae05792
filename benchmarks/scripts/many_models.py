"""Trains many small models on the digits: `many_models.py KIND CONTESTANT MODELS EPOCHS FILE`. Prints the mean loss.

FILE holds the digits, as benchmarks/fuse.py has saved them: importing scikit-learn takes longer than training does.

Kinds: dense, norm (with batch norm and dropout), conv (the convolutional model of the question "How does
Keras/TensorFlow parallelization scale?"), gru, torch. Contestants: tenfold, loop, joblib, ray; Keras has the backend
that KERAS_BACKEND names. 4 learning rates, and as many seeds as it takes.
"""

import sys

KIND, CONTESTANT, MODELS, EPOCHS, FILE = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
WORKERS = 2
BATCH = 32
RATES = (1e-3, 3e-3, 1e-2, 3e-2)
SHAPES = {"conv": (8, 8, 1), "gru": (8, 8)}

if CONTESTANT == "tenfold":
    import tenfold

    tenfold.warm("torch" if KIND == "torch" else "fuse")
elif KIND == "torch":
    import torch  # noqa: F401
else:
    import keras  # noqa: F401

import numpy  # noqa: E402  # after tenfold, whose workers start meanwhile


def digits():
    with numpy.load(FILE) as held:
        x, y = held["x"], held["y"]
    return x.reshape(len(x), *SHAPES.get(KIND, (64,))), y


def build_keras(lr):
    import keras

    layers = keras.layers
    body = {
        "dense": lambda: [layers.Dense(128, activation="relu")],
        "norm": lambda: [
            layers.Dense(128, use_bias=False),
            layers.BatchNormalization(),
            layers.Activation("relu"),
            layers.Dropout(0.2),
        ],
        "conv": lambda: [layers.Conv2D(32, (3, 3), activation="relu"), layers.MaxPooling2D((2, 2)), layers.Flatten()],
        "gru": lambda: [layers.GRU(32)],
    }[KIND]()
    inputs = keras.Input(SHAPES.get(KIND, (64,)))
    model = keras.Sequential([inputs, *body, layers.Dense(10, activation="softmax")])
    model.compile(keras.optimizers.Adam(lr), "sparse_categorical_crossentropy")
    return model


def build_torch(lr):
    import torch

    module = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    return module, torch.nn.CrossEntropyLoss(), torch.optim.Adam(module.parameters(), lr)


def train_keras(item, x, y):
    import keras

    keras.utils.set_random_seed(item["seed"])
    model = build_keras(item["lr"])
    return model.fit(x, y, epochs=EPOCHS, batch_size=BATCH, verbose=0).history["loss"][-1]


def train_torch(item, x, y):
    import torch

    torch.manual_seed(item["seed"])
    module, loss, optimizer = build_torch(item["lr"])
    x, y = torch.from_numpy(x), torch.from_numpy(y)
    for _ in range(EPOCHS):
        order, total = torch.randperm(len(x)), 0.0
        for rows in order.split(BATCH):
            optimizer.zero_grad()
            value = loss(module(x[rows]), y[rows])
            value.backward()
            optimizer.step()
            total += value.item() * len(rows)
    return total / len(x)


build, train = (build_torch, train_torch) if KIND == "torch" else (build_keras, train_keras)


def run_loop(items, x, y):
    return [train(item, x, y) for item in items]


def run_joblib(items, x, y):
    import joblib

    return joblib.Parallel(n_jobs=WORKERS)(joblib.delayed(train)(item, x, y) for item in items)


def run_ray(items, x, y):
    import ray

    ray.init(num_cpus=WORKERS, include_dashboard=False, log_to_driver=False)
    x, y = ray.put(x), ray.put(y)
    task = ray.remote(train)
    return ray.get([task.remote(item, x, y) for item in items])


def run_tenfold(items, x, y):
    fit = tenfold.Fit(build, (x, y), epochs=EPOCHS, batch_size=BATCH)
    return [result.history["loss"][-1] for result in tenfold.map(fit, items, workers=WORKERS, progress=False)]


if __name__ == "__main__":
    per_rate = -(-MODELS // len(RATES))
    items = [{"lr": lr, "seed": seed} for lr in RATES for seed in range(per_rate)][:MODELS]
    losses = {"tenfold": run_tenfold, "loop": run_loop, "joblib": run_joblib, "ray": run_ray}[CONTESTANT](
        items, *digits()
    )
    print(f"{len(losses)} models, mean loss {numpy.mean(losses):.4f}")
