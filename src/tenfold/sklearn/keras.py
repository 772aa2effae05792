"""Keras models as scikit-learn estimators."""

from __future__ import annotations

from tenfold.sklearn import keras_form
from tenfold.sklearn.classifier import Classifier
from tenfold.sklearn.craft import Craft
from tenfold.sklearn.keras_model import KerasModel
from tenfold.sklearn.regressor import Regressor

CRAFT = Craft("keras", keras_form.form_of, keras_form.guess, KerasModel, floats=False)


class KerasClassifier(Classifier):
    """A Keras model that learns classes: `build(**params)` returns it, compiled."""

    __doc__ += Classifier.__doc__ or ""
    _craft = CRAFT


class KerasRegressor(Regressor):
    """A Keras model that predicts numbers: `build(**params)` returns it, compiled."""

    __doc__ += Regressor.__doc__ or ""
    _craft = CRAFT
