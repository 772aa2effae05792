"""What identifies a call: equal in every interpreter, blind to comments, and able to name what has changed."""

from __future__ import annotations

import collections
import json
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import scripts
from tenfold.journal import digest, fingerprint

# -- equal in every interpreter ---------------------------------------------------------------------------------------

SCRIPT = """
import collections, dataclasses, enum, functools, json, math, pathlib, random, sys
import numpy as np
from tenfold.journal import digest, fingerprint

@dataclasses.dataclass
class Config:
    rate: float
    layers: tuple
    def scaled(self):
        return self.rate * SCALE

class Kind(enum.Enum):
    A = "a"

class Trainer:
    def __init__(self, rate):
        self.rate = rate
    def train(self, x):
        return x * self.rate + helper(x)

SCALE = 3
LABELS = {"cat", "dog", "bird", "fish", "horse"}
FROZEN = frozenset(["x", "y", "z", "w"])
NESTED = {"groups": [{"p", "q", "r"}, ({"s", "t"},)]}
CONFIG = Config(0.1, (1, 2))
ARRAY = np.arange(50_000)
PATHS = [pathlib.Path("a"), collections.OrderedDict(b=1)]

def helper(x, scale=2.5, *, mode="fast"):
    return math.sqrt(x) * scale if mode in {"fast", "slow", "other"} else 0

def make(factor):
    def inner(x):
        return [helper(x) * factor for _ in range(3)]
    return inner

def train(x):
    return LABELS, FROZEN, NESTED, CONFIG, ARRAY, PATHS, Config, Kind.A, helper(x), SCALE, np.sin(x), random.random()

functions = {
    "train": train, "closure": make(4), "lambda": lambda x: helper(x) + SCALE, "method": Trainer(0.5).train,
    "partial": functools.partial(helper, scale=7, mode=LABELS), "builtin": abs, "library": json.dumps,
    "class": Trainer,
}
items = {
    "number": 3, "text": "text", "set": LABELS, "nested": NESTED, "config": CONFIG, "kind": Kind.A, "array": ARRAY,
    "configs": [CONFIG, CONFIG], "function": helper, "set in an object": Config(0.1, ({"a", "b", "c", "d"},)),
}
print(json.dumps({
    "functions": {name: fingerprint.of_function(function) for name, function in functions.items()},
    "items": {name: fingerprint.of_value(item).hex() for name, item in items.items()},
}))
"""

FUNCTIONS = ["train", "closure", "lambda", "method", "partial", "builtin", "library", "class"]
ITEMS = ["number", "text", "set", "nested", "config", "kind", "array", "configs", "function", "set in an object"]


@pytest.fixture(scope="module")
def interpreters(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    found = []
    for seed in ("1", "2", "random"):
        folder = tmp_path_factory.mktemp(f"hash-{seed}")
        found.append(json.loads(scripts.run(folder, SCRIPT, {"PYTHONHASHSEED": seed}).out))
    return found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_the_same_in_every_interpreter(interpreters: list[dict[str, Any]], name: str) -> None:
    first, *others = [found["functions"][name] for found in interpreters]
    assert first
    for other in others:
        assert fingerprint.differences(first, other) == []


@pytest.mark.parametrize("name", ITEMS)
def test_an_item_is_the_same_in_every_interpreter(interpreters: list[dict[str, Any]], name: str) -> None:
    assert len({found["items"][name] for found in interpreters}) == 1


# -- values -----------------------------------------------------------------------------------------------------------

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(plain)
def test_an_equal_value_has_the_same_digest(value: Any) -> None:
    import copy

    again = copy.deepcopy(value)
    assert fingerprint.of_value(again) == fingerprint.of_value(value)
    assert fingerprint.of_value([value, value]) == fingerprint.of_value([value, again])
    assert len(fingerprint.of_value(value)) == digest.SIZE


@given(plain, plain)
def test_another_value_has_another_digest(first: Any, second: Any) -> None:
    if repr(first) != repr(second):
        assert fingerprint.of_value(first) != fingerprint.of_value(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (np.zeros(5), np.zeros(6)),
        (np.zeros(50_000), np.ones(50_000)),
        (np.zeros(4), np.zeros(4, np.float32)),
        ({"a", "b"}, {"a", "c"}),
        ({"a"}, frozenset({"a"}) | {"b"}),
        (1, 1.0),
        ((1, 2), (2, 1)),
        (b"ab", "ab"),
    ],
    ids=lambda value: type(value).__name__,  # the order in which a set is shown is another one in every process
)
def test_values_that_differ(first: Any, second: Any) -> None:
    assert fingerprint.of_value(first) != fingerprint.of_value(second)


