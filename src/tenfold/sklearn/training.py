"""One fit of an estimator, as a value: what is trained, on what, and for how long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy

from tenfold.sklearn import forms, placing
from tenfold.sklearn.craft import Build, Craft
from tenfold.sklearn.forms import Form, OtherForm, Problem
from tenfold.sklearn.making import Maker
from tenfold.sklearn.trained import Trained
from tenfold.verbs.fit import Fit

Data = tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray | None]
"""x, y as numbers (of classes, or to predict), and weights."""


@dataclass(frozen=True, slots=True)
class Training:
    """Everything that one fit needs."""

    build: Build
    """The user's function."""
    params: Mapping[str, Any]
    """What it is called with; and the seed."""
    craft: Craft
    """What its framework needs."""
    settings: Mapping[str, Any]
    """What `Fit` takes beside the data: epochs, batch_size, shuffle, callbacks, metrics."""
    data: Data
    """All rows, those of other folds included."""
    validation: Data | float | None
    """Rows to score after each epoch, or the share of the last ones."""
    problem: Problem
    """What is to be learned."""
    classes: numpy.ndarray | None
    """The labels that the numbers stand for."""

    def guess(self) -> Form:
        """The likely form of its model."""
        return self.craft.guess(forms.words(self.build, iter(self.params.values())), self.problem)

    def maker(self, form: Form) -> Maker:
        return Maker(self.build, self.craft.framework, self.craft.form_of, self.problem, form)

    def formed(self, data: Data, form: Form) -> tuple[Any, ...]:
        """Data as `Fit` takes them, for a model of this form."""
        x, y, weight = data
        found = forms.inputs(x, form, floats=self.craft.floats), forms.targets(y, form)
        return found if weight is None else (*found, weight)

    def fit(self, form: Form, data: Data | None = None, *, outputs: bool = False) -> Fit:
        """The job: on its own data, or on more that has its rows among others."""
        validation = self.formed(self.validation, form) if isinstance(self.validation, tuple) else self.validation
        given = self.formed(data or self.data, form)
        return Fit(self.maker(form), given, validation=validation, outputs=outputs, **self.settings)

    def train(self, verbose: int) -> Trained:
        """On all rows, wherever models are trained now."""
        form = self.guess()
        try:
            result = placing.one(self.fit(form), self.params, verbose)
        except OtherForm as other:
            form = other.form
            result = placing.one(self.fit(form), self.params, verbose)
        return Trained(result, self.maker(form), self.craft, form)

    def begin(self) -> Trained:
        """Build the model in this process, to be trained one epoch after the other."""
        form = self.guess()
        try:
            return Trained.begun(dict(self.params), self.maker(form), self.craft, form)
        except OtherForm as other:
            return Trained.begun(dict(self.params), self.maker(other.form), self.craft, other.form)
