"""Command lines and spaces on the pages are real: click parses each line, and each space can be searched."""

from __future__ import annotations

import re
import shlex
from importlib import import_module
from pathlib import Path

import click
import pytest

from tenfold.cli import tune
from tenfold.cli.commands import COMMANDS
from tenfold.search.space import Space

ROOT = Path(__file__).parent.parent.parent
PAGES = {str(page.relative_to(ROOT)): page.read_text() for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]}
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINE = re.compile(r"^(?:\$ )?(?:\.venv/bin/)?tenfold ([a-z].*)$", re.MULTILINE)  # not what one prints: a version
INLINE = re.compile(rf"`tenfold ((?:{'|'.join(COMMANDS)})(?: [^`]*)?)`")


def parsed(line: str) -> click.Context:
    name, *words = shlex.split(line, comments=True)
    command: click.Command = import_module(f"tenfold.cli.{name}").command
    return command.make_context(name, words)


def lines() -> list[tuple[str, str]]:
    return [
        (page, line)
        for page, text in PAGES.items()
        for kind, block in FENCED.findall(text)
        if kind != "python"
        for line in LINE.findall(block)
    ]


def test_lines_of_blocks_can_be_run_as_they_are() -> None:
    assert len(lines()) > 10
    for page, line in lines():
        try:
            parsed(line)
        except click.ClickException as error:
            pytest.fail(f"{page}: tenfold {line}: {error.format_message()}")


def test_lines_within_sentences_have_options_that_there_are() -> None:
    found = [(page, line) for page, text in PAGES.items() for line in INLINE.findall(FENCED.sub("", text))]
    assert len(found) > 25
    for page, line in found:
        try:
            parsed(line)
        except (click.MissingParameter, click.BadOptionUsage):  # only what the sentence is about
            continue
        except click.ClickException as error:
            pytest.fail(f"{page}: tenfold {line}: {error.format_message()}")


def test_spaces_can_be_searched(tmp_path: Path) -> None:
    blocks = [block for text in PAGES.values() for kind, block in FENCED.findall(text) if kind == "toml"]
    assert blocks
    for block in blocks:
        (tmp_path / "space.toml").write_text(block)
        assert Space(tune.read(str(tmp_path / "space.toml")))
