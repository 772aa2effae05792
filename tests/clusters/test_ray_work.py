"""Ray: what travels there and back, and that results are those of the serial engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import ray_clusters

import scripts
import tenfold
from tenfold import errors


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    with ray_clusters.joined(num_cpus=2) as found:
        yield found


def test_it_is_not_joined() -> None:
    """Comes first: the module's other tests are in a cluster."""
    import ray

    with pytest.raises(errors.BadCall, match=r"ray\.init"), tenfold.use(ray):
        pass


def test_what_ray_init_has_joined_is_used(ray: Any) -> None:
    with tenfold.use(ray):
        assert tenfold.map(lambda x: x * x, range(30))[:] == [x * x for x in range(30)]
    assert ray.is_initialized()


def test_no_gpu_is_counted(ray: Any) -> None:
    with pytest.raises(errors.DoesNotFit, match="num_gpus"):
        tenfold.map(abs, [1], engine=ray, gpus=1)


def test_draws_are_those_of_the_serial_engine(ray: Any) -> None:
    def draw(x: int) -> tuple[float, float, float]:
        import random

        return float(numpy.random.random()), random.random(), float(tenfold.here().rng.normal())

    expected = tenfold.map(draw, range(40), engine="serial", seed=3)[:]
    assert tenfold.map(draw, range(40), engine=ray, seed=3)[:] == expected


def test_prints_and_reports_arrive(ray: Any, capfd: pytest.CaptureFixture[str]) -> None:
    def train(x: int) -> int:
        print(f"training {x}")
        for step in range(3):
            tenfold.here().report(step, loss=x + step)
        return x

    results = tenfold.map(train, range(4), engine=ray)
    assert [(report.index, report.step, report.values["loss"]) for n in range(4) for report in results.reports(n)] == [
        (n, step, n + step) for n in range(4) for step in range(3)
    ]
    out, err = capfd.readouterr()
    assert all(f"training {x}" in out + err for x in range(4))


def test_a_large_array(ray: Any) -> None:
    data = numpy.arange(10_000_000, dtype="float64")  # 80 MB: three messages
    results = tenfold.map(lambda x: float(data[x * 1000]) + float(data[-1]), range(10), engine=ray)
    assert results[:] == [x * 1000.0 + 9_999_999.0 for x in range(10)]


def test_large_results(ray: Any) -> None:
    results = tenfold.map(lambda x: numpy.full(1_000_000, x), range(4), engine=ray)
    for x, array in enumerate(results):
        numpy.testing.assert_array_equal(array, numpy.full(1_000_000, x))


_KERAS = """
    import keras, numpy
    import tenfold

    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(2)])
    data = numpy.ones((4, 3), "float32")
    expected = model.predict(data, verbose=0)

    def use_and_make(x):
        made = keras.models.clone_model(model)
        made.set_weights([weight * x for weight in model.get_weights()])
        return model.predict(data * x, verbose=0), made

    for x, (found, made) in enumerate(tenfold.map(use_and_make, range(3), engine="ray", workers=1)):
        numpy.testing.assert_allclose(found, expected * x, rtol=1e-5)
        numpy.testing.assert_allclose(made.predict(data, verbose=0), expected * x, rtol=1e-5)
    print("equal")
"""


@pytest.mark.slow
def test_keras_models_travel_both_ways(tmp_path: Path) -> None:
    assert scripts.run(tmp_path, _KERAS, seconds=120).out.splitlines()[-1] == "equal"
