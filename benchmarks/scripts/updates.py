"""Asynchronous training of the small net: `updates.py CONTESTANT`. Prints updates of the shared weights a second.

Two workers compute gradients on batches of 64, and whoever is ready changes the weights. Contestants: ray_actors (a
parameter server that is an actor, and two workers that are, as in Ray's documentation), tf_servers (TensorFlow's
ParameterServerStrategy with one server and two workers).
"""

import json
import os
import sys
import time

import numpy as np

CONTESTANT = sys.argv[1]
FILTERS, WIDTH, BATCH, UPDATES, WARM_UP = 32, 128, 64, 600, 60
IMAGES = np.random.default_rng(0).normal(size=(64 * BATCH, 8, 8, 1)).astype("float32")
LABELS = np.random.default_rng(1).integers(0, 10, 64 * BATCH)


# -- Ray --------------------------------------------------------------------------------------------------------------


def module():
    from torch import nn

    layers = [nn.Unflatten(1, (1, 8)), nn.Conv2d(1, FILTERS, 3), nn.ReLU(), nn.Conv2d(FILTERS, FILTERS, 3), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(16 * FILTERS, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))


def ray_actors():
    import ray

    ray.init(include_dashboard=False, logging_level="error", log_to_driver=False)

    @ray.remote
    class Server:
        def __init__(self):
            import torch

            torch.set_num_threads(1)
            self.module = module()
            self.optimizer = torch.optim.SGD(self.module.parameters(), 0.01, momentum=0.9)

        def weights(self):
            return {name: value.detach().numpy() for name, value in self.module.state_dict().items()}

        def apply(self, gradients):
            import torch

            for parameter, gradient in zip(self.module.parameters(), gradients, strict=True):
                parameter.grad = torch.from_numpy(gradient.copy())
            self.optimizer.step()
            return self.weights()

    @ray.remote
    class Worker:
        def __init__(self, rank):
            import torch

            torch.set_num_threads(1)
            self.module, self.place = module(), rank * 32
            self.loss = torch.nn.CrossEntropyLoss()

        def gradients(self, weights):
            import torch

            self.module.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in weights.items()})
            start = self.place % 64 * BATCH
            self.place += 1
            self.module.zero_grad()
            images, labels = (torch.from_numpy(all_[start : start + BATCH]) for all_ in (IMAGES[..., 0], LABELS))
            self.loss(self.module(images), labels).backward()
            return [parameter.grad.numpy() for parameter in self.module.parameters()]

    server, workers = Server.remote(), [Worker.remote(rank) for rank in range(2)]
    weights = server.weights.remote()
    under_way = {worker.gradients.remote(weights): worker for worker in workers}
    began = time.perf_counter()
    for update in range(WARM_UP + UPDATES):
        (ready,), _ = ray.wait(list(under_way))
        worker = under_way.pop(ready)
        weights = server.apply.remote(ready)
        under_way[worker.gradients.remote(weights)] = worker
        if update == WARM_UP:
            ray.get(weights)
            began = time.perf_counter()
    ray.get(weights)
    return (UPDATES - 1) / (time.perf_counter() - began)


# -- TensorFlow -------------------------------------------------------------------------------------------------------


def _serve(kind, index, addresses):
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.distribute.Server(tf.train.ClusterSpec(addresses), job_name=kind, task_index=index, protocol="grpc").join()


def tf_servers():
    import multiprocessing
    import socket

    import tensorflow as tf

    free = [socket.socket() for _ in range(3)]
    for one in free:
        one.bind(("127.0.0.1", 0))
    names = [f"127.0.0.1:{one.getsockname()[1]}" for one in free]
    for one in free:
        one.close()
    addresses = {"worker": names[:2], "ps": names[2:]}
    spawning = multiprocessing.get_context("spawn")
    places = [("worker", 0), ("worker", 1), ("ps", 0)]
    servers = [spawning.Process(target=_serve, args=(*place, addresses), daemon=True) for place in places]
    for server in servers:
        server.start()
    spec = tf.train.ClusterSpec(addresses)
    strategy = tf.distribute.ParameterServerStrategy(
        tf.distribute.cluster_resolver.SimpleClusterResolver(spec, rpc_layer="grpc")
    )
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    shapes = [(3, 3, 1, FILTERS), (3, 3, FILTERS, FILTERS), (16 * FILTERS, WIDTH), (WIDTH, 10)]
    rng = np.random.default_rng(0)
    with strategy.scope():
        weights = [tf.Variable((0.05 * rng.normal(size=shape)).astype("float32")) for shape in shapes]
        biases = [tf.Variable(np.zeros(shape[-1], "float32")) for shape in shapes]
        speeds = [tf.Variable(np.zeros(one.shape, "float32")) for one in (*weights, *biases)]

    def batches():
        rows = tf.data.Dataset.from_tensor_slices((IMAGES, LABELS)).batch(BATCH, drop_remainder=True)
        return rows.cache().repeat().prefetch(2)

    per_worker = iter(coordinator.create_per_worker_dataset(batches))

    @tf.function
    def step(iterator):
        images, labels = next(iterator)
        with tf.GradientTape() as tape:
            found = images
            for weight, bias in zip(weights[:2], biases[:2], strict=True):
                found = tf.nn.relu(tf.nn.conv2d(found, weight, 1, "VALID") + bias)
            found = tf.nn.relu(tf.reshape(found, (BATCH, -1)) @ weights[2] + biases[2]) @ weights[3] + biases[3]
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, found))
        every = [*weights, *biases]
        for variable, speed, gradient in zip(every, speeds, tape.gradient(loss, every), strict=True):
            speed.assign(0.9 * speed - 0.01 * gradient)
            variable.assign_add(speed)

    for _ in range(WARM_UP):
        coordinator.schedule(step, args=(per_worker,))
    coordinator.join()
    began = time.perf_counter()
    for _ in range(UPDATES):
        coordinator.schedule(step, args=(per_worker,))
    coordinator.join()
    seconds = time.perf_counter() - began
    for server in servers:
        server.terminate()
    return UPDATES / seconds


if __name__ == "__main__":
    found = {"ray_actors": ray_actors, "tf_servers": tf_servers}[CONTESTANT]()
    print(json.dumps({"updates a second": found}), flush=True)
    os._exit(0)  # TensorFlow's coordinator waits for servers that are gone
