"""The last sections of every report: on what it ran, and how to repeat it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenfold import frameworks, machine
from tenfold.plan.needs import readable
from tenfold.report import provenance
from tenfold.report.parts import Code, Facts, Part, Section, Text


def section(about: Mapping[str, Any], *, elsewhere: bool = True) -> Section:
    """`about` is what a session of the journal says of itself; an old one says nothing of machine and versions.

    elsewhere   it may have run on another machine than this one
    """
    parts: list[Part] = []
    if "machine" not in about and elsewhere:
        parts.append(Text("The run does not say on what it ran; this is what is here now, where the report was made."))
    if "machine" not in about:
        about = {**about, **_here()}
    found = about["machine"]
    several = f" of {found['machines']} machines" if found["machines"] > 1 else ""
    pairs = [
        ("system", str(found["system"])),
        ("cores", f"{found['cores']:g}{several}"),
        ("memory", readable(found["memory"])),
        ("GPUs", ", ".join(map(str, found["gpus"])) or "none"),
        *about["versions"].items(),
    ]
    return Section("Machine and versions", [*parts, Facts(pairs)])


def _here() -> dict[str, Any]:
    return {
        "machine": provenance.machine_facts([machine.look()]),
        "versions": provenance.versions(frameworks.every()),
    }


def repeat(call: str, words: str, about: Mapping[str, Any]) -> Section:
    """`call` is Python; what was typed comes first where it is known."""
    typed = about.get("command")
    what = "This script was run:" if str(typed).startswith("python ") else "This was typed:"
    parts: list[Part] = [Text(what), Code(str(typed)), Text("It made this call:")] if typed else []
    return Section("How to repeat it", [*parts, Code(call), Text(words)])
