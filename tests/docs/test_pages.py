"""Docs cannot lie: every Python block is executed, every command is real, every link leads somewhere."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import scripts

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "examples" / "README.md"])
BLOCKS = {
    str(page.relative_to(ROOT)): re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    for page in PAGES
}
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
VARIES = r"[(:]?\.\.\.[):]?|x\.npy is|gpus=1|\b[NMX]\b|\b\d+\b|\bnan\b|SIG\w+|ModuleNotFoundError"
"""What differs from call to call in a message on the page of troubleshooting."""
THEIRS = {  # messages of NumPy, Keras and Python
    "assignment destination is read-only",
    "shuffle=True was passed, but will be ignored",
    "got an unexpected keyword argument",
}
AT_ONCE = 2  # most of their time is imports, each in one thread


def run(script: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    folder.mkdir(exist_ok=True)
    environment = {**os.environ, **scripts.HASTY, "TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.run(
        [sys.executable, str(script)], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )


def all_run(scripts: list[Path], folder: Path) -> dict[str, subprocess.CompletedProcess[str]]:
    """What became of each, by its name."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        done = pool.map(lambda script: run(script, folder / f"of {script.stem}"), scripts)
        return {script.stem: one for script, one in zip(scripts, done, strict=True)}


@pytest.mark.parametrize("page", [name for name, blocks in BLOCKS.items() if blocks])
def test_blocks_run(page: str, tmp_path: Path) -> None:
    scripts = [tmp_path / f"block {number}.py" for number, _ in enumerate(BLOCKS[page])]
    for script, block in zip(scripts, BLOCKS[page], strict=True):
        script.write_text(block)
    faults = [f"{name}: {one.stderr}" for name, one in all_run(scripts, tmp_path).items() if one.returncode]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("place", range(0, len(EXAMPLES), AT_ONCE))
def test_examples_run(place: int, tmp_path: Path) -> None:
    for name, one in all_run(EXAMPLES[place : place + AT_ONCE], tmp_path).items():
        assert one.returncode == 0, f"{name}: {one.stderr}"
        assert len(one.stdout.splitlines()) >= 10, name


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_every_example_is_listed() -> None:
    text = (ROOT / "examples" / "README.md").read_text()
    for script in EXAMPLES:
        assert f"({script.name})" in text, script.name


def test_the_readme_lists_every_page() -> None:
    text = (ROOT / "README.md").read_text()
    for page in PAGES:
        assert f"({page.relative_to(ROOT)})" in text or page.name == "README.md", page


def test_every_message_of_troubleshooting_is_one_of_ours() -> None:
    page, said = (ROOT / "docs" / "troubleshooting.md").read_text(), messages()
    quoted = {text for bold in re.findall(r"\*\*(`.+?`)\*\*", page) for text in re.findall("`([^`]+)`", bold)}
    fixed = {words.strip() for text in quoted - THEIRS for words in re.split(VARIES, text)}
    assert len(fixed) > 50
    assert not [words for words in fixed if " " in words and not any(words in one for one in said)]


def messages() -> set[str]:
    """Every text in the code; what is filled in is cut out."""
    found = set()
    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.JoinedStr):
                found.add("".join(part.value if isinstance(part, ast.Constant) else "\0" for part in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return found


def test_every_command_is_documented() -> None:
    from tenfold.cli.commands import COMMANDS

    text = (ROOT / "docs" / "command-line.md").read_text()
    assert COMMANDS
    for command in COMMANDS:
        assert f"`tenfold {command}" in text, command


def test_every_option_is_documented() -> None:
    text = (ROOT / "docs" / "command-line.md").read_text()
    for command, names in options().items():
        for name in names:
            assert re.search(rf"{name}(?![\w-])", text), f"tenfold {command} {name}"


def test_every_option_is_said_to_be_of_the_commands_that_have_it() -> None:
    rows = re.findall(r"^\| (`--.+?) \| (.+?) \|", (ROOT / "docs" / "command-line.md").read_text(), re.MULTILINE)
    said = {(name, of) for names, who in rows for of in who.split(", ") for name in re.findall("--[a-z-]+", names)}
    alone = {"doctor", "runs", "show", "report", "warm"}  # told of with what they do
    real = {(name, of) for of, names in options().items() if of not in alone for name in names - {"--json"}}
    assert said == real


def options() -> dict[str, set[str]]:
    """The long options of every command."""
    from importlib import import_module

    from tenfold.cli.commands import COMMANDS

    params = {name: import_module(f"tenfold.cli.{name}").command.params for name in COMMANDS}
    return {
        name: {opt for param in every for opt in param.opts + param.secondary_opts if opt.startswith("--")}
        for name, every in params.items()
    }


def test_every_public_name_is_documented() -> None:
    import tenfold

    text = "\n".join(page.read_text() for page in PAGES)
    for name in tenfold.__all__:
        assert name in text or name in ("__version__", "Results", "Outcome", "TenfoldError"), name
