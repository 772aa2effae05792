"""What is special to the run of a data set: how many rows it has, and which samples were left out."""

from __future__ import annotations

from collections import Counter

from tenfold.data.preparing import Fault, Piece
from tenfold.report import svg, tasks
from tenfold.report.parts import Listing, Part, Section, Text
from tenfold.report.tasks import Run

SHOWN = 20  # kinds of failures, with a traceback each


def told(run: Run) -> tuple[str, list[tuple[str, str]], list[Section]]:
    """A sentence, the first numbers, and sections."""
    samples = rows = lost = 0
    firsts: dict[str, Fault] = {}
    counts: Counter[str] = Counter()
    for _, values in run.journal.values():
        for piece in (value for value in values if isinstance(value, Piece)):
            samples, rows, lost = samples + piece.stop - piece.start, rows + piece.rows, lost + len(piece.faults)
            for fault in piece.faults:
                key = tasks.places(fault.traceback) or fault.error
                if key in firsts or len(firsts) < SHOWN:
                    firsts.setdefault(key, fault)
                    counts[key] += 1
    speed = samples / run.occupied.seconds if run.occupied.seconds > 0 else 0.0
    summary = f"{samples:,} samples have become {rows:,} rows{f', {lost:,} were left out' if lost else ''}."
    figures = [("samples", f"{samples:,}"), ("rows", f"{rows:,}")] + ([("left out", f"{lost:,}")] if lost else [])
    figures += [("samples a second", svg.number(float(f"{speed:.3g}"))), *tasks.figures(run)[1:]]
    parts: list[Part] = [
        Listing(f"sample {fault.sample}{_alike(counts[key])}: {fault.error}", fault.traceback, opened=place == 0)
        for place, (key, fault) in enumerate(firsts.items())
    ]
    if lost:
        parts.append(Text("Every one of them is in quarantine.jsonl, beside the rows."))
    return summary, figures, [Section("Samples that were left out", parts)] if parts else []


def _alike(count: int) -> str:
    return f" and {count - 1:,} alike" if count > 1 else ""
