"""How much of a core's speed does a fused program reach? Prints two numbers: floating-point operations a second of
the fused dense model's training steps, and of a plain matrix multiplication, both in one worker of tenfold.
"""

import time

import tenfold

tenfold.warm("fuse")

from many_models import BATCH, digits  # noqa: E402

FLOPS = 6 * BATCH * (64 * 128 + 128 * 10)  # of a step of one model: forward, and twice that backward
MODELS = 64


def build(lr):
    import keras

    layers = keras.layers
    model = keras.Sequential(
        [keras.Input((64,)), layers.Dense(128, activation="relu"), layers.Dense(10, activation="softmax")]
    )
    model.compile(keras.optimizers.Adam(lr), "sparse_categorical_crossentropy")
    return model


def peak(_):
    import jax
    import jax.numpy as jnp

    a = jnp.ones((1024, 1024), jnp.float32)
    multiply = jax.jit(lambda a: a @ a)
    jax.block_until_ready(multiply(a))
    seconds = []
    for _ in range(10):
        began = time.perf_counter()
        jax.block_until_ready(multiply(a))
        seconds.append(time.perf_counter() - began)
    return 2 * 1024**3 / min(seconds)


fit = tenfold.Fit(build, digits(), epochs=5, batch_size=BATCH)
plan = fit.explain([{"lr": 1e-3, "seed": seed} for seed in range(MODELS)], workers=1)
fused = MODELS * FLOPS / plan.findings[0].step_seconds
print(f"{fused} {tenfold.map(peak, [0], workers=1, progress=False)[0]}")
