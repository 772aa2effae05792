"""TensorFlow is seeded without throwing its kernels away, and draws what `tf.random.set_seed` makes it draw."""

from __future__ import annotations

from pathlib import Path

import scripts

SCRIPT = """
    import tensorflow as tf
    from tenfold.frameworks import tensorflow

    def draw():
        layer = tf.keras.layers.Dense(2)
        layer.build((None, 3))
        return [float(tf.random.normal(())), float(tf.random.uniform((), seed=7)), float(tf.random.normal(())),
                float(tf.reduce_sum(tf.nn.dropout(tf.ones(50), 0.5)))]

    seeds = [5, 6, 5, 5, *range(100, 100 + 2 * tensorflow._KEPT_SEEDS), 100, 5]

    def drawn(seed):
        found = []
        for number in seeds:
            seed(number)
            found.append(draw())
        return found

    assert drawn(tensorflow.Member().seed) == drawn(tf.random.set_seed)
    print("the same")
"""


def test_the_numbers_are_those_of_set_seed(tmp_path: Path) -> None:
    ended = scripts.run(tmp_path, SCRIPT, {"TF_CPP_MIN_LOG_LEVEL": "3"})
    assert ended.out.strip().endswith("the same"), ended.err
