"""Resize 1,000 images on every core, and find them on disk, ready for any framework.

What `joblib.Parallel(delayed(resize)(image) for image in images)` is asked for. There, every image and every result
goes through a pickle; here, workers read rows where they are, and write theirs into one file. What fails is left out.
"""

import tempfile
import warnings

import tenfold
import numpy as np
from PIL import Image


def resize(image):
    if not np.isfinite(image).all():
        raise ValueError("there is no number in some places")
    colours = [Image.fromarray(image[:, :, colour]).resize((64, 64), Image.Resampling.BILINEAR) for colour in range(3)]
    return np.stack([np.asarray(colour) for colour in colours], axis=-1)


images = np.random.default_rng(0).random((1000, 128, 128, 3), dtype="float32")
images[[17, 470]] = np.nan
warnings.simplefilter("ignore")  # what it would say is printed below

with tempfile.TemporaryDirectory() as folder:
    prepared = tenfold.prepare(resize, images, f"{folder}/small")
    print(prepared.describe())
    for fault in prepared.quarantine:
        print(f"left out: image {fault['sample']}, {fault['error']}")

    rows = prepared.numpy()  # a NumPy array whose content stays in the file until it is used
    print(f"as one array: {rows.shape} of {rows.dtype}")
    for number in range(3):
        print(f"row {number}: mean {images[number].mean():.4f} before, {rows[number].mean():.4f} after")

    again = tenfold.prepare(resize, images, f"{folder}/small")  # the same call: returns at once
    print(f"the second call: {len(again)} rows, nothing is done again")
    training, test = again.split(0.8, 0.2, seed=0)
    print(f"split: {len(training)} rows to train with, {len(test)} to test with")
    print(f"damaged rows: {again.verify()}")
    assert [fault["sample"] for fault in again.quarantine] == [17, 470]
    assert rows.shape == (998, 64, 64, 3)
