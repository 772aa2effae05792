"""What training and rebuilding models in the caller's own process, on JAX, leaves there as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest

import scripts

_SCRIPT = """
    import dataclasses, json, os, random
    import keras
    import jax
    import numpy
    import tenfold

    x = numpy.random.default_rng(0).normal(size=(60, 5)).astype("float32")
    y = (x[:, 0] > 0).astype("int64")
    shared = keras.optimizers.Adam(0.01)

    @dataclasses.dataclass
    class Build:
        '''Equal ones are equal, so it has no hash.'''
        units: int = 2

        def __call__(self, widths=(), own=True):
            model = keras.Sequential([keras.Input((5,))])
            while widths:
                model.add(keras.layers.Dense(widths.pop()))
            model.add(keras.layers.Dense(self.units, "softmax"))
            optimizer = keras.optimizers.Adam(0.01) if own else shared
            model.compile(optimizer, "sparse_categorical_crossentropy")
            return model

    def settings():
        names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
        return [str(jax.config.values[name]) for name in names]

    def drawn():
        return [random.random(), numpy.random.rand(), float(keras.random.uniform(()))]

    def seeded():
        keras.utils.set_random_seed(7)

    jax.config.update("jax_compilation_cache_dir", os.path.abspath("mine"))
    before = settings()
    fit = tenfold.Fit(Build(), (x, y), epochs=1)
    results = tenfold.map(fit, [dict(widths=[4, 3], seed=n) for n in range(2)], engine="serial", progress=False)
    after = settings()
    seeded()
    expected = drawn()
    seeded()
    models = [result.model() for result in results]
    found = drawn()

    alone = tenfold.Fit(Build(), (x, y), epochs=1, how="alone")
    alone(dict(own=False, seed=0))
    try:
        alone(dict(own=False, seed=1))
    except tenfold.BadCall as error:
        refused = str(error)
    for number, model in enumerate(models):
        model.name = f"model_{number}"
    entry = keras.Input((5,))
    ensemble = keras.Model(entry, keras.layers.average([model(entry) for model in models]))
    mean = numpy.mean([model.predict(x, verbose=0) for model in models], axis=0)
    print(json.dumps(dict(
        how=[result.how for result in results],
        settings=[before, after],
        drawn=[expected, found],
        params=[result.params["widths"] for result in results],
        weights=[len(model.get_weights()) for model in models],
        refused=refused,
        apart=float(numpy.abs(ensemble.predict(x, verbose=0) - mean).max()),
    )))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    variables = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", **scripts.HASTY}
    ended = scripts.run(tmp_path_factory.mktemp("caller"), _SCRIPT, variables)
    return dict(json.loads(ended.out.splitlines()[-1]))


@pytest.mark.slow
def test_settings_of_jax_are_the_callers_again(told: dict[str, Any]) -> None:
    assert all(how.startswith("fused: 2 models") for how in told["how"])
    before, after = told["settings"]
    assert after == before


@pytest.mark.slow
def test_random_numbers_go_on_where_a_model_was_rebuilt(told: dict[str, Any]) -> None:
    expected, found = told["drawn"]
    assert found == expected


@pytest.mark.slow
def test_build_may_empty_a_list_that_it_is_given(told: dict[str, Any]) -> None:
    assert told["params"] == [[4, 3], [4, 3]]
    assert told["weights"] == [6, 6]


@pytest.mark.slow
def test_an_optimizer_of_two_models_is_refused_where_it_remembers_the_first(told: dict[str, Any]) -> None:
    assert told["refused"].startswith("build returned an optimizer that another model has, too")


@pytest.mark.slow
def test_rebuilt_models_are_one_model_once_they_have_names_of_their_own(told: dict[str, Any]) -> None:
    assert told["apart"] < 1e-6
