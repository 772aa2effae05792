"""The wheel builds, and works where nothing else is installed: what `pip install` gives to somebody else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TENFOLD_"))}
MAP = """
import tenfold

results = tenfold.map(lambda number: number * number, range(8), engine="local", progress=False)
assert list(results) == [number * number for number in range(8)]
assert "site-packages" in tenfold.__file__, tenfold.__file__
"""


def run(*words: str | Path, folder: Path) -> str:
    """What a command writes; fails with all of it where the command does."""
    ended = subprocess.run([*map(str, words)], cwd=folder, env=CLEAN, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, f"{words}\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT, folder=folder)  # a source archive, and a wheel of that
    return next(folder.glob("*.whl"))


def test_the_wheel_holds_the_package_and_its_types(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
    files = [path for path in (ROOT / "src").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert {str(path.relative_to(ROOT / "src")) for path in files} == {
        name for name in inside if "dist-info" not in name
    }
    assert "tenfold/py.typed" in inside


def test_it_works_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", "--without-pip", "empty", folder=tmp_path)
    installed = tmp_path / "empty" / "bin"
    pip = [sys.executable, "-m", "pip", "--python", installed / "python", "install", "--quiet"]
    run(*pip, "--constraint", ROOT / "constraints.txt", wheel, folder=tmp_path)
    found = json.loads(run(installed / "tenfold", "doctor", "--json", folder=tmp_path))
    assert found["frameworks"]["torch"]["version"] is None  # it is empty
    assert found["workers"]["error"] == ""
    (tmp_path / "squares.py").write_text(MAP)
    run(installed / "python", "squares.py", folder=tmp_path)
