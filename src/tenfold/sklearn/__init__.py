"""The door into scikit-learn: estimators of Keras and PyTorch models, and searches that train all candidates at once.

    estimator, classifier, regressor     what scikit-learn asks of an estimator
    keras, torch                         what differs between the two
    forms, making, training, trained     from y and `build` to a model, and from its outputs to predictions
    search, suggested                    GridSearch and RandomSearch; Search, with a sampler and a pruner
    gathering                            the calls that scikit-learn's search would make, all of them at once
    fused, apart                         how those are run: as one `Fit`, or as tasks of `map`

Everything is imported when it is first used. Workers open what lives here without importing scikit-learn: it takes
almost a second, and they do not need it.
"""

from __future__ import annotations

import contextlib
import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tenfold.sklearn.keras import KerasClassifier as KerasClassifier
    from tenfold.sklearn.keras import KerasRegressor as KerasRegressor
    from tenfold.sklearn.search import GridSearch as GridSearch
    from tenfold.sklearn.search import RandomSearch as RandomSearch
    from tenfold.sklearn.suggested import Search as Search
    from tenfold.sklearn.torch import TorchClassifier as TorchClassifier
    from tenfold.sklearn.torch import TorchRegressor as TorchRegressor

_HOMES = {
    "KerasClassifier": "tenfold.sklearn.keras",
    "KerasRegressor": "tenfold.sklearn.keras",
    "TorchClassifier": "tenfold.sklearn.torch",
    "TorchRegressor": "tenfold.sklearn.torch",
    "GridSearch": "tenfold.sklearn.search",
    "RandomSearch": "tenfold.sklearn.search",
    "Search": "tenfold.sklearn.suggested",
}
__all__ = [*_HOMES]  # noqa: PLE0604
_SEARCHES_OF_KERAS = ({"GridSearch", "RandomSearch", "Search"}, {"KerasClassifier", "KerasRegressor"})
_asked: set[str] = set()


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tenfold.sklearn' has no attribute {name!r}")
    from tenfold.machine.installed import missing, version

    if version("scikit-learn") is None:
        raise missing(f"scikit-learn, which tenfold.sklearn.{name} needs,", "sklearn")
    _notice(name)
    return getattr(importlib.import_module(_HOMES[name]), name)


def _notice(name: str) -> None:
    """Who asks for a search and for a Keras estimator will need workers with Keras on JAX: their imports start now."""
    from tenfold.nursery import notice

    before = all(_asked & names for names in _SEARCHES_OF_KERAS)
    _asked.add(name)
    if before or not all(_asked & names for names in _SEARCHES_OF_KERAS) or not notice.is_callers_process():
        return
    from tenfold.verbs.warm import warm

    with contextlib.suppress(Exception):  # an import must never fail because of this; a search will say what is wrong
        warm("fuse")


def __dir__() -> list[str]:
    return __all__
