"""Trains one convolutional net: `train_net.py CONTESTANT NET`. Prints steps a second, and seconds to the first step.

NET is small (about 77,000 parameters, batches of 64), big (302,000, 256) or wide (a compute-bound net of 2.1 million
parameters, batches of 256), on images of 8 x 8. Steps a second are those of a training under way: compilation and
starts are in the seconds to the first step, which count from the call, after the imports of this script. Of tenfold,
whose steps are in workers, a long training is compared with a short one.
"""

import importlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

contestant, net = sys.argv[1:3]
NETS = {"small": (32, 128, 64), "big": (64, 256, 256), "wide": (64, 2048, 256)}
FILTERS, WIDTH, BATCH = NETS[net]
SECONDS, WARM_UP = 4.0, 30
KERAS = contestant in ("keras_fit", "mirrored_fit", "tf_1", "tf_2", "mwms") or contestant.startswith("tenfold_keras")
if KERAS:
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
LIBRARIES = [
    *(["tenfold"] if contestant.startswith("tenfold") else []),  # first: it notices what is imported after it
    "keras" if KERAS else "torch",
    *(["ray.train.torch"] if contestant == "ray_train" else []),
]
for name in LIBRARIES if __name__ == "__main__" else ():
    importlib.import_module(name)

ROWS = 64 * BATCH
IMAGES = np.random.default_rng(0).normal(size=(ROWS, 8, 8, 1)).astype("float32")
LABELS = np.random.default_rng(1).integers(0, 10, ROWS)


def in_keras():
    import keras

    layers = [
        keras.layers.Conv2D(FILTERS, 3, activation="relu"),
        keras.layers.Conv2D(FILTERS, 3, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(WIDTH, activation="relu"),
        keras.layers.Dense(10),
    ]
    model = keras.Sequential([keras.Input((8, 8, 1)), *layers])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.01, momentum=0.9), loss)
    return model


def in_torch():
    import torch
    from torch import nn

    module = nn.Sequential(
        nn.Unflatten(1, (1, 8)),
        nn.Conv2d(1, FILTERS, 3),
        nn.ReLU(),
        nn.Conv2d(FILTERS, FILTERS, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * FILTERS, WIDTH),
        nn.ReLU(),
        nn.Linear(WIDTH, 10),
    )
    return module, nn.CrossEntropyLoss(), torch.optim.SGD(module.parameters(), 0.01, momentum=0.9)


# -- peers ------------------------------------------------------------------------------------------------------------


def timed(step, began):
    """Steps a second of a loop, and seconds to its first step."""
    step(0)
    first = time.perf_counter() - began
    for place in range(1, WARM_UP):
        step(place)
    start, done = time.perf_counter(), 0
    while time.perf_counter() - start < SECONDS:
        step(WARM_UP + done)
        done += 1
    return done / (time.perf_counter() - start), first


def torch_step(module, loss, optimizer, count=1, rank=0):
    import torch

    images, labels = torch.from_numpy(IMAGES[..., 0]), torch.from_numpy(LABELS)
    share = BATCH // count

    def step(place):
        start = place % 64 * BATCH + rank * share
        optimizer.zero_grad()
        loss(module(images[start : start + share]), labels[start : start + share]).backward()
        optimizer.step()

    return step


def torch_threads(threads):
    import torch

    began = time.perf_counter()
    torch.set_num_threads(threads)
    return timed(torch_step(*in_torch()), began)


def tf_threads(threads):
    import tensorflow as tf

    began = time.perf_counter()
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    model = in_keras()
    images, labels = tf.constant(IMAGES), tf.constant(LABELS)

    @tf.function
    def step(place):
        start = place % 64 * BATCH
        with tf.GradientTape() as tape:
            found = model.loss(labels[start : start + BATCH], model(images[start : start + BATCH], training=True))
        gradients = tape.gradient(found, model.trainable_variables)
        model.optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return found

    return timed(lambda place: step(tf.constant(place)), began)


def keras_fit(strategy=None):
    import contextlib

    import keras

    began = time.perf_counter()
    with strategy.scope() if strategy is not None else contextlib.nullcontext():
        model = in_keras()
    moments = []
    noting = keras.callbacks.LambdaCallback(on_train_batch_end=lambda _, logs=None: moments.append(time.perf_counter()))
    epochs = 4 if net == "small" else 2
    model.fit(IMAGES, LABELS, batch_size=BATCH, epochs=1 + epochs, verbose=0, callbacks=[noting])
    return (len(moments) - 64) / (moments[-1] - moments[63]), moments[0] - began


def mirrored_fit():
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    return keras_fit(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]))


def _ddp(rank, port, queue, began):
    import torch
    import torch.distributed

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    torch.manual_seed(0)
    module, loss, _ = in_torch()
    module = torch.nn.parallel.DistributedDataParallel(module)
    optimizer = torch.optim.SGD(module.parameters(), 0.01, momentum=0.9)
    found = _counted(torch_step(module, loss, optimizer, 2, rank), began)
    if rank == 0:
        queue.put(found)
    torch.distributed.destroy_process_group()


