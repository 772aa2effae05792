"""A model that learns classes: labels of any kind, probabilities, weights by class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from tenfold.errors import BadCall
from tenfold.sklearn import forms, targets
from tenfold.sklearn.craft import Build
from tenfold.sklearn.estimator import Estimator
from tenfold.sklearn.targets import Answers
from tenfold.sklearn.trained import Trained
from tenfold.sklearn.training import Training


class Classifier(ClassifierMixin, Estimator):  # type: ignore[misc]
    """

    build           a function; its parameters called n_features, input_shape, n_classes, n_outputs, epochs or
                    batch_size are filled in where they are not given
    epochs, batch_size, shuffle, metrics, callbacks   as for tenfold.Fit
    validation      the share of the last rows to score after each epoch, or (X, y)
    class_weight    how much rows count: by class, or "balanced"
    fit_kwargs      a dict of what Keras's `fit` would take, instead of the same among these arguments
    random_state    a number is the seed of initial weights, order and dropout; None draws one
    verbose         1 writes a line after each epoch
    params          whatever `build` takes: they are parameters of the estimator, which a search can set
    """

    classes_: numpy.ndarray

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
        class_weight: Mapping[Any, float] | str | None = None,
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
        self.class_weight = class_weight
        self.fit_kwargs = fit_kwargs
        self.random_state = random_state
        self.verbose = verbose
        self._given = params

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Classifier:  # noqa: N803
        """Go on training the same model for one epoch. The first call is told all classes that will ever come."""
        first = "_trained" not in self.__dict__
        if first and classes is None:
            raise BadCall("classes must be given to the first call of partial_fit: every label that will ever come")
        if not first and classes is not None and not numpy.array_equal(self.classes_, numpy.unique(classes)):
            raise BadCall(f"classes={classes!r} differ from those of the first call of partial_fit, {self.classes_}")
        self._partial_fit(X, y, sample_weight, numpy.unique(classes) if first else self.classes_)
        return self

    def predict(self, X: Any) -> numpy.ndarray:  # noqa: N803
        """The most likely class of each row."""
        outputs = self._outputs(X)
        found: numpy.ndarray = self.classes_[forms.numbers(outputs, self._trained.form, len(self.classes_))]
        return found

    def predict_proba(self, X: Any) -> numpy.ndarray:  # noqa: N803
        """How likely each class is, in the order of `classes_`."""
        outputs = self._outputs(X)
        return forms.probabilities(outputs, self._trained.form, len(self.classes_))

    def _answers(self, y: numpy.ndarray, weight: numpy.ndarray | None, **more: Any) -> Answers:
        check_classification_targets(y)
        class_weight = self._settings()["class_weight"]
        classes = more.get("classes")
        if classes is None:
            return targets.of_classes(y, weight, class_weight, more.get("rows"))
        numbers = targets.encoded(y, classes)
        weight = targets.weighted(numbers, weight, class_weight, classes, y)
        return Answers(numbers, targets.relative(weight), classes)

    def _keep(self, training: Training, trained: Trained) -> None:
        super()._keep(training, trained)
        assert training.classes is not None
        self.classes_ = training.classes
