"""PyTorch modules as scikit-learn estimators."""

from __future__ import annotations

from tenfold.sklearn import torch_form
from tenfold.sklearn.classifier import Classifier
from tenfold.sklearn.craft import Craft
from tenfold.sklearn.regressor import Regressor
from tenfold.sklearn.torch_model import TorchModel

CRAFT = Craft("torch", torch_form.form_of, torch_form.guess, TorchModel, floats=True)


class TorchClassifier(Classifier):
    """A PyTorch module that learns classes: `build(**params)` returns (module, loss, optimizer)."""

    __doc__ += Classifier.__doc__ or ""
    _craft = CRAFT


class TorchRegressor(Regressor):
    """A PyTorch module that predicts numbers: `build(**params)` returns (module, loss, optimizer)."""

    __doc__ += Regressor.__doc__ or ""
    _craft = CRAFT
