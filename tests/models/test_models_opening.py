"""Which values are models, and why others are not. Without a framework; theirs are in test_models_contract.py."""

from __future__ import annotations

import json
import threading
import zipfile
from pathlib import Path
from typing import Any

import numpy
import pytest

import scripts
from tenfold.errors import BadCall
from tenfold.models.batching import batched
from tenfold.models.model import KEPT, Model, loaded
from tenfold.models.opening import model


class Result:
    """What tenfold gives for a model that it has trained looks like this."""

    def __init__(self, found: Any) -> None:
        self._found = found

    def model(self) -> Any:
        return self._found


class Held:
    def __init__(self, found: Any) -> None:
        self.model = found


Result.__module__ = Held.__module__ = "tenfold.fuse.result"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (3, "int is no model; expected a Keras model"),
        (None, "NoneType is no model"),
        (dict, "a class, not a model made from it"),
        ("model.pkl", "a pickle runs whatever code is in it"),
        (Path("weights.pt"), "a pickle runs whatever code is in it"),
        ("old.h5", "not in the format of Keras 3"),
        ("model.onnx", "expected a name that ends with .keras"),
        ("missing.keras", "cannot be read"),
    ],
)
def test_what_is_no_model_is_refused(value: Any, words: str) -> None:
    with pytest.raises(BadCall, match=words):
        model(value)


def test_a_function_that_cannot_travel_is_refused() -> None:
    lock = threading.Lock()
    with pytest.raises(BadCall, match=r"a function that cannot be sent to a worker: TypeError: .*lock"):
        model(lambda rows: (lock, rows))


def test_output_is_a_name() -> None:
    with pytest.raises(BadCall, match="output=3: expected a name"):
        model(len, output=3)  # type: ignore[arg-type]


def test_a_file_that_is_no_model_of_keras_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.keras"
    path.write_text("no zip")
    with pytest.raises(BadCall, match="not a model that Keras 3 has saved: BadZipFile"):
        model(path)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("other.json", "{}")
    with pytest.raises(BadCall, match="not a model that Keras 3 has saved: KeyError"):
        model(path)


def test_code_in_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "code.keras"
    config = {"class_name": "Lambda", "config": {"function": {"class_name": "__lambda__", "config": {"code": "4wEA"}}}}
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("config.json", json.dumps({"config": {"layers": [config]}}))
    with pytest.raises(BadCall, match="has a Lambda layer, which is code inside a file"):
        model(path)


@pytest.mark.parametrize("kind", [Result, Held])
def test_what_tenfold_has_trained_is_opened(kind: Any) -> None:
    class Double:
        def fit(self) -> None: ...

        def predict(self, rows: Any) -> Any:
            return rows * 2

    found = model(kind(Double()))
    assert batched(loaded(found), numpy.arange(5), 2).tolist() == [0, 2, 4, 6, 8]


def test_a_model_is_its_own_model() -> None:
    found = model(len)
    assert model(found) is found
    with pytest.raises(BadCall, match="opened with output=None"):
        model(found, output="other")


def test_an_estimator_says_what_it_has() -> None:
    class Clusters:
        def fit(self) -> None: ...

        def transform(self, rows: Any) -> Any:
            return rows

    with pytest.raises(BadCall, match="output='predict': Clusters has 'transform'; give one of them"):
        model(Clusters())
    with pytest.raises(BadCall, match="output='inverse'"):
        model(Clusters(), output="inverse")


class Numbered(Model):
    """A model that counts how often it is loaded."""

    loads = 0

    def load(self) -> Any:
        type(self).loads += 1
        return model(len).load()

    def describe(self) -> str:
        return "a number"


def test_a_process_keeps_the_last_models() -> None:
    made = [Numbered(bytes([n])) for n in range(KEPT + 1)]
    Numbered.loads = 0
    for _ in range(3):
        for one in made[:KEPT]:
            loaded(one)
    assert Numbered.loads == KEPT
    loaded(made[KEPT])
    loaded(made[1])
    assert Numbered.loads == KEPT + 1
    loaded(made[0])  # the one that was used longest ago
    assert Numbered.loads == KEPT + 2


class Failing(Model):
    """A model that cannot be loaded at first."""

    loads = 0

    def load(self) -> Any:
        type(self).loads += 1
        if self.loads == 1:
            raise BadCall("not now")
        return model(len).load()

    def describe(self) -> str:
        return "trouble"


def test_a_load_that_fails_is_tried_again() -> None:
    failing = Failing(b"")
    with pytest.raises(BadCall, match="not now"):
        loaded(failing)
    assert loaded(failing) is loaded(failing)
    assert Failing.loads == 2


def test_opening_imports_no_framework(tmp_path: Path) -> None:
    text = """
        import sys
        from tenfold.models.opening import model
        model(len)
        print([name for name in ("keras", "tensorflow", "torch", "jax", "sklearn", "pandas") if name in sys.modules])
    """
    assert scripts.run(tmp_path, text).out.strip() == "[]"