class Rows(list[int]):
    """A list of the user's, which has attributes too."""


class Table(dict[str, int]):
    """A dictionary of the user's."""


@pytest.mark.parametrize(
    "make",
    [
        lambda number: collections.Counter(a=number),
        lambda number: collections.OrderedDict(a=number),
        lambda number: Rows([number]),
        lambda number: Table(a=number),
        lambda number: ValueError(number),
        lambda number: ({"a", "b"}, collections.Counter(a=number)),
        lambda number: [frozenset({1}), Rows([number])],
    ],
    ids=["counter", "ordered dictionary", "list", "dictionary", "exception", "beside a set", "beside a frozenset"],
)
def test_what_an_object_holds_beside_its_attributes_counts(make: Callable[[int], Any]) -> None:
    """143 and 145 are bytes that look like a set in a pickle: no value may lose its content because of that."""
    digests = {fingerprint.of_value(make(number)) for number in (142, 143, 145)}
    assert len(digests) == 3


def test_a_mapped_array_beside_a_set(tmp_path: Path) -> None:
    found = []
    for number in (1, 2):
        np.save(tmp_path / f"{number}.npy", np.full(100, number))
        found.append(fingerprint.of_value([{"a"}, np.load(tmp_path / f"{number}.npy", mmap_mode="r")]))
    assert found[0] != found[1]


def test_a_value_that_contains_itself() -> None:
    for first in (1, {"a", "b"}):
        value: list[Any] = [first]
        value.append(value)
        assert fingerprint.of_value(value) == fingerprint.of_value(value)


def test_a_value_that_cannot_be_pickled() -> None:
    import threading

    with pytest.raises(TypeError):
        fingerprint.of_value(threading.Lock())


# -- what counts and what does not ------------------------------------------------------------------------------------

BASE = """
    import functools, operator
    import numpy as np
    def raised(x):
        return x + 140
    RATE = 0.1
    SHARED_1 = SHARED_2 = 1000
    NAMES = {"a": 1}
    def helper(x):
        return x + 1
    @functools.cache
    def cached(x):
        return x + 1
    class Base:
        def inherited(self):
            return 1
    class Model(Base):
        depth = 3
        def forward(self, x):
            return x
        @property
        def size(self):
            return 5
        @classmethod
        def build(cls):
            return 7
        @staticmethod
        def check(x):
            return 8
    class Trainer:
        def __init__(self, rate):
            self.rate = rate
        def __call__(self, x):
            return x * self.rate
        def fit(self, x):
            return x * self.rate
    def make(factor):
        def closure(x):
            return x * factor
        return closure
    def with_defaults(x, first=10, *, second=20):
        return x
    def task(x):
        # a comment
        total = RATE * x + SHARED_1 + SHARED_2 + len(NAMES)
        return helper(total) + 17
    def uses_cached(x):
        return cached(x)
    def uses_model(x):
        return Model().forward(x)
    def nested(x):
        return (lambda y: y + 3)(x)
    def raw(a, b, c=0):
        return a
    class Helper:
        top = 50
        def __init__(self, amount):
            self.amount = amount
        def apply(self, x):
            return x + 60
        @functools.cached_property
        def once(self):
            return 70
        @functools.cache
        def many(self):
            return 80
    @functools.singledispatch
    def by_type(x):
        return 90
    @by_type.register
    def _(x: int):
        return 100
    helping = Helper(110)
    chain = [Helper(120)]
    item = operator.itemgetter(130)
    vectorized = np.vectorize(raised)
    line = np.poly1d([1, 150])
    def uses_objects(x):
        return helping.apply(x), chain[0].apply(x), item(x), vectorized(x), line(x), by_type(x)
    closure = make(5)
    partial = functools.partial(raw, 1, c=2)
    trainer = Trainer(0.5)
    method = trainer.fit
"""


def load(text: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "a_script_of_the_user"}
    exec(compile(textwrap.dedent(text), "script.py", "exec"), names)
    return names


def changed(function: str, *replacements: tuple[str, str]) -> list[str]:
    text = BASE
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    before, now = (fingerprint.of_function(load(source)[function]) for source in (BASE, text))
    return fingerprint.differences(json.loads(json.dumps(before)), now)


@pytest.mark.parametrize(
    ("function", "old", "new"),
    [
        ("task", "# a comment", "# another comment, and\n\n        # a longer one"),
        ("task", "RATE = 0.1", "\n\n\n    RATE = 0.1"),
        ("task", "total = RATE * x + SHARED_1", "total = RATE*x + \\\n            SHARED_1"),
        ("task", "depth = 3", "depth = 4"),  # it does not use the model
        ("task", "factor):", "factor, other=None):"),
        ("helper", "RATE = 0.1", "RATE = 0.2"),
    ],
)
def test_what_does_not_count(function: str, old: str, new: str) -> None:
    assert changed(function, (old, new)) == []


