"""A script with modules beside it, on Dask workers that were started elsewhere; and models of Keras."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import dask_clusters
import pytest
from dask_clusters import Cluster

import scripts


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with dask_clusters.running(threads=[2]) as found:
        yield found


_FILES = {
    "project/__init__.py": "from .models import Point\n",
    "project/models.py": """
from dataclasses import dataclass
from . import consts

@dataclass
class Point:
    x: int
    y: int

    def moved(self):
        return Point(self.x + consts.STEP, self.y)
""",
    "project/consts.py": "STEP = 10\n",
    "project/deep/__init__.py": "",
    "project/deep/late.py": "from .. import consts\nfrom . import later\n\nfar = lambda: consts.STEP * later.TIMES\n",
    "project/deep/later.py": "TIMES = 7\n",
    "beside.py": "def twice(x):\n    import beside_too\n    return beside_too.double(x)\n",
    "beside_too.py": "def double(x):\n    return 2 * x\n",
}

_SCRIPT = """
    import json
    import project
    import tenfold
    from beside import twice

    class Own:  # of the script itself
        def __init__(self, n):
            self.n = n

    def work(point):
        import project.deep.late  # not before it is called
        import beside
        return point.moved(), twice(point.y), project.deep.late.far(), Own(point.x), beside.__file__

    items = [project.Point(n, n + 1) for n in range(6)]
    results = tenfold.map(work, items, engine={engine!r})
    assert all(type(moved) is project.Point and type(own) is Own for moved, _, _, own, _ in results)
    print(json.dumps([[moved.x, moved.y, double, far, own.n, file] for moved, double, far, own, file in results]))
"""


def _write(folder: Path) -> None:
    for name, text in _FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_modules_beside_a_script_reach_the_workers(cluster: Cluster, tmp_path: Path) -> None:
    _write(tmp_path)
    found = json.loads(scripts.run(tmp_path, _SCRIPT.format(engine=cluster.address)).out)
    assert [line[:5] for line in found] == [[n + 10, n + 1, 2 * (n + 1), 70, n] for n in range(6)]
    assert not any(line[5].startswith(str(tmp_path)) for line in found), "the workers have seen the script's folder"


def test_a_changed_module_is_used_by_the_next_call(cluster: Cluster, tmp_path: Path) -> None:
    """A node keeps its nursery, but no module of a caller."""
    _write(tmp_path)
    scripts.run(tmp_path, _SCRIPT.format(engine=cluster.address))
    (tmp_path / "project" / "consts.py").write_text("STEP = 1000\n")
    found = json.loads(scripts.run(tmp_path, _SCRIPT.format(engine=cluster.address)).out)
    assert [line[0] for line in found] == [n + 1000 for n in range(6)]


def test_what_a_module_would_import_later_is_not_imported_here(cluster: Cluster, tmp_path: Path) -> None:
    """A module is searched for imports; a package that is installed is not loaded for that."""
    (tmp_path / "beside.py").write_text("def never():\n    import sklearn.tree\n    import torch.nn.functional\n")
    text = f"""
        import sys
        import beside
        import tenfold
        before = {{"sklearn", "torch"}} & set(sys.modules)
        assert list(tenfold.map(lambda x: callable(beside.never), range(2), engine={cluster.address!r})) == [True, True]
        assert not before
        print(sorted({{"sklearn", "torch"}} & set(sys.modules)))
    """
    assert scripts.run(tmp_path, text).out.strip() == "[]"


_KERAS = """
    import json
    import numpy
    import keras
    import tenfold

    def model(seed):
        keras.utils.set_random_seed(seed)
        found = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3, "relu"), keras.layers.Dense(1)])
        found.compile("sgd", "mse")
        return found

    shared = model(0)
    data = numpy.linspace(0, 1, 32, dtype="float32").reshape(8, 4)

    def predict(item):
        return shared(data).numpy() + item(data).numpy()

    def train(item):
        item.fit(data, data.sum(1), epochs=2, verbose=0, shuffle=False)
        return item

    items = [model(n) for n in (1, 2)]
    plain = [predict(item) for item in items]
    both = tenfold.map(lambda item: (predict(item), train(item)), items, engine={engine!r}, progress=False)
    sums, trained = zip(*both)
    assert all(numpy.allclose(a, b, atol=1e-6) for a, b in zip(sums, plain, strict=True))

    assert all(isinstance(item, keras.Sequential) for item in trained)
    for ours, item in zip(trained, items, strict=True):
        before = item.get_weights()
        train(item)
        assert any(not numpy.allclose(a, b) for a, b in zip(before, ours.get_weights(), strict=True))
        assert all(numpy.allclose(a, b, atol=1e-5) for a, b in zip(item.get_weights(), ours.get_weights(), strict=True))
    print(json.dumps([keras.backend.backend(), len(trained)]))
"""


def test_models_of_keras_are_closed_over_given_and_returned(cluster: Cluster, tmp_path: Path) -> None:
    variables = {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
    with scripts.started(tmp_path, _KERAS.format(engine=cluster.address), variables) as script:
        ended = script.end(90)
    assert ended.status == 0, ended.err
    assert json.loads(ended.out.splitlines()[-1]) == ["tensorflow", 2]
