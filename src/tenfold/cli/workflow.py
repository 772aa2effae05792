"""The steps of `tenfold demo`: from images to a page that says how it all scales. Each goes on where it was."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import tenfold
from tenfold import machine
from tenfold.cli import digits

T = TypeVar("T")

FOLDS = 3
SAMPLE = 300  # images by which one by one is estimated
SIZES = (480, 960, 1440)  # three, so that cells can be left out of a fit and told by it
REPEATS = 2
TOOK = "took.json"  # in the demo's folder: what each step took at first


@dataclass(frozen=True, slots=True)
class Step:
    """One step that is done."""

    name: str
    """The verb."""
    what: str
    """What came of it, in words."""
    seconds: float
    """How long it took."""
    alone: float | None = None
    """How long it would have taken one by one; None where that makes no sense."""
    kept: bool = False
    """An earlier command did it, and took so long."""


@dataclass(frozen=True, slots=True)
class Found:
    """What came of all steps."""

    folder: Path
    """Where everything is kept."""
    steps: list[Step]
    """What each took."""
    study: Any
    """Of tune."""
    trained: Any
    """The best model."""
    scores: Any
    """Of images that no model has seen."""
    scaling: Any
    """Of measure."""


@dataclass(slots=True)
class Workflow:
    """The whole demo, in one folder."""

    folder: Path
    """Where everything is kept."""
    trials: int
    """Of the search."""
    engine: str | None
    """Where tasks run."""
    fresh: bool
    """Do again what is finished."""
    say: Callable[[str], None]
    """Tells a person what begins."""
    steps: list[Step] = field(default_factory=list)
    """Those that are done."""

    def run(self) -> Found:
        """All steps, in order."""
        data = self._prepare()
        study = self._tune(data)
        trained = self._train(data, study)
        scores = self._evaluate(data, trained)
        scaling = self._measure(data, study)
        self._estimate()
        return Found(self.folder, self.steps, study, trained, scores, scaling)

    def _prepare(self) -> tuple[Any, Any]:
        def make() -> Any:
            to = self.folder / "images"
            return tenfold.prepare(digits.enlarged, digits.images(), to, engine=self.engine, fresh=self.fresh)

        about = "images twice as large, values between 0 and 1"
        found = self._step("prepare", about, make, lambda made: f"{len(made)} images, 16 x 16")
        x, y = found.numpy()
        return x, y

    def _tune(self, data: tuple[Any, Any]) -> Any:
        space = {"lr": tenfold.loguniform(1e-4, 1e-1), "dropout": tenfold.uniform(0.0, 0.5)}
        options = {"objective": "val_accuracy", "pruner": "asha", **self._options("tune")}

        def search() -> Any:
            return tenfold.tune(self._fit(data), space, trials=self.trials, cv=FOLDS, **options)

        def told(study: Any) -> str:
            early = sum(trial.state == "pruned" for trial in study.trials)
            return f"{self.trials} trials on {FOLDS} folds, {early} given up early; the best: {study.best.value:.1%}"

        return self._step("tune", f"{self.trials} trials on {FOLDS} folds, most given up early", search, told)

    def _train(self, data: tuple[Any, Any], study: Any) -> Any:
        def best() -> Any:
            return tenfold.train(self._fit(data), study.best.params, **self._options("train"))

        def told(trained: Any) -> str:
            return f"{trained.result.epochs} epochs, {trained.updates} updates"

        return self._step("train", "the best of them, on all training images", best, told)

    def _evaluate(self, data: tuple[Any, Any], trained: Any) -> Any:
        x, y = data
        held = x[digits.TRAINED_ON :], y[digits.TRAINED_ON :]

        def score() -> Any:
            return tenfold.evaluate(trained, held, ["accuracy", "confusion"], **self._options("evaluate"))

        about = f"{len(held[0])} images that no model has seen"
        return self._step("evaluate", about, score, lambda scores: f"{scores['accuracy']:.1%} of {about}")

    def _measure(self, data: tuple[Any, Any], study: Any) -> Any:
        task = functools.partial(tenfold.train, self._fit(data), study.best.params)
        workers = sorted({1, max(2, int(machine.look().cpus))})
        options: dict[str, Any] = {"repeats": REPEATS, "run": self.folder / "measure", "fresh": self.fresh}
        options |= {} if self.engine is None else {"engines": [self.engine]}

        def grid() -> Any:
            return tenfold.measure(task, workers=workers, sizes=list(SIZES), **options)

        def told(found: Any) -> str:
            return f"{len(found.cells)} cells, {REPEATS} times each"

        return self._step("measure", f"how training scales: {workers} workers, {list(SIZES)} images", grid, told)

    def _estimate(self) -> None:
        """What one by one takes, from a sample: Keras's own fit with all cores, and nothing given up early."""
        self.say("a few images and one model by hand, to compare")
        options = {**self._options("by hand"), "engine": "local", "progress": False}
        (found,) = tenfold.map(digits.by_hand, [SAMPLE], cpus=machine.look().cpus, **options)
        images, model = len(digits.images()[0]), found["model"]
        alone = {
            "prepare": images * found["image"],
            "tune": self.trials * FOLDS * model,
            "train": model * FOLDS / (FOLDS - 1),
        }
        self.steps = [replace(step, alone=alone.get(step.name)) for step in self.steps]

    # -- what they share --------------------------------------------------------------------------------------------

    def _fit(self, data: tuple[Any, Any]) -> Any:
        x, y = data
        rows = slice(0, digits.TRAINED_ON)
        return tenfold.Fit(digits.build, (x[rows], y[rows]), epochs=digits.EPOCHS, batch_size=digits.BATCH)

    def _options(self, name: str) -> dict[str, Any]:
        return {"engine": self.engine, "run": self.folder / name, "fresh": self.fresh}

    def _step(self, name: str, about: str, function: Callable[[], T], told: Callable[[T], str]) -> T:
        self.say(f"{name}: {about}")
        began = time.monotonic()
        found = function()
        self.steps.append(self._noted(Step(name, told(found), time.monotonic() - began)))
        return found

    def _noted(self, step: Step) -> Step:
        """What it took when it was really done: to find it again takes no time, and would look like a feat."""
        path = self.folder / TOOK
        known: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        before = known.get(step.name)
        if before is not None and before["what"] == step.what and not self.fresh:
            return replace(step, seconds=before["seconds"], kept=True)
        known[step.name] = {"what": step.what, "seconds": step.seconds}
        path.write_text(json.dumps(known, indent=1))
        return step
