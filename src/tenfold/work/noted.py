"""What a trial of a function has reported, kept in its folder beside its own files, for an attempt after a kill.

A task that keeps a checkpoint goes on from there, and does not report again what was reported before it was killed.
Steps are counted by reports: without these, the second attempt would count from too low a number, and go on too long.
"""

from __future__ import annotations

import json
from pathlib import Path

NAME = ".reports"


def note(folder: Path, step: int, values: dict[str, float]) -> None:
    """Add a report. A task that has no folder keeps no checkpoint: it begins anew, and reports everything again."""
    if folder.is_dir():
        with open(folder / NAME, "a", encoding="utf-8") as file:
            file.write(json.dumps([step, values]) + "\n")


def noted(folder: Path) -> list[tuple[int, dict[str, float]]]:
    """Every report so far, but for one that was being written when the process was killed."""
    try:
        lines = (folder / NAME).read_text(encoding="utf-8").split("\n")
    except OSError:
        return []
    return [(step, values) for step, values in map(json.loads, lines[:-1])]
