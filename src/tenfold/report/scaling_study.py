"""What `tenfold.measure` returns: the cells of the grid, what explains them, and what follows for other machines."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenfold.errors import BadCall
from tenfold.journal.store import Journal
from tenfold.machine.installed import missing
from tenfold.report import of_cells
from tenfold.report.parts import Report
from tenfold.scaling import curves
from tenfold.scaling.advice import advice, fastest
from tenfold.scaling.breakeven import breakeven
from tenfold.scaling.cells import Cell, Setting, Taken
from tenfold.scaling.fitting import Fitted, fit_all, ranked, simplest
from tenfold.scaling.heldout import Heldout, heldout
from tenfold.scaling.project import from_fit, from_law
from tenfold.scaling.projection import Projection
from tenfold.scaling.stepfit import FittedStep, fit_step
from tenfold.work.outcome import Failure

if TYPE_CHECKING:
    import pandas

BYTES = 4  # of a number in a gradient
_AXES = {"workers": "workers", "sizes": "size", "hows": "how", "engines": "engine"}
"""Arguments of `measure` -> what a setting calls them."""
BEYOND = 4  # times the most workers that were measured: as far as curves are drawn


class ScalingStudy:
    """How something scales. Several ways or engines are studies of their own: `study.of(engine="ray")`."""

    def __init__(
        self,
        cells: Sequence[Cell],
        *,
        batch: int | None = None,
        name: str = "",
        about: Mapping[str, Any] | None = None,
        left: str = "",
    ) -> None:
        self.cells = tuple(cells)
        """What was measured, one for each setting; `cell.seconds`, `.throughput`, `.parts`, `.memory`, `.failure`."""
        self.batch = batch
        """Rows of a step, where one model was trained."""
        self.name = name
        """Of the task."""
        self._about = dict(about or {})
        self._left = left

    def of(self, *, how: str | None = None, engine: str | None = None) -> ScalingStudy:
        """The cells of one way and one engine."""
        wanted = {name: value for name, value in (("how", how), ("engine", engine)) if value is not None}
        cells = [cell for cell in self.cells if all(getattr(cell.setting, k) == v for k, v in wanted.items())]
        if not cells:
            told = ", ".join(f"{name}={value!r}" for name, value in wanted.items())
            raise BadCall(f"{told}: nothing was measured with that; there are {self._told_ways()}")
        return ScalingStudy(cells, batch=self.batch, name=self.name, about=self._about, left=self._left)

    # -- what explains it ---------------------------------------------------------------------------------------------

    @functools.cached_property
    def laws(self) -> list[Fitted]:
        """Amdahl's, Gustafson's and the Universal Scalability Law for the largest size, best first."""
        cells = self._one_way("laws")
        if not curves.measured(cells):
            return []
        growing = curves.growing(cells)
        found = fit_all(*_points(curves.fixed(cells)))
        if growing is not None and len(growing.workers) > 1:
            scaled = {one.law.name: one for one in fit_all(*_points(growing), scaled=True)}
            found = ranked([scaled["Gustafson"] if one.law.name == "Gustafson" else one for one in found])
        return found

    @property
    def law(self) -> Fitted | None:
        """The simplest of those that predict best what they have not seen; None where too little was measured."""
        return simplest([one for one in self.laws if one.law.name != "Gustafson"])

    @functools.cached_property
    def step(self) -> FittedStep:
        """The step-time model: compute for the local batch, adding up of gradients, overlap, a ceiling of the input."""
        batch = self.batch
        own = [cell for cell in self._one_way("step") if cell.setting.how in (None, "synchronous")]
        steps = None if batch is None else curves.steps(own, lambda setting: batch / setting.workers)
        if steps is None:
            raise BadCall("step: there is a step-time model where one model was trained, synchronously, for some steps")
        parameters = next((taken.parameters for cell in own for taken in cell.repeats), None)
        gradient = None if parameters is None else float(BYTES * parameters)
        overlap = 0.0  # workers send when they have computed
        return fit_step(steps, gradient=gradient, workers_per_machine=curves.per_machine(own), overlap=overlap)

    @functools.cached_property
    def heldout(self) -> Heldout:
        """How well cells are predicted by a fit of the others."""
        return heldout(self._one_way("heldout"))

    # -- what follows -------------------------------------------------------------------------------------------------

    @property
    def breakeven(self) -> dict[int, float]:
        """For each number of workers, the size above which they are faster than the fewest; `inf` where never."""
        return breakeven(self._one_way("breakeven"))

    @property
    def advice(self) -> list[str]:
        """What to do, in a few sentences with numbers."""
        return advice(self.cells, step=self._step_of_fastest()) + ([self._left] if self._left else [])

    def _step_of_fastest(self) -> FittedStep | None:
        top = fastest(self.cells)
        if top is None:
            return None
        own = curves.ways(self.cells)[top.setting.how, top.setting.engine]
        with contextlib.suppress(BadCall):  # no model was trained, or not synchronously
            return self.step if len(own) == len(self.cells) else ScalingStudy(own, batch=self.batch).step
        return None

    def project(self, workers: int | Sequence[int], *, batch: float | None = None, **given: Any) -> Projection:
        """The same on machines that are not here: `study.project(64, network="25Gbit", device_speed=2.0)`.

        batch    samples of each worker in a step; those of the measured steps, all in one worker, where it is not given
        given    what `tenfold.project` takes; what is not given stays as it was measured

        Where no model was trained, the law says it, and knows `device_speed` alone.
        """
        if self.batch is None:
            if self.law is None:
                raise BadCall("project: no law could be fitted; measure more numbers of workers")
            return from_law(self.law, workers, **given)
        return from_fit(self.step, workers, batch=float(self.batch or 1) if batch is None else batch, **given)

    # -- what it looks like -------------------------------------------------------------------------------------------

    def report(self) -> Report:
        """A page about it, as `save` writes it."""
        return of_cells.report(
            self.cells,
            self.advice,
            self._curves(),
            explained=self._explained(),
            title=self._title,
            about=self._about,
            call=self._call(),
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it as a page (.html), as text (.md), for programs (.json), or as a picture (.png)."""
        return self.report().save(path)

    def frame(self) -> pandas.DataFrame:
        """A row for each cell."""
        try:
            import pandas
        except ImportError as error:
            raise missing("pandas, which ScalingStudy.frame() needs,", "pandas") from error
        return pandas.DataFrame(self.rows())

    def rows(self) -> list[dict[str, Any]]:
        """A dict for each cell."""
        return [_row(cell) for cell in self.cells]

    def __str__(self) -> str:
        lines = [f"{cell.setting}: {_told(cell)}" for cell in self.cells]
        return "\n".join([*lines, *self.advice])

    def __repr__(self) -> str:
        failed = sum(cell.failure is not None for cell in self.cells)
        return f"<ScalingStudy of {self.name}: {len(self.cells)} cells{f', {failed} failed' if failed else ''}>"

    @property
    def _title(self) -> str:
        return f"How {self.name} scales" if self.name else "How it scales"

    def _explained(self) -> list[str]:
        """What was fitted, and how far it can be trusted: for each way and engine by itself."""
        ways = curves.ways(self.cells)
        if len(ways) > 1:
            several = {way: ScalingStudy(cells, batch=self.batch)._explained() for way, cells in ways.items()}
            return [f"{_named(way)}: {sentence}" for way, told in several.items() for sentence in told]
        if not ways:
            return []
        told = [f"{law}." for law in self.laws if law.is_fitted]
        with contextlib.suppress(BadCall):  # no model was trained
            told.append(f"{self.step}.")
        return [*told, f"Checked: {self.heldout}."]

    def _call(self) -> str:
        """Python that measures it again."""
        settings = [cell.setting for cell in self.cells]
        axes: dict[str, set[Any]] = {name: {getattr(one, own) for one in settings} for name, own in _AXES.items()}
        given = [f"{name}={sorted(values)!r}" for name, values in axes.items() if values and None not in values]
        most = max((len(cell.repeats) for cell in self.cells), default=0)
        given += [f"repeats={most}"] if most else []
        given += [f"run={self._about['run']!r}"] if "run" in self._about else []
        return f"tenfold.measure({', '.join(['task', *given])})"

    def _curves(self) -> dict[str, list[tuple[float, float, float, float]]]:
        """What the law says, up to some times the workers that were measured."""
        if len(curves.ways(self.cells)) != 1 or self.law is None:
            return {}
        most = BEYOND * max(cell.setting.workers for cell in self.cells)
        found = []
        for workers in sorted({*range(1, min(most, 32) + 1), *(most * part // 32 for part in range(1, 33))} - {0}):
            estimate = self.law.throughput(workers)
            found.append((float(workers), estimate.value, estimate.low, estimate.high))
        return {self.law.law.name: found}

    def _one_way(self, what: str) -> Sequence[Cell]:
        if len(curves.ways(self.cells)) > 1:
            raise BadCall(f"{what}: there are {self._told_ways()}; say which with study.of(how=..., engine=...)")
        return self.cells

    def _told_ways(self) -> str:
        found = dict.fromkeys((cell.setting.how, cell.setting.engine) for cell in self.cells)
        return "; ".join(f"how={how!r}, engine={engine!r}" for how, engine in found)


def _points(curve: curves.Curve) -> tuple[tuple[int, ...], tuple[tuple[float, ...], ...]]:
    return curve.workers, curve.throughput


def _named(way: curves.Way) -> str:
    return ", ".join(word for word in way if word is not None) or "as usual"


def _row(cell: Cell) -> dict[str, Any]:
    found: dict[str, Any] = {**asdict(cell.setting), "repeats": len(cell.repeats), "failure": cell.failure}
    if cell.repeats:
        found |= {"seconds": cell.seconds, "spread": cell.spread, "throughput": cell.throughput}
        found |= cell.parts | {"memory": cell.memory, "cpu": cell.cpu, "energy": cell.energy}
    return found


def _told(cell: Cell) -> str:
    if not cell.repeats:
        return str(cell.failure)
    share = max(cell.parts, key=lambda name: cell.parts[name])
    return f"{cell.seconds:.3g} s, {cell.throughput:,.0f} a second, mostly {share} ({cell.parts[share]:.3g} s)"


def study_of(journal: Journal) -> ScalingStudy:
    """What a run of `tenfold.measure` has found so far."""
    batch = journal.meta("batch")
    name = journal.meta("function") or ""
    about = journal.sessions()[-1] | ({} if journal.folder is None else {"run": str(journal.folder.path)})
    left = journal.meta("left") or ""
    return ScalingStudy(cells_of(journal), batch=int(batch) if batch else None, name=name, about=about, left=left)


def cells_of(journal: Journal) -> list[Cell]:
    """All that was measured, in the order of the settings."""
    cpus = journal.meta("cpus")
    taken: dict[Setting, list[Taken]] = {}
    failures: dict[Setting, Failure | None] = {}
    for outcome in journal.outcomes():  # in the order in which they were made: what was mended later has no failure
        found = outcome.value
        if isinstance(found, Taken) and found.cpus is not None and str(found.cpus) != cpus:
            continue  # of a smaller grid, whose workers had more of the machine
        failures[outcome.item] = outcome.failure
        taken.setdefault(outcome.item, []).extend([found] if isinstance(found, Taken) else [])
    order = sorted(
        taken, key=lambda setting: (str(setting.engine), str(setting.how), setting.size or 0, setting.workers)
    )
    return [Cell(setting, tuple(taken[setting]), *_why(failures[setting])) for setting in order]


def _why(failure: Failure | None) -> tuple[str | None, str]:
    return (None, "") if failure is None else (failure.summary, failure.traceback)
