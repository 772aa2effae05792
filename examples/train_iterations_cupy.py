"""The same function on CuPy and NumPy: `here().xp` is CuPy on a GPU seat, NumPy elsewhere. Not run on a GPU."""

import tenfold


def train(iteration: int, data_size: int = 1000, learning_rate: float = 0.1, epochs: int = 50) -> float:
    xp = tenfold.here().xp
    x, y = xp.random.rand(data_size, 10), xp.random.rand(data_size, 1)
    weights, bias = xp.zeros((10, 1)), xp.zeros(1)
    error = y
    for _ in range(epochs):
        error = x @ weights + bias - y
        weights -= learning_rate * x.T @ error / data_size
        bias -= learning_rate * error.mean()
    return float((error**2).mean())


losses = tenfold.map(train, range(10))  # with GPUs: tenfold.map(train, range(10), gpus=1)
for number, loss in enumerate(losses):
    print(f"iteration {number}: final loss {loss:.4f}")
assert max(losses) < 0.2  # it learns
