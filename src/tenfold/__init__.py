"""tenfold trains many models at once, on every core, GPU and machine you have.

    import tenfold

    results = tenfold.map(train, range(10))

Everything is imported when it is first used: `import tenfold` imports no framework and no cluster engine.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

from tenfold.nursery import notice

if TYPE_CHECKING:
    from tenfold.data.prepared import Prepared as Prepared
    from tenfold.dispatch.results import Results as Results
    from tenfold.dispatch.study import Study as Study
    from tenfold.dispatch.using import use as use
    from tenfold.errors import BadCall as BadCall
    from tenfold.errors import TaskError as TaskError
    from tenfold.errors import TasksFailed as TasksFailed
    from tenfold.errors import TenfoldError as TenfoldError
    from tenfold.fuse.result import FitResult as FitResult
    from tenfold.fuse.stopping import EarlyStopping as EarlyStopping
    from tenfold.metrics.scores import Scores as Scores
    from tenfold.report.scaling_study import ScalingStudy as ScalingStudy
    from tenfold.scaling.projection import Projection as Projection
    from tenfold.search.population import Pbt as Pbt
    from tenfold.search.pruners import Asha as Asha
    from tenfold.search.pruners import Hyperband as Hyperband
    from tenfold.search.pruners import Median as Median
    from tenfold.search.pruners import Patience as Patience
    from tenfold.search.space import choice as choice
    from tenfold.search.space import constant as constant
    from tenfold.search.space import integer as integer
    from tenfold.search.space import logint as logint
    from tenfold.search.space import loguniform as loguniform
    from tenfold.search.space import uniform as uniform
    from tenfold.training.trained import Trained as Trained
    from tenfold.verbs.evaluate import evaluate as evaluate
    from tenfold.verbs.fit import Fit as Fit
    from tenfold.verbs.launch import launch as launch
    from tenfold.verbs.map import map as map  # noqa: A004
    from tenfold.verbs.measure import measure as measure
    from tenfold.verbs.predict import predict as predict
    from tenfold.verbs.prepare import prepare as prepare
    from tenfold.verbs.project import project as project
    from tenfold.verbs.train import train as train
    from tenfold.verbs.tune import tune as tune
    from tenfold.verbs.warm import warm as warm
    from tenfold.work.here import here as here
    from tenfold.work.outcome import Outcome as Outcome

__version__ = "0.1.0"

_HOMES = {
    "map": "tenfold.verbs.map",
    "prepare": "tenfold.verbs.prepare",
    "predict": "tenfold.verbs.predict",
    "evaluate": "tenfold.verbs.evaluate",
    "project": "tenfold.verbs.project",
    "Projection": "tenfold.scaling.projection",
    "tune": "tenfold.verbs.tune",
    "train": "tenfold.verbs.train",
    "Trained": "tenfold.training.trained",
    "launch": "tenfold.verbs.launch",
    "measure": "tenfold.verbs.measure",
    "ScalingStudy": "tenfold.report.scaling_study",
    "warm": "tenfold.verbs.warm",
    "Fit": "tenfold.verbs.fit",
    "FitResult": "tenfold.fuse.result",
    "EarlyStopping": "tenfold.fuse.stopping",
    **dict.fromkeys(("uniform", "loguniform", "integer", "logint", "choice", "constant"), "tenfold.search.space"),
    **dict.fromkeys(("Asha", "Hyperband", "Median", "Patience"), "tenfold.search.pruners"),
    "Pbt": "tenfold.search.population",
    "Study": "tenfold.dispatch.study",
    "here": "tenfold.work.here",
    "use": "tenfold.dispatch.using",
    "Results": "tenfold.dispatch.results",
    "Prepared": "tenfold.data.prepared",
    "Scores": "tenfold.metrics.scores",
    "Outcome": "tenfold.work.outcome",
    "TenfoldError": "tenfold.errors",
    "BadCall": "tenfold.errors",
    "TaskError": "tenfold.errors",
    "TasksFailed": "tenfold.errors",
}
__all__ = [*_HOMES, "__version__"]  # noqa: PLE0604


_WORKERS_IMPORT = {"prepare": ("tenfold.data.preparing", "tenfold.data.arrays")}
"""The nursery imports this while the caller imports the verb: 0.1 s of both."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tenfold' has no attribute {name!r}")
    if name in _WORKERS_IMPORT and not os.environ.get("TENFOLD_ENGINE"):
        notice.tell(_WORKERS_IMPORT[name])
    found = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return __all__


def _begin_engine() -> None:
    if os.environ.get("TENFOLD_ENGINE"):  # to look at the engines takes a moment
        importlib.import_module("tenfold.engines").ahead()


notice.watch(also=_begin_engine)
