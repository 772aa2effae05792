"""A nursery is started when the caller begins to import a framework; not otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

import scripts
from tenfold import frameworks
from tenfold.nursery import notice

SCRIPT = """
    import sys
    {prelude}
    import tenfold
    from tenfold.nursery import client
    import {module}
    print(client._current is not None)
"""


def starts_one(tmp_path: Path, module: str, prelude: str = "", **variables: str) -> bool:
    """With a framework of our own making: empty, and found before the real one."""
    for name in ("jax", "sklearn", "torch"):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "__init__.py").write_text("")
    ended = scripts.run(tmp_path, SCRIPT.format(module=module, prelude=prelude), variables)
    assert ended.err == ""
    return ended.out.strip() == "True"


def test_the_names_are_those_of_the_members() -> None:
    """A new framework must be added to both; numpy is used by tenfold itself, and cupy is left out so far.

    scikit-image is no framework, but its import takes as long as the resizing of a thousand images, and Pillow's half.
    """
    heads = {member.modules[0] for member in frameworks.every().values()}
    assert set(notice._NAMES) == (heads - {"numpy", "cupy"}) | {"skimage", "PIL"}
    assert len(set(notice._NAMES)) == len(notice._NAMES)


@pytest.mark.parametrize("module", ["jax", "torch"])
def test_a_framework_starts_it(tmp_path: Path, module: str) -> None:
    assert starts_one(tmp_path, module)


def test_another_module_does_not(tmp_path: Path) -> None:
    assert not starts_one(tmp_path, "json")


def test_not_keras_beside_workers_that_have_keras_on_jax_already(tmp_path: Path) -> None:
    prelude = "from tenfold.nursery import client; client.get((('KERAS_BACKEND', 'jax'),))"
    assert not starts_one(tmp_path, "jax", prelude, KERAS_BACKEND="tensorflow")
    assert starts_one(tmp_path, "torch", prelude, KERAS_BACKEND="tensorflow")


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    assert not starts_one(tmp_path, "jax", TENFOLD_NOTICE="0")


def test_not_where_workers_are_spawned(tmp_path: Path) -> None:
    assert not starts_one(tmp_path, "jax", TENFOLD_START="spawn")


def test_not_in_a_worker(tmp_path: Path) -> None:
    assert not starts_one(tmp_path, "jax", TENFOLD_SEAT='{"cpus": 1, "memory": null, "gpus": {}}')


def test_not_in_the_workers_of_somebody_else(tmp_path: Path) -> None:
    prelude = "import multiprocessing; multiprocessing.current_process().name = 'ForkProcess-1'"
    assert not starts_one(tmp_path, "jax", prelude)


def test_an_import_never_fails_because_of_it(tmp_path: Path) -> None:
    prelude = "sys.executable = '/no/such/python'"
    assert not starts_one(tmp_path, "jax", prelude)


def test_importing_tenfold_is_quick_and_imports_no_framework(tmp_path: Path) -> None:
    ended = scripts.run(
        tmp_path,
        """
        import sys, time
        began = time.perf_counter()
        import tenfold
        took = time.perf_counter() - began
        heavy = ("numpy", "torch", "tensorflow", "jax", "keras", "sklearn", "dask", "ray", "joblib", "pandas", "rich")
        print(took < 0.5, [name for name in heavy if name in sys.modules])
        """,
    )
    assert ended.out.strip() == "True []"
