"""Tasks for studies: a training in a few numbers, with and without a checkpoint, that leaves a line for each step."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tenfold

STEPS = 9
QUALITIES = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]
"""Of nine trials: the larger, the faster the loss falls."""
SPACE = {"x": QUALITIES}


def loss(x: float, steps: int) -> float:
    """What a trial has reached after so many steps."""
    return (1 - x / 10) ** steps


def training(log: Path, *, checkpoint: bool, first: int = 0, stride: int = 1) -> Callable[[Any], float]:
    """A task whose steps have the numbers first, first + stride and so on."""

    def train(params: dict[str, Any]) -> float:
        here = tenfold.here()
        kept = here.folder / "state" if checkpoint else None
        steps, value = json.loads(kept.read_text()) if kept is not None and kept.exists() else (0, 1.0)
        while steps < STEPS:
            steps, value = steps + 1, value * (1 - params["x"] / 10)
            with open(log, "a") as file:
                file.write(f"{params['x']:.6f} {steps}\n")
            if kept is not None:
                kept.write_text(json.dumps([steps, value]))
            here.report(first + (steps - 1) * stride, loss=value)
        return float(value)

    return train


def done(log: Path) -> Counter[str]:
    """Steps -> how often they were done."""
    return Counter(log.read_text().splitlines())


def told(study: Any) -> list[Any]:
    """What makes a study what it is."""
    return [(t.number, t.params, t.state, t.values, t.steps, t.curve) for t in study.trials]
