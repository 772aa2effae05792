"""A model that predicts numbers: one for each row, or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy
from sklearn.base import RegressorMixin

from tenfold.sklearn.craft import Build
from tenfold.sklearn.estimator import Estimator
from tenfold.sklearn.targets import Answers, relative
from tenfold.sklearn.trained import Trained
from tenfold.sklearn.training import Training


class Regressor(RegressorMixin, Estimator):  # type: ignore[misc]
    """

    build           a function; its parameters called n_features, input_shape, n_outputs, epochs or batch_size are
                    filled in where they are not given
    epochs, batch_size, shuffle, metrics, callbacks   as for tenfold.Fit
    validation      the share of the last rows to score after each epoch, or (X, y)
    fit_kwargs      a dict of what Keras's `fit` would take, instead of the same among these arguments
    random_state    a number is the seed of initial weights, order and dropout; None draws one
    verbose         1 writes a line after each epoch
    params          whatever `build` takes: they are parameters of the estimator, which a search can set
    """

    def __init__(
        self,
        build: Build,
        *,
        epochs: int = 1,
        batch_size: int = 32,
        validation: Any = None,
        shuffle: bool = True,
        callbacks: Sequence[Any] = (),
        metrics: Sequence[Any] = (),
        fit_kwargs: Mapping[str, Any] | None = None,
        random_state: int | numpy.random.RandomState | None = None,
        verbose: int = 0,
        **params: Any,
    ) -> None:
        self.build = build
        self.epochs = epochs
        self.batch_size = batch_size
        self.validation = validation
        self.shuffle = shuffle
        self.callbacks = callbacks
        self.metrics = metrics
        self.fit_kwargs = fit_kwargs
        self.random_state = random_state
        self.verbose = verbose
        self._given = params

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Regressor:  # noqa: N803
        """Go on training the same model for one epoch."""
        self._partial_fit(X, y, sample_weight, None)
        return self

    def predict(self, X: Any) -> numpy.ndarray:  # noqa: N803
        """A number for each row, or a row of them, as y had."""
        outputs = self._outputs(X).astype(numpy.float64)
        return outputs.reshape(len(outputs)) if self._flat else outputs.reshape(len(outputs), -1)

    def _accepts(self) -> dict[str, Any]:
        return {"multi_output": True, "y_numeric": True}

    def _answers(self, y: numpy.ndarray, weight: numpy.ndarray | None, **more: Any) -> Answers:
        return Answers(y if y.dtype.kind == "f" else y.astype(numpy.float64), relative(weight, more.get("rows")))

    def _keep(self, training: Training, trained: Trained) -> None:
        super()._keep(training, trained)
        self._flat = training.data[1].ndim == 1

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