@pytest.mark.parametrize(
    ("function", "old", "new", "named"),
    [
        ("task", "+ 17", "+ 18", "the code of task has changed"),
        ("task", "helper(total) + 17", "helper(total) - 17", "the code of task has changed"),
        ("task", "return x + 1", "return x + 2", "the code of global helper has changed"),
        ("task", "RATE = 0.1", "RATE = 0.2", "global RATE has changed"),
        ("task", '{"a": 1}', '{"a": 2}', "global NAMES has changed"),
        ("closure", "make(5)", "make(6)", "factor (closed over by make.<locals>.closure) has changed"),
        ("closure", "x * factor", "x + factor", "the code of make.<locals>.closure has changed"),
        ("with_defaults", "first=10", "first=11", "default 0 of with_defaults has changed"),
        ("with_defaults", "second=20", "second=21", "default second of with_defaults has changed"),
        ("partial", "raw, 1, c=2", "raw, 3, c=2", "argument 0 of raw has changed"),
        ("partial", "raw, 1, c=2", "raw, 1, c=4", "argument c of raw has changed"),
        ("partial", "return a", "return b", "the code of raw has changed"),
        ("nested", "y + 3", "y + 4", "the code of nested has changed"),
        ("method", "Trainer(0.5)", "Trainer(0.6)", "the object of"),
        ("uses_model", "return x\n        @property", "return -x\n        @property", "forward has changed"),
        ("Model", "return x\n        @property", "return -x\n        @property", "forward has changed"),
    ],
)
def test_what_has_changed_is_named(function: str, old: str, new: str, named: str) -> None:
    found = changed(function, (old, new))
    assert any(named in difference for difference in found), found


def test_of_two_equal_values_the_one_that_changed_is_named() -> None:
    found = changed("task", ("SHARED_1 = SHARED_2 = 1000", "SHARED_1 = 1000\n    SHARED_2 = 2000"))
    assert found == ["global SHARED_2 has changed"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("depth = 3", "depth = 4"),
        ("return 5", "return 6"),
        ("return 7", "return 9"),
        ("return 8", "return 9"),
        ("def inherited(self):\n            return 1", "def inherited(self):\n            return 2"),
    ],
    ids=["attribute", "property", "classmethod", "staticmethod", "base class"],
)
def test_every_part_of_a_class_counts(old: str, new: str) -> None:
    assert changed("uses_model", (old, new)) != []


def test_a_function_behind_a_decorator_counts() -> None:
    """functools.cache, jax.jit and tf.function make objects that are no functions; `__wrapped__` is the function."""
    assert (
        changed("uses_cached", ("def cached(x):\n        return x + 1", "def cached(x):\n        return x + 2")) != []
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Trainer(0.5)", "Trainer(0.6)"),
        ("def __call__(self, x):\n            return x", "def __call__(self, x):\n            return -x"),
    ],
    ids=["its state", "its code"],
)
def test_an_object_that_is_called_counts(old: str, new: str) -> None:
    assert changed("trainer", (old, new)) != []


@pytest.mark.parametrize(
    "old",
    "top = 50|+ 60|return 70|return 80|return 90|return 100|(110)|(120)|(130)|+ 140|150".split("|"),
)
def test_objects_count_with_their_code_and_what_they_hold(old: str) -> None:
    """Whether the function reaches them by their name, in a list, or in a library's object that can be called."""
    assert changed("uses_objects", (old, old.replace("0", "1"))) != []


def test_what_a_class_holds_counts_where_its_method_is_the_function() -> None:
    source = """
        class Cleaner:
            size = {}
            @classmethod
            def clean(cls, x):
                return x[:cls.size]
    """
    one, other = (fingerprint.of_function(load(source.format(size))["Cleaner"].clean) for size in (1, 2))
    assert fingerprint.differences(one, other) == ["Cleaner.size has changed"]


def test_what_a_function_of_a_library_was_made_with_counts() -> None:
    import click

    one, same, other = (fingerprint.of_function(click.option(name)) for name in ("--one", "--one", "--other"))
    assert one == same != other


def test_what_has_no_name_and_cannot_be_pickled_is_known_by_its_type() -> None:
    kept = (x for x in range(2))
    assert "builtins.generator" in fingerprint.of_function(lambda: kept).values()


