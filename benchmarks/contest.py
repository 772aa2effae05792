"""The rules that all benchmarks share: contestants take turns, medians go into tables, goals are met or missed.

A benchmark asks its question in its docstring, takes its options from `options`, measures with `take_turns`, and hands
a `Report` to `publish`. What is measured in a fresh interpreter is started by launch.py.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psutil

T = TypeVar("T")

_LIBRARIES = ("joblib", "scikit-learn", "numpy", "tensorflow-cpu", "tensorflow", "keras", "torch", "jax")
PACKAGES = ("tenfold", *_LIBRARIES, "distributed", "ray")
PROBE = 0.5  # seconds for which the machine is tried before and after
TENFOLD = "tenfold"
"""What every benchmark calls the contestant that the others are compared with."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asked for."""

    repeats: int
    """How often each contestant has its turn."""
    quick: bool
    """Small numbers, once: shows that the script works, and nothing else."""
    json: Path | None
    """Where to write everything that was measured."""
    markdown: bool
    """Print tables that can be pasted into RESULTS.md."""
    free: float
    """The share of the cores that was free before: other people's work falsifies what is measured."""


def options(question: str | None, *, repeats: int) -> Options:
    """Read the command line; `repeats` is the default. Called before anything is measured."""
    parser = argparse.ArgumentParser(description=question, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, repeats)
    found = parser.parse_args()
    if found.repeats is not None and found.repeats < 1:
        parser.error(f"--repeats {found.repeats}: expected 1 or more")
    count = found.repeats or (1 if found.quick else repeats)
    return Options(count, found.quick, found.json, found.markdown, free_share())


def add_options(parser: argparse.ArgumentParser, repeats: int | str) -> None:
    """The options that every benchmark has, and all.py passes on."""
    parser.add_argument("--repeats", type=int, help=f"turns of each contestant; {repeats} where it is not given")
    parser.add_argument("--quick", action="store_true", help="small numbers, to see that the script works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured to FILE")
    parser.add_argument("--markdown", action="store_true", help="print the tables as markdown")


def take_turns(contestants: Mapping[str, Callable[[], T]], repeats: int) -> dict[str, list[T]]:
    """Every contestant once, then every one again, each round beginning with another: whatever else happens on the
    machine, and whatever the one before has left in its caches, falls on all of them.
    """
    names = list(contestants)
    found: dict[str, list[T]] = {name: [] for name in names}
    for turn in range(repeats):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            say(f"round {turn + 1} of {repeats}: {name}")
            found[name].append(contestants[name]())
    return found


def timed(work: Callable[[], object]) -> float:
    """Seconds that `work` takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def medians(samples: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {name: statistics.median(values) for name, values in samples.items()}


def spread(values: Sequence[float]) -> str:
    """The fastest and the slowest turn, for a table."""
    return f"{min(values):.2f} - {max(values):.2f}"


def say(text: str) -> None:
    """Tell a person who waits how far it is; standard output is for the results."""
    print(text, file=sys.stderr, flush=True)


# -- results ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text: the first columns say what, the others how much."""

    title: str
    """What was measured."""
    head: tuple[str, ...]
    """Names of the columns."""
    rows: Sequence[tuple[str, ...]]
    """One cell for each column."""
    words: int = 1
    """How many columns are words, set to the left; the others are numbers."""

    def text(self) -> str:
        widths = [max(map(len, column)) for column in zip(self.head, *self.rows, strict=True)]
        lines = ["  ".join(self._aligned(row, widths)).rstrip() for row in (self.head, *self.rows)]
        return "\n".join([self.title, lines[0], "-" * len(lines[0]), *lines[1:]])

    def markdown(self) -> str:
        rule = [":--" if place < self.words else "--:" for place in range(len(self.head))]
        lines = ["| " + " | ".join(row) + " |" for row in (self.head, tuple(rule), *self.rows)]
        return "\n".join([f"**{self.title}**", "", *lines])

    def _aligned(self, row: tuple[str, ...], widths: list[int]) -> list[str]:
        pairs = enumerate(zip(row, widths, strict=True))
        return [cell.ljust(width) if place < self.words else cell.rjust(width) for place, (cell, width) in pairs]


@dataclass(frozen=True, slots=True)
class Goal:
    """What was promised, and whether it is so."""

    text: str
    """The promise."""
    measured: float
    """What was found."""
    limit: float
    """What was promised."""
    bound: str
    """Whether that is "at least" or "at most"."""
    unit: str
    """Of both numbers."""
    met: bool
    """Whether it is kept."""

    def __str__(self) -> str:
        verdict = "met" if self.met else "missed"
        return f"{verdict}: {self.text}: {self.measured:.2f} {self.unit} ({self.bound} {self.limit:g} {self.unit})"


def at_least(text: str, measured: float, limit: float, unit: str = "x") -> Goal:
    return Goal(text, measured, limit, "at least", unit, measured >= limit)


def at_most(text: str, measured: float, limit: float, unit: str = "x") -> Goal:
    return Goal(text, measured, limit, "at most", unit, measured <= limit)


@dataclass(frozen=True, slots=True)
class Report:
    """The answer to a question."""

    question: str
    """The benchmark's docstring."""
    tables: list[Table]
    """What people read."""
    goals: list[Goal] = field(default_factory=list)
    """What was promised."""
    samples: dict[str, Any] = field(default_factory=dict)
    """Every single measurement, for --json."""


def publish(report: Report, chosen: Options) -> None:
    """Print the report, and write it where that was asked for."""
    facts = machine()
    if chosen.json is not None:
        whole = {"machine": facts, "repeats": chosen.repeats, "quick": chosen.quick, **asdict(report)}
        chosen.json.write_text(json.dumps(whole, indent=1) + "\n")
    print(_markdown(report, facts, chosen) if chosen.markdown else _text(report, facts, chosen))


def _text(report: Report, facts: dict[str, str], chosen: Options) -> str:
    about = [f"{name}: {value}" for name, value in facts.items()]
    tables = [table.text() for table in report.tables]
    goals = [f"goal {goal}" for goal in report.goals]
    parts = [report.question.strip(), "\n".join([*about, _turns(chosen)]), *tables, "\n".join(goals)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _markdown(report: Report, facts: dict[str, str], chosen: Options) -> str:
    first, _, rest = report.question.strip().partition("\n")
    about = "; ".join(f"{name}: {value}" for name, value in facts.items())
    tables = [table.markdown() for table in report.tables]
    goals = [f"- goal {goal}" for goal in report.goals]
    parts = [f"## {first}", rest.strip(), f"{about}; {_turns(chosen)}", *tables, "\n".join(goals)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _turns(chosen: Options) -> str:
    note = " (quick: the script works; the numbers mean nothing)" if chosen.quick else ""
    free = f"{chosen.free:.0%} of the cores were free before and {free_share():.0%} after"
    return f"turns: {chosen.repeats}, of which the median counts{note}; {free}"


def machine() -> dict[str, str]:
    """What the numbers depend on."""
    versions = [f"{name} {version}" for name in PACKAGES if (version := _version(name))]
    return {
        "cores": f"{len(os.sched_getaffinity(0))} ({_processor()})",
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": ", ".join(versions),
    }


def free_share() -> float:
    """How much of its core a process gets that only counts, with one such process on each core."""
    code = (
        f"import time; end = time.monotonic() + {PROBE}; exec('while time.monotonic() < end: pass');"
        "print(time.process_time())"
    )
    cores = len(os.sched_getaffinity(0))
    probes = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(cores)]
    used = [float(probe.communicate()[0]) for probe in probes]
    return min(1.0, sum(used) / cores / PROBE)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
