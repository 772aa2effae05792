"""What is special to the run of a data set: how many rows it has, and which samples were left out."""

from __future__ import annotations

from tenfold.data.preparing import Fault, Piece
from tenfold.report import svg, tasks
from tenfold.report.parts import Listing, Part, Section, Text
from tenfold.report.tasks import Run

SHOWN = 20  # samples that were left out, with their tracebacks


def told(run: Run) -> tuple[str, list[tuple[str, str]], list[Section]]:
    """A sentence, the first numbers, and sections."""
    samples = rows = lost = 0
    faults: list[Fault] = []
    for _, values in run.journal.values():
        for piece in (value for value in values if isinstance(value, Piece)):
            samples, rows, lost = samples + piece.stop - piece.start, rows + piece.rows, lost + len(piece.faults)
            faults += piece.faults[: SHOWN - len(faults)]
    speed = samples / run.occupied.seconds if run.occupied.seconds > 0 else 0.0
    summary = f"{samples:,} samples have become {rows:,} rows{f', {lost:,} were left out' if lost else ''}."
    figures = [("samples", f"{samples:,}"), ("rows", f"{rows:,}")] + ([("left out", f"{lost:,}")] if lost else [])
    figures += [("samples a second", svg.number(float(f"{speed:.3g}"))), *tasks.figures(run)[1:]]
    parts: list[Part] = [
        Listing(f"sample {fault.sample}: {fault.error}", fault.traceback, opened=place == 0)
        for place, fault in enumerate(faults)
    ]
    if lost > len(faults):
        parts.append(Text(f"{lost - len(faults):,} more are in quarantine.jsonl, beside the rows."))
    return summary, figures, [Section("Samples that were left out", parts)] if parts else []
