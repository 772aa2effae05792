"""Runs every benchmark, one after the other, each in a process of its own: what `make bench` calls.

Takes the options of the benchmarks and passes them on; `--json FILE` gets all of their reports. Ends with all goals.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from contest import Goal, add_options, say

BENCHMARKS = (
    "iterations",
    "startup",
    "dispatch",
    "threads",
    "clusters",
    "fuse",
    "tune",
    "prepare",
    "predict",
    "train",
    "measure",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, "each benchmark's own number")
    chosen = parser.parse_args()
    reports = {name: run(name, chosen) for name in BENCHMARKS}
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(reports, indent=1) + "\n")
    goals = [Goal(**goal) for report in reports.values() if report is not None for goal in report["goals"]]
    missed = [goal for goal in goals if not goal.met]
    print(f"{len(goals) - len(missed)} of {len(goals)} goals are met", *map(str, missed), sep="\n")
    failed = [name for name, report in reports.items() if report is None]
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


def run(name: str, chosen: argparse.Namespace) -> dict[str, Any] | None:
    """Run a benchmark and show what it prints; its report, or None where it failed."""
    say(f"--- {name}")
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "report.json")
        words = [sys.executable, str(Path(__file__).parent / f"{name}.py"), "--json", str(path)]
        words += ["--repeats", str(chosen.repeats)] if chosen.repeats is not None else []
        words += [f"--{option}" for option in ("quick", "markdown") if getattr(chosen, option)]
        ended = subprocess.call(words)
        say(f"--- {name} took {time.monotonic() - began:.0f} s")
        return dict(json.loads(path.read_text())) if ended == 0 else None


if __name__ == "__main__":
    sys.exit(main())
