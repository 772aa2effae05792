"""The TensorFlow iterations of the question with Ray, by hand. Arguments: ITERATIONS ROWS EPOCHS."""

# ruff: noqa: N806  # the question's names

import sys

import ray
import tensorflow as tf


def train_iteration_tf(i: int, data_size: int, learning_rate: float, num_epochs: int) -> tuple[float, int]:
    tf.keras.utils.set_random_seed(i)  # not in the question: it makes the losses comparable
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        tf.config.set_visible_devices(gpus[0], "GPU")
        logical_gpus = tf.config.list_logical_devices("GPU")
        print(len(gpus), "Physical GPUs,", len(logical_gpus), "Logical GPUs")
        device = "/GPU:0"
    else:
        device = "/CPU:0"

    with tf.device(device):
        X_train = tf.random.normal((data_size, 10))
        y_train = tf.random.normal((data_size, 1))

        model = tf.keras.models.Sequential([tf.keras.layers.Dense(1, activation="linear", input_shape=(10,))])
        optimizer = tf.keras.optimizers.SGD(learning_rate=learning_rate)
        loss_fn = tf.keras.losses.MeanSquaredError()

        for _ in range(num_epochs):
            with tf.GradientTape() as tape:
                predictions = model(X_train)
                loss = loss_fn(y_train, predictions)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    final_loss = loss.numpy()
    return final_loss, i


num_iterations, data_size_per_iter, epochs_per_iter = map(int, sys.argv[1:4])
learning_rate_per_iter = 0.001

ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
train = ray.remote(train_iteration_tf)
results = ray.get(
    [train.remote(i, data_size_per_iter, learning_rate_per_iter, epochs_per_iter) for i in range(num_iterations)]
)
ray.shutdown()

for final_loss, iteration_number in results:
    print(f"Iteration {iteration_number} final loss: {final_loss:.4f}")
