"""Keras models in legs, in a process of its own: prints for each case nothing, or what went wrong."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from typing import Any

import keras
import leg_cases as cases
import numpy
from keras import layers

import tenfold

ITEMS = [{"lr": lr, "seed": seed} for lr, seed in ((0.003, 1), (0.01, 2), (0.02, 3))]
STEPS = 3  # in an epoch


def dense(lr: float) -> Any:
    return compiled([keras.Input((6,)), layers.Dense(8, "relu"), layers.Dense(3)], keras.optimizers.Adam(lr))


def mixed(lr: float) -> Any:
    """With everything that has a state of its own: batch norm, dropout, momentum."""
    middle = [layers.Dense(8), layers.BatchNormalization(), layers.Activation("relu"), layers.Dropout(0.3)]
    return compiled([keras.Input((6,)), *middle, layers.Dense(3)], keras.optimizers.SGD(lr, momentum=0.9))


def unbuilt(lr: float) -> Any:
    """Without an Input: its weights are made when it sees its data."""
    return compiled([layers.Dense(8, "relu"), layers.Dropout(0.2), layers.Dense(3)], keras.optimizers.Adam(lr))


def scheduled(lr: float, later: float) -> Any:
    """Another rate from the third epoch on, as Keras does it."""
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([cases.PAUSE * STEPS - 1], [lr, later])
    return compiled([keras.Input((6,)), layers.Dense(8, "relu"), layers.Dense(3)], keras.optimizers.Adam(schedule))


def compiled(parts: list[Any], optimizer: Any) -> Any:
    model = keras.Sequential(parts)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"])
    return model


def stopping(how: str) -> None:
    rule = tenfold.EarlyStopping(patience=1)
    items = [{"lr": lr, "seed": 1} for lr in (0.001, 2.0, 0.3)]
    found = cases.check_legs(cases.fit_of(dense, how, callbacks=[rule]), items, (1, 3))
    assert len({one.epochs for one in found}) > 1, "they must stop at different epochs, or this shows nothing"


def rows(how: str) -> None:
    """Rows of their own are arrays among the parameters."""
    items = [{"lr": 0.01, "seed": 1, "rows": numpy.arange(36), "validation_rows": numpy.arange(36, 44)}]
    cases.check_legs(cases.fit_of(dense, how, validation=None), items)


def checks(how: str) -> dict[str, Callable[[], Any]]:
    few = ITEMS if how == "fused" else ITEMS[:2]
    return {
        "mixed": lambda: cases.check_legs(cases.fit_of(mixed, how), few),
        "one": lambda: cases.check_legs(cases.fit_of(mixed, how), ITEMS[:1]),
        "stopping": lambda: stopping(how),
        "rows": lambda: rows(how),
        "rate": lambda: cases.check_another_rate(
            cases.fit_of(dense, how), cases.fit_of(scheduled, "alone"), (0.003, 0.03), 4
        ),
        "unbuilt": lambda: cases.check_legs(cases.fit_of(unbuilt, how), ITEMS[:1]),
    }


def main(names: list[str]) -> None:
    told = {}
    for name in names:
        how, _, what = name.partition(" ")
        try:
            checks(how)[what]()
            told[name] = ""
        except Exception:
            told[name] = traceback.format_exc()
    sys.stdout.write(json.dumps(told) + "\n")
