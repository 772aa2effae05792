"""n training iterations in parallel with TensorFlow: no import in every worker, no worker that takes all threads."""

import tenfold
import tensorflow as tf


def train(iteration: int, data_size: int = 1000, learning_rate: float = 0.001, epochs: int = 5) -> dict[str, float]:
    x, y = tf.random.normal((data_size, 10)), tf.random.normal((data_size, 1))
    model = tf.keras.Sequential([tf.keras.Input((10,)), tf.keras.layers.Dense(1)])
    model.compile(tf.keras.optimizers.SGD(learning_rate), loss="mse")
    history = model.fit(x, y, epochs=epochs, batch_size=data_size, verbose=0)
    return {"loss": history.history["loss"][-1]}


results = tenfold.map(train, range(10))
for number, result in enumerate(results):
    print(f"iteration {number}: final loss {result['loss']:.4f}")
assert len({result["loss"] for result in results}) == 10  # each has random numbers of its own
