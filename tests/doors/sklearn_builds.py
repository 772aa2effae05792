"""Small models for the tests of `tenfold.sklearn`; a module of their own, so that they can be pickled."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


def torch_classes(n_features: int, n_classes: int, lr: float = 0.1, width: int = 16) -> tuple[Any, Any, Any]:
    import torch
    from torch import nn

    module = nn.Sequential(nn.Linear(n_features, width), nn.Tanh(), nn.Linear(width, n_classes)).double()
    return module, nn.CrossEntropyLoss(), torch.optim.Adam(module.parameters(), lr)


def torch_numbers(n_features: int, n_outputs: int, lr: float = 0.1, width: int = 16) -> tuple[Any, Any, Any]:
    import torch
    from torch import nn

    module = nn.Sequential(nn.Linear(n_features, width), nn.Tanh(), nn.Linear(width, n_outputs)).double()
    return module, nn.MSELoss(), torch.optim.Adam(module.parameters(), lr)


def keras_classes(n_features: int, n_classes: int, lr: float = 0.1, width: int = 16) -> Any:
    import keras
    from keras import layers

    model = keras.Sequential(
        [keras.Input((n_features,)), layers.Dense(width, "tanh"), layers.Dense(n_classes, "softmax")]
    )
    model.compile(keras.optimizers.Adam(lr), "sparse_categorical_crossentropy")
    return model


def keras_numbers(n_features: int, n_outputs: int, lr: float = 0.1, width: int = 16) -> Any:
    import keras
    from keras import layers

    model = keras.Sequential([keras.Input((n_features,)), layers.Dense(width, "tanh"), layers.Dense(n_outputs)])
    model.compile(keras.optimizers.Adam(lr), "mse")
    return model


def torch_odds(n_features: int, lr: float) -> tuple[Any, Any, Any]:
    """One output, that says how much more likely the second of two classes is."""
    import torch
    from torch import nn

    module = nn.Sequential(nn.Linear(n_features, 8), nn.Tanh(), nn.Linear(8, 1))
    return module, nn.BCEWithLogitsLoss(), torch.optim.Adam(module.parameters(), lr)


def fails_at_three(n_features: int, n_classes: int, width: int = 4) -> Any:
    if width == 3:
        raise RuntimeError("three is too few")
    return torch_classes(n_features, n_classes, width=width)


def dies_once(n_features: int, n_classes: int, folder: str, lr: float = 0.1) -> Any:
    mark = Path(folder) / "died"
    if not mark.exists():
        mark.touch()
        os._exit(9)
    return torch_classes(n_features, n_classes, lr)


def keras_one_hot(n_features: int, n_classes: int, lr: float = 0.1) -> Any:
    import keras
    from keras import layers

    model = keras.Sequential([keras.Input((n_features,)), layers.Dense(8, "tanh"), layers.Dense(n_classes, "softmax")])
    model.compile(keras.optimizers.Adam(lr), "categorical_crossentropy", metrics=["accuracy"])
    return model


def keras_two(n_features: int, lr: float = 0.1) -> Any:
    """One output for two classes, of a loss that nothing in this code names."""
    import keras
    from keras import layers

    model = keras.Sequential([keras.Input((n_features,)), layers.Dense(8, "tanh"), layers.Dense(1, "sigmoid")])
    model.compile(keras.optimizers.Adam(lr), keras.losses.get("_".join(["binary", "crossentropy"])))
    return model


def torch_images(n_classes: int, lr: float = 0.1) -> tuple[Any, Any, Any]:
    import torch
    from torch import nn

    module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, n_classes))
    return module, nn.CrossEntropyLoss(), torch.optim.Adam(module.parameters(), lr)


def torch_counted(n_features: int, n_classes: int, file: str, lr: float = 0.1) -> tuple[Any, Any, Any]:
    """Writes a line for each step that its optimizer takes; which has no fused form for that reason."""
    import torch
    from torch import nn

    class Counted(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:
            with open(file, "a") as lines:
                lines.write(f"{lr}\n")
            super().step(closure)

    module = nn.Linear(n_features, n_classes).double()
    return module, nn.CrossEntropyLoss(), Counted(module.parameters(), lr)


def torch_counted_schedule(n_features: int, n_classes: int, file: str, epochs: int, lr: float = 0.1) -> Any:
    """The same, for a schedule that ends with the last epoch."""
    assert epochs == 9, "a part of the training is no reason for another schedule"
    return torch_counted(n_features, n_classes, file, lr)
