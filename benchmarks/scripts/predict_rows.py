"""Predicts rows of a file with one library: `predict_rows.py CONTESTANT SOURCE MODEL TO`. Prints seconds and a check.

The model is a .keras file, on TensorFlow. Everybody ends with all predictions in order: tenfold in a file, the others
in memory. What is timed is everything after the imports; whoever has workers loads the model in them, from its file.
`memory` predicts rows that are in memory already, in two processes with one thread each: what these cores can reach.
"""

import importlib
import json
import os
import sys
import time

import numpy as np

contestant, source, path, to = sys.argv[1:5]
LIBRARIES = {
    # tenfold first: it notices what is imported after it; its verbs are imported when they are first named
    "tenfold": ["tenfold", "keras", "tenfold.verbs.predict"],
    "keras_predict": ["keras"],
    "dask": ["keras", "dask.array", "distributed"],
    "ray": ["keras", "ray", "ray.data"],
    "memory": ["keras"],
}
for name in LIBRARIES[contestant] if __name__ == "__main__" else ():
    importlib.import_module(name)

BATCH = 1024


def tenfold():
    import tenfold

    return tenfold.predict(path, source, to, memory="1.5GB", progress=False).numpy()


def keras_predict():
    import keras

    model = keras.models.load_model(path)
    return model.predict(np.load(source, mmap_mode="r"), batch_size=BATCH, verbose=0)


BLOCK = 25_000
"""Rows that a task of the peers reads from the file: 78 MB."""


def dask():
    import dask.array
    from distributed import Client, get_worker

    count = len(np.load(source, mmap_mode="r"))

    def block(_, block_info):
        worker = get_worker()
        if not hasattr(worker, "model"):
            import keras

            worker.model = keras.models.load_model(path)
        start, stop = block_info[0]["array-location"][0]
        return worker.model.predict(np.load(source, mmap_mode="r")[start:stop], batch_size=BATCH, verbose=0)

    with Client(processes=True, n_workers=2, threads_per_worker=1, dashboard_address=None):
        places = dask.array.zeros((count, 1), chunks=(BLOCK, 1))
        return dask.array.map_blocks(block, places, dtype="float32", chunks=(places.chunks[0], (10,))).compute()


class Predictor:
    """What Ray keeps in each of its actors."""

    def __init__(self):
        import keras

        self.model = keras.models.load_model(path)
        self.rows = np.load(source, mmap_mode="r")

    def __call__(self, batch):
        blocks = [self.rows[place * BLOCK : (place + 1) * BLOCK] for place in batch["id"]]
        return {"data": np.concatenate([self.model.predict(b, batch_size=BATCH, verbose=0) for b in blocks])}


def ray():
    import ray

    count = len(np.load(source, mmap_mode="r"))
    ray.init(include_dashboard=False, logging_level="error", log_to_driver=False)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.preserve_order = True
    data = ray.data.range(-(-count // BLOCK), override_num_blocks=-(-count // BLOCK))
    found = data.map_batches(Predictor, concurrency=2, batch_size=1)
    arrays = [batch["data"] for batch in found.iter_batches(batch_size=None)]
    ray.shutdown()
    return np.concatenate(arrays)


def one_in_memory(seconds, ready):
    """Predicts the same rows over and over for some seconds; returns rows a second."""
    import keras
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    model = keras.models.load_model(path)
    rows = tf.constant(np.load(source, mmap_mode="r")[: 64 * BATCH])
    function = tf.function(lambda batch: model(batch, training=False), jit_compile=False).get_concrete_function(
        tf.TensorSpec((BATCH, rows.shape[1]), tf.float32)
    )
    function(rows[:BATCH])
    ready.wait()
    began, done = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        for start in range(0, len(rows), BATCH):
            np.asarray(function(rows[start : start + BATCH]))
        done += len(rows)
    return done / (time.perf_counter() - began)


def in_memory(place, ready, found):
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[place]})
    found.put(one_in_memory(8.0, ready))


def memory():
    """Rows a second of both cores together."""
    import multiprocessing

    spawning = multiprocessing.get_context("spawn")
    ready, found = spawning.Barrier(2), spawning.Queue()
    workers = [spawning.Process(target=in_memory, args=(place, ready, found)) for place in range(2)]
    for worker in workers:
        worker.start()
    speed = sum(found.get() for _ in workers)
    for worker in workers:
        worker.join()
    return speed


if __name__ == "__main__":
    if contestant == "memory":
        print(json.dumps({"speed": memory()}))
    else:
        began = time.perf_counter()
        predicted = globals()[contestant]()
        seconds = time.perf_counter() - began
        print(
            json.dumps({"seconds": seconds, "rows": len(predicted), "sum": float(predicted[::97].astype("f8").std())})
        )
