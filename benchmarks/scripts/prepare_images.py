"""Prepares images with one library: `prepare_images.py CONTESTANT TASK SOURCE FOLDER`. Prints seconds and a checksum.

TASK is skimage or pillow (float images to 64 x 64), tiny (a few arithmetic operations on a number), or branch (the same
and a question). Everybody reads the same .npy file, which is mapped, and ends with all results in one array, in order.
What is timed is everything after the imports: pools and clusters are started by the contestants' own first call.
"""

import importlib
import json
import sys
import time

import numpy as np

contestant, task, source, folder = sys.argv[1:5]

LIBRARIES = {
    "tenfold": ["tenfold"],
    "tenfold_batched": ["tenfold"],
    "joblib": ["joblib"],
    "pool": ["multiprocessing"],
    "dask": ["dask.array", "distributed"],
    "ray": ["ray", "ray.data"],
    "tf_data": ["tensorflow"],
}
for name in LIBRARIES.get(contestant, ()):
    importlib.import_module(name)

if task == "skimage":
    from skimage.transform import resize

    def work(image):
        return resize(image, (64, 64))

elif task == "pillow":
    from PIL import Image

    def work(image):
        planes = [Image.fromarray(image[:, :, plane]).resize((64, 64)) for plane in range(3)]
        return np.stack([np.asarray(plane) for plane in planes], axis=-1)

elif task == "tiny":

    def work(value):
        for _ in range(30):
            value = value * 0.5 + 1.0
        return value

else:

    def work(value):
        for _ in range(30):
            value = value * 0.5 + 1.0
        return value if value > 0 else 0.0


if contestant.startswith("tenfold"):
    from tenfold import prepare  # noqa: F401  # verbs are imported when they are first named


def loop():
    return np.stack([work(one) for one in np.load(source, mmap_mode="r")])


def tenfold():
    import tenfold

    return tenfold.prepare(work, source, folder, progress=False).numpy()


def tenfold_batched():
    """The function takes arrays as well as numbers, so it can be given many at once."""
    import tenfold

    return tenfold.prepare(work, source, folder, batched=True, progress=False).numpy()


def joblib():
    from joblib import Parallel, delayed

    return np.array(Parallel(n_jobs=-1)(delayed(work)(one) for one in np.load(source, mmap_mode="r")))


def pool():
    import multiprocessing

    images = np.load(source, mmap_mode="r")
    with multiprocessing.Pool() as workers:
        return np.array(workers.map(work, images, chunksize=max(1, len(images) // 64)))


def dask():
    import dask.array
    from distributed import Client

    images = np.load(source, mmap_mode="r")

    def block(_, block_info):
        start, stop = block_info[0]["array-location"][0]
        return np.stack([work(one) for one in np.load(source, mmap_mode="r")[start:stop]])

    shape = (64, 64, 3) if task != "tiny" else ()
    with Client(processes=True, n_workers=2, threads_per_worker=1, dashboard_address=None):
        ones = (1,) * len(shape)
        places = dask.array.zeros((len(images), *ones), chunks=(max(1, len(images) // 64), *ones))
        sizes = (places.chunks[0], *((n,) for n in shape))
        return dask.array.map_blocks(block, places, dtype=images.dtype, chunks=sizes).compute()


def ray():
    import ray

    count = len(np.load(source, mmap_mode="r"))
    rows = max(1, count // 64)
    ray.init(include_dashboard=False, logging_level="error", log_to_driver=False)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.preserve_order = True

    def block(batch):
        images = np.load(source, mmap_mode="r")
        places = [image for place in batch["id"] for image in images[place * rows : (place + 1) * rows]]
        return {"data": np.stack([work(one) for one in places])}

    data = ray.data.range(-(-count // rows), override_num_blocks=-(-count // rows))
    arrays = [batch["data"] for batch in data.map_batches(block, batch_size=1).iter_batches(batch_size=None)]
    ray.shutdown()
    return np.concatenate(arrays)


def tf_data():
    import tensorflow as tf

    images = np.load(source, mmap_mode="r")
    shape = (64, 64, 3) if task != "tiny" else ()

    def generate():
        yield from images

    def mapped(one):
        found = tf.numpy_function(work, [one], images.dtype)
        found.set_shape(shape)
        return found

    signature = tf.TensorSpec(images.shape[1:], images.dtype)
    data = tf.data.Dataset.from_generator(generate, output_signature=signature)
    data = (
        data.map(mapped, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).batch(256).prefetch(tf.data.AUTOTUNE)
    )
    return np.concatenate(list(data.as_numpy_iterator()))


if __name__ == "__main__":
    np.load(source, mmap_mode="r").sum()  # from here on, all have the file in the page cache
    began = time.perf_counter()
    found = globals()[contestant]()
    seconds = time.perf_counter() - began
    print(json.dumps({"seconds": seconds, "rows": len(found), "sum": float(np.asarray(found, "f8").mean())}))
