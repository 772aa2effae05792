"""Docs cannot lie: every Python block is executed, every command is real, every link leads somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in PAGES
    for number, block in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE))
]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def run(script: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.run(
        [sys.executable, str(script)], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("block", BLOCKS)
def test_block_runs(block: str, tmp_path: Path) -> None:
    script = tmp_path / "block.py"
    script.write_text(block)
    done = run(script, tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(example: Path, tmp_path: Path) -> None:
    done = run(example, tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 10


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_every_command_is_documented() -> None:
    from tenfold.cli.commands import COMMANDS

    text = (ROOT / "docs" / "command-line.md").read_text()
    assert COMMANDS
    for command in COMMANDS:
        assert f"`tenfold {command}" in text, command


def test_every_option_is_documented() -> None:
    from importlib import import_module

    from tenfold.cli.commands import COMMANDS

    text = (ROOT / "docs" / "command-line.md").read_text()
    for command in COMMANDS:
        for option in import_module(f"tenfold.cli.{command}").command.params:
            for name in option.opts + option.secondary_opts:
                known = not name.startswith("--") or re.search(rf"{name}(?![\w-])", text)
                assert known, f"tenfold {command} {name}"


def test_every_public_name_is_documented() -> None:
    import tenfold

    text = "\n".join(page.read_text() for page in PAGES)
    for name in tenfold.__all__:
        assert name in text or name in ("__version__", "Results", "Outcome", "TenfoldError"), name
