"""An estimator whose worker dies under it; a module of its own, so that workers can import it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sklearn.linear_model import LogisticRegression


class Fragile(LogisticRegression):  # type: ignore[misc]
    """Kills its process `times` times, counted in a folder, when C is 2."""

    def __init__(self, folder: str = "", times: int = 1, C: float = 1.0) -> None:  # noqa: N803
        super().__init__(C=C, max_iter=1000)
        self.folder = folder
        self.times = times

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:  # noqa: N803
        for number in range(self.times if self.C == 2 else 0):
            mark = Path(self.folder) / str(number)
            if not mark.exists():
                mark.touch()
                os._exit(9)
        return super().fit(X, y, sample_weight)
