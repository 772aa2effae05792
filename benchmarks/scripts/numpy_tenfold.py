"""The CuPy iterations of the question with tenfold (on NumPy). Arguments: ITERATIONS ROWS EPOCHS [isolate]."""

# ruff: noqa: N806  # for its users tenfold is third-party, and sorted so; the names are the question's

import sys
from functools import partial

import numpy as np
import tenfold


def train_iteration_numpy(i: int, data_size: int, learning_rate: float, num_epochs: int) -> tuple[float, int]:
    xp = np
    xp.random.seed(i)  # not in the question: it makes the losses comparable
    X_train = xp.random.rand(data_size, 10)
    y_train = xp.random.rand(data_size, 1)

    w = xp.zeros((10, 1))
    b = xp.zeros(1)

    for _ in range(num_epochs):
        y_pred = xp.dot(X_train, w) + b
        error = y_pred - y_train
        grad_w = xp.dot(X_train.T, error)
        grad_b = xp.sum(error)
        w -= learning_rate * grad_w / data_size  # the question does not divide, and diverges
        b -= learning_rate * grad_b / data_size

    final_loss = xp.mean(xp.square(error))
    return final_loss, i


num_iterations, data_size_per_iter, epochs_per_iter = map(int, sys.argv[1:4])
learning_rate_per_iter = 0.001

train = partial(
    train_iteration_numpy,
    data_size=data_size_per_iter,
    learning_rate=learning_rate_per_iter,
    num_epochs=epochs_per_iter,
)
results = tenfold.map(train, range(num_iterations), workers=2, isolate="isolate" in sys.argv)

for final_loss, iteration_number in results:
    print(f"Iteration {iteration_number} final loss: {final_loss:.4f}")