def _counted(step, began):
    """As `timed`, with the same number of steps in every process: if one stopped earlier, the others would wait."""
    step(0)
    first = time.time() - began
    for place in range(1, WARM_UP):
        step(place)
    start, count = time.perf_counter(), {"small": 800, "big": 250, "wide": 60}[net]
    for place in range(count):
        step(WARM_UP + place)
    return count / (time.perf_counter() - start), first


def ddp():
    return _processes(_ddp)


def _processes(target):
    import multiprocessing
    import socket

    spawning = multiprocessing.get_context("spawn")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    queue, began = spawning.Queue(), time.time()
    workers = [spawning.Process(target=target, args=(rank, port, queue, began)) for rank in range(2)]
    for worker in workers:
        worker.start()
    found = queue.get(timeout=120)
    for worker in workers:
        worker.join()
    return found


def _mwms(rank, port, queue, began):
    addresses = [f"127.0.0.1:{port}", f"127.0.0.1:{port + 1}"]
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}})
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = in_keras()
        model.optimizer.build(model.trainable_variables)
    images, labels = tf.constant(IMAGES), tf.constant(LABELS)
    share = BATCH // 2

    @tf.function
    def step(place):
        def own():
            start = place % 64 * BATCH + rank * share
            with tf.GradientTape() as tape:
                found = (
                    model.loss(labels[start : start + share], model(images[start : start + share], training=True)) / 2
                )
            gradients = tape.gradient(found, model.trainable_variables)
            context = tf.distribute.get_replica_context()
            gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
            model.optimizer.apply(gradients, model.trainable_variables)
            return found

        return strategy.run(own)

    found = _counted(lambda place: step(tf.constant(place)), began)
    if rank == 0:
        queue.put(found)


def mwms():
    return _processes(_mwms)


def ray_train():
    import ray
    from ray.train import ScalingConfig
    from ray.train.torch import TorchTrainer, prepare_model

    began = time.time()

    def loop():
        import torch

        torch.set_num_threads(1)
        module, loss, _ = in_torch()
        module = prepare_model(module)
        optimizer = torch.optim.SGD(module.parameters(), 0.01, momentum=0.9)
        rank = ray.train.get_context().get_world_rank()
        speed, first = _counted(torch_step(module, loss, optimizer, 2, rank), began)
        if rank == 0:  # what is reported without a checkpoint does not come back
            answer.write_text(json.dumps([speed, first]))

    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer"
        ray.init(include_dashboard=False, logging_level="error", log_to_driver=False)
        TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=2)).fit()
        return json.loads(answer.read_text())


# -- tenfold ----------------------------------------------------------------------------------------------------------


def tenfold_trains(build, images, **settings):
    import tenfold

    def seconds(epochs):
        fit = tenfold.Fit(build, (images, LABELS), epochs=epochs, batch_size=BATCH)
        began = time.perf_counter()
        tenfold.train(fit, {"seed": 0}, progress=False, **settings)
        return time.perf_counter() - began

    first = seconds(1)
    chooses = not settings  # then a training is so long that to choose among workers pays; what that takes counts
    long = {"small": 400 if chooses else 24, "big": 16, "wide": 6}[net]
    longer, shorter = seconds(1 + long), seconds(1)
    speed = 64 * long / (longer - shorter)
    return speed, first - 63 / speed


CONTESTANTS = {
    "torch_1": lambda: torch_threads(1),
    "torch_2": lambda: torch_threads(2),
    "tf_1": lambda: tf_threads(1),
    "tf_2": lambda: tf_threads(2),
    "keras_fit": keras_fit,
    "mirrored_fit": mirrored_fit,
    "ddp": ddp,
    "mwms": mwms,
    "ray_train": ray_train,
    "tenfold_torch": lambda: tenfold_trains(in_torch, IMAGES[..., 0]),
    "tenfold_torch_2": lambda: tenfold_trains(in_torch, IMAGES[..., 0], workers=2),
    "tenfold_torch_ring": lambda: tenfold_trains(in_torch, IMAGES[..., 0], workers=2, exchange="ring"),
    "tenfold_torch_gloo": lambda: tenfold_trains(in_torch, IMAGES[..., 0], workers=2, exchange="gloo"),
    "tenfold_torch_async": lambda: tenfold_trains(in_torch, IMAGES[..., 0], workers=2, how="asynchronous"),
    "tenfold_keras": lambda: tenfold_trains(in_keras, IMAGES),
    "tenfold_keras_2": lambda: tenfold_trains(in_keras, IMAGES, workers=2),
    "tenfold_keras_ring": lambda: tenfold_trains(in_keras, IMAGES, workers=2, exchange="ring"),
    "tenfold_keras_async": lambda: tenfold_trains(in_keras, IMAGES, workers=2, how="asynchronous"),
}

if __name__ == "__main__":
    speed, first = CONTESTANTS[contestant]()
    print(json.dumps({"steps a second": speed, "seconds to the first": first}))