def test_the_weights_of_a_network_count() -> None:

    network_of = """
        import torch
        network = torch.nn.Linear(1, 1)
        torch.nn.init.constant_(network.weight, {})
        torch.nn.init.zeros_(network.bias)
        def task(x):
            return network(x)
    """
    one, same, other = (fingerprint.of_function(load(network_of.format(weight))["task"]) for weight in (1, 1, 2))
    assert one == same
    assert fingerprint.differences(one, other) == ["global network has changed"]


_KERAS = """
    import keras
    from tenfold.journal import fingerprint

    def parts(part):
        return fingerprint.of_function(lambda x: part(x))

    for kind, settings in (
        (keras.metrics.AUC, [{"num_thresholds": 200, "name": "area"}, {"num_thresholds": 100, "name": "area"}]),
        (keras.initializers.HeNormal, [{}, {"seed": 1}]),
        (keras.layers.Rescaling, [{"scale": 2, "name": "scale"}, {"scale": 3, "name": "scale"}]),
        (keras.optimizers.Adam, [{"learning_rate": 0.1, "name": "adam"}, {"learning_rate": 0.2, "name": "adam"}]),
    ):
        one, same, other = (parts(kind(**each)) for each in (settings[0], *settings))
        assert one == same, kind
        assert len(fingerprint.differences(one, other)) == 1, kind

    def own(base, *given):
        class Own(base):
            def __init__(self, size):
                super().__init__(*given, name="own") if base is not keras.initializers.Initializer else None
                self._size = [size]
        return Own

    for base, *given in (
        (keras.losses.Loss,), (keras.metrics.Metric,), (keras.initializers.Initializer,), (keras.optimizers.SGD, 0.1)
    ):
        kind = own(base, *given)
        one, same, other = (parts(kind(size)) for size in (1, 1, 2))
        assert one == same, base
        assert len(fingerprint.differences(one, other)) == 1, base
    print("known")
"""


@pytest.mark.slow
def test_parts_of_keras_are_known_by_what_they_were_made_with(tmp_path: Path) -> None:
    """Not by their pickles, which have the time, nor by the numbers that they draw where they have no seed."""
    assert "known" in scripts.run(tmp_path, _KERAS, {"KERAS_BACKEND": "jax"}, seconds=120).out


def test_what_is_used_now_and_what_is_not_any_more() -> None:
    found = changed("task", ("return helper(total) + 17", "return abs(total) + RATE + 17"))
    assert "the code of global helper is not used any more" in found


def test_differences_of_nothing() -> None:
    assert fingerprint.differences({}, {}) == []
    assert fingerprint.differences({"a": "1"}, {"a": "1"}) == []
    assert fingerprint.differences({"a": "1", "b": "1", "c": "1"}, {"a": "2", "b": "1", "d": "1"}) == [
        "a has changed",
        "c is not used any more",
        "d is used now",
    ]


def test_installed_libraries_are_not_followed() -> None:
    names = load("import json, numpy as np\ndef task(x): return json.dumps(np.median(x))\n")
    assert list(fingerprint.of_function(names["task"])) == ["the code of task"]
    names = load("from json import dumps\ndef task(x): return dumps(x)\n")
    assert set(fingerprint.of_function(names["task"])) == {"the code of task", "global dumps"}


# -- circles ----------------------------------------------------------------------------------------------------------


def test_functions_that_call_each_other() -> None:
    names = load(
        """
        def even(n): return n == 0 or odd(n - 1)
        def odd(n): return n != 0 and even(n - 1)
        """
    )
    assert set(fingerprint.of_function(names["even"])) == {"the code of even", "the code of global odd"}


def test_a_function_in_a_table_that_it_reads() -> None:
    """MODELS = {"small": small}, where `small` reads MODELS: the same from wherever it is asked."""
    names = load(
        """
        def small(x): return MODELS["small"], WIDTH
        WIDTH = 3
        MODELS = {"small": small}
        """
    )

    def deeper(levels: int) -> dict[str, str]:
        return deeper(levels - 1) if levels else fingerprint.of_function(names["small"])

    assert fingerprint.differences(deeper(0), deeper(50)) == []
    assert fingerprint.differences(deeper(0), deeper(100)) == []


def test_several_threads_at_once() -> None:
    """Each calls `map` with a run of its own: one must not see that another is at work on the same function."""
    import threading

    names = load(
        """
        def small(x): return MODELS["small"], MODELS["large"], OTHER
        def large(x): return small(x), OTHER
        OTHER = {"small": small, "large": large, "more": [small, large] * 5}
        MODELS = {"small": small, "large": large}
        """
    )
    found: set[str] = set()
    start = threading.Barrier(4)

    def ask() -> None:
        start.wait()
        for _ in range(60):
            found.add(json.dumps(fingerprint.of_function(names["small"]), sort_keys=True))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert len(found) == 1
