"""What all estimators share: from what scikit-learn gives to a `Training`, and from there to predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from tenfold.errors import BadCall
from tenfold.sklearn import forms
from tenfold.sklearn.craft import Craft
from tenfold.sklearn.foreseen import Foreseen
from tenfold.sklearn.forms import Problem
from tenfold.sklearn.parameters import Parameters
from tenfold.sklearn.targets import Answers
from tenfold.sklearn.trained import Trained
from tenfold.sklearn.training import Data, Training
from tenfold.work.outcome import shorten

SETTINGS = ("epochs", "batch_size", "validation", "shuffle", "callbacks", "metrics", "class_weight", "verbose")
"""Parameters of the constructor that say how a model is trained."""
KERAS_NAMES = {"validation_split": "validation", "validation_data": "validation"}
"""What `fit_kwargs` may have, where Keras calls it otherwise."""
MOST = 2**31 - 1  # a seed that is drawn is below this


class Estimator(Parameters):
    """A model that `build` makes, as an estimator."""

    _craft: ClassVar[Craft]
    _trained: Trained
    fit_kwargs: Mapping[str, Any] | None
    random_state: Any

    # -- training -----------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Estimator:  # noqa: N803
        """Train a new model."""
        foreseen: Foreseen | None = self.__dict__.pop("_foreseen", None)
        x, y, weight = self._checked(X, y, sample_weight, reset=True)
        if foreseen is not None and foreseen.answers(self.get_params(deep=False), x, y):
            self._keep(foreseen.training, foreseen.open())
            return self
        training = self._training(x, self._answers(y, weight))
        self._keep(training, training.train(self._settings()["verbose"]))
        return self

    def _partial_fit(self, X: Any, y: Any, sample_weight: Any, classes: Any) -> None:  # noqa: N803
        first = "_trained" not in self.__dict__
        x, y, weight = self._checked(X, y, sample_weight, reset=first)
        training = self._training(x, self._answers(y, weight, classes=classes))
        trained = training.begin() if first else self._trained
        settings = self._settings()
        y = forms.targets(training.data[1], trained.form)
        trained.go_on((x, y, training.data[2]), settings["batch_size"], shuffle=settings["shuffle"])
        self._keep(training, trained)

    def _keep(self, training: Training, trained: Trained) -> None:
        self._trained = trained
        self.history_ = trained.result.history

    def _answers(self, y: numpy.ndarray, weight: numpy.ndarray | None, **more: Any) -> Answers:
        """y as numbers, and what is known about them; `more` is rows, or classes."""
        raise NotImplementedError

    def _training(self, x: numpy.ndarray, answers: Answers) -> Training:
        """Everything that one fit needs."""
        settings = self._settings()
        problem = Problem(answers.count, answers.columns, x.shape[1:], str(x.dtype))
        outputs = answers.columns if answers.count is None else answers.count
        filled = {
            "n_features": x.shape[1],
            "input_shape": x.shape[1:],
            "n_classes": answers.count,
            "n_outputs": outputs,
            "epochs": settings["epochs"],
            "batch_size": settings["batch_size"],
        }
        return Training(
            self.build,
            {**self._build_params(filled), "seed": self._seed()},
            self._craft,
            {name: settings[name] for name in ("epochs", "batch_size", "shuffle", "callbacks", "metrics")},
            (x, answers.y, answers.weight),
            self._validation(settings["validation"], answers),
            problem,
            answers.classes,
        )

    def _settings(self) -> dict[str, Any]:
        """How it is trained, with what `fit_kwargs` says otherwise."""
        found = {name: getattr(self, name) for name in SETTINGS if name in self._get_param_names()}
        given = self.fit_kwargs or {}
        unknown = [name for name in given if KERAS_NAMES.get(name, name) not in found]
        if unknown:
            accepted = [name for name in (*found, *KERAS_NAMES) if name != "validation"]
            raise BadCall(f"fit_kwargs has {', '.join(map(repr, unknown))}; accepted are {', '.join(accepted)}")
        return found | {KERAS_NAMES.get(name, name): value for name, value in given.items()}

    def _seed(self) -> int:
        """A number as it is; otherwise the next one that is drawn."""
        state = self.random_state
        if isinstance(state, int | numpy.integer) and not isinstance(state, bool):
            return int(state)
        return int(check_random_state(state).randint(MOST))

    # -- data ---------------------------------------------------------------------------------------------------------

    def _checked(self, X: Any, y: Any, sample_weight: Any, *, reset: bool) -> Data:  # noqa: N803
        if not callable(self.build):
            raise BadCall(f"build={self.build!r}: expected a function that returns a model")
        is_model = hasattr(self.build, "forward") or (hasattr(self.build, "compile") and hasattr(self.build, "layers"))
        if is_model and not isinstance(self.build, type):
            raise BadCall(f"build={shorten(self.build)} is a model; give the function that makes it")
        x, y = validate_data(self, X, y, reset=reset, allow_nd=True, **self._accepts())
        return x, y, self._checked_weight(sample_weight, x)

    def _accepts(self) -> dict[str, Any]:
        """What y may be, as scikit-learn's checks say it."""
        return {}

    def _checked_weight(self, sample_weight: Any, x: numpy.ndarray) -> numpy.ndarray | None:
        if sample_weight is None:
            return None
        found: numpy.ndarray = _check_sample_weight(sample_weight, x, dtype=numpy.float64)
        if not found.any():
            raise BadCall("sample_weight is zero for every row; at least one must count")
        return found

    def _validation(self, validation: Any, answers: Answers) -> Any:
        """A share as it is; (X, y) with y as numbers."""
        if not isinstance(validation, list | tuple):
            return validation
        if len(validation) not in (2, 3):
            raise BadCall(f"validation has {len(validation)} parts, expected (X, y) or (X, y, sample_weight)")
        x = validate_data(self, validation[0], reset=False, allow_nd=True)
        weight = self._checked_weight(validation[2] if len(validation) == 3 else None, x)
        return x, answers.encoded(numpy.asarray(validation[1])), weight

    # -- what was trained ---------------------------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return "_trained" in self.__dict__

    @property
    def model_(self) -> Any:
        """The trained model: of Keras, in this process's backend, or a PyTorch module."""
        check_is_fitted(self)
        return self._trained.live.model

    def _outputs(self, X: Any) -> numpy.ndarray:  # noqa: N803
        check_is_fitted(self)
        return self._trained.outputs(validate_data(self, X, reset=False, allow_nd=True))
