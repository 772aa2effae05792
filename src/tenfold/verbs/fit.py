"""`tenfold.Fit`, as people call it: the job itself, and how it would be done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tenfold.fuse import fit

if TYPE_CHECKING:
    from tenfold.verbs.explain import Explanation


class Fit(fit.Fit):
    __doc__ = fit.Fit.__doc__

    def explain(self, items: Sequence[Mapping[str, Any]], **where: Any) -> Explanation:
        """Print how these models would be trained, and why; a few steps are taken to measure, and forgotten.

        `where` is what `map` takes: engine, workers, cpus, gpus, memory.
        """
        from tenfold.verbs.explain import explain

        return explain(self, items, **where)
