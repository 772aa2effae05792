"""`Fit.explain`: how models would be trained, and why, before any of them is."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenfold.fuse.fit import Fit
from tenfold.fuse.portrait import difference
from tenfold.fuse.survey import Finding, Survey
from tenfold.plan.needs import readable
from tenfold.verbs.map import map  # noqa: A004
from tenfold.work.times import duration


@dataclass(frozen=True, slots=True)
class Explanation:
    """The plan of a `Fit` for some parameter sets."""

    findings: tuple[Finding, ...]
    """How each would be trained, in item order."""
    workers: int
    """How many programs run at once."""

    @property
    def groups(self) -> dict[str, list[int]]:
        """Name -> places of the models that are trained as one; those that are trained alone are under ""."""
        found: dict[str, list[int]] = {}
        for place, finding in enumerate(self.findings):
            found.setdefault(finding.group, []).append(place)
        return found

    def __str__(self) -> str:
        alone = self.groups.get("", [])
        together = {name: places for name, places in self.groups.items() if name}
        lines = [f"{len(self.findings)} models: {len(together)} groups, {len(alone)} alone; {self.workers} at a time"]
        first = next(iter(together.values()), [0])[0]
        for places in together.values():
            lines.append(f"  {_numbers(places)} {self.findings[places[0]].how}")
            if places[0] != first:
                lines.append(f"    apart from model {first}: {_apart(self.findings[first], self.findings[places[0]])}")
        for reason in dict.fromkeys(self.findings[place].how for place in alone):
            count = sum(self.findings[place].how == reason for place in alone)
            lines.append(f"  {count} {reason}")
        if together:
            seconds = sum(finding.seconds for finding in self.findings) / min(self.workers, len(together))
            lines.append(f"  expected: {duration(seconds)} and {readable(self._memory())} for those in groups")
        return "\n".join(lines)

    def _memory(self) -> int:
        return sum(finding.nbytes for finding in self.findings)


def explain(fit: Fit, items: Sequence[Mapping[str, Any]], **where: Any) -> Explanation:
    """Print the plan and return it; `where` is what `map` takes: engine, workers, cpus, gpus."""
    found = map(Survey(fit), list(items), progress=False, **where)
    plan = Explanation(tuple(found), found.workers)
    sys.stdout.write(f"{plan}\n")
    return plan


def _apart(one: Finding, other: Finding) -> str:
    if one.rows != other.rows:
        return f"{one.rows[0]} and {other.rows[0]} rows to train on, {one.rows[1]} and {other.rows[1]} to score"
    if one.portrait is None or other.portrait is None:
        return "nobody can say"
    return (
        "another worker's half of the same program"
        if one.portrait == other.portrait
        else difference(one.portrait, other.portrait)
    )


def _numbers(places: Sequence[int]) -> str:
    """ "models 0-31", "models 0, 2, 4 ... 62"."""
    if list(places) == list(range(places[0], places[-1] + 1)):
        return f"models {places[0]}-{places[-1]}" if len(places) > 1 else f"model {places[0]}"
    shown = [str(place) for place in places]
    return "models " + (", ".join(shown) if len(shown) <= 6 else f"{', '.join(shown[:3])} ... {shown[-1]}")
