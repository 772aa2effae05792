"""In a worker: from a `Fit` and its parameters to a copy of the model that can be trained with others."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tenfold.errors import BadCall
from tenfold.fuse.building import Member, construct, kind_of
from tenfold.nursery import used
from tenfold.training.port import Learner

if TYPE_CHECKING:
    from tenfold.fuse.fit import Fit


def learner(fit: Fit, member: Member, precision: str | None = None, devices: int = 1) -> Learner:
    """Built as everywhere, from the seed: so all workers begin with the same weights.

    Learners that take no devices leave all but one alone.
    """
    if devices == 1 or on_torch(fit):
        return _built(fit, member, precision)
    import keras

    if keras.backend.backend() == "tensorflow":
        from tenfold.training.learner_mirrored import mirrored

        return _mirrored(fit, member, precision, mirrored(devices))
    if keras.backend.backend() == "jax":
        from tenfold.training.jax_devices import begin

        return _built(fit, member, precision, begin(devices))
    return _built(fit, member, precision)


def in_group(fit: Fit, member: Member, workers: int) -> Learner:
    """One copy of a Keras model on the devices of so many processes, whose group is there; the same in all of them."""
    import keras

    if keras.backend.backend() == "tensorflow":
        from tenfold.training import learner_mirrored

        return _mirrored(fit, member, None, learner_mirrored.everywhere(workers))
    if keras.backend.backend() == "jax":
        from tenfold.training import jax_devices

        return _built(fit, member, None, jax_devices.everywhere(workers))
    raise BadCall(no_group())


def _mirrored(fit: Fit, member: Member, precision: str | None, strategy: Any) -> Learner:
    with strategy.scope():
        return _built(fit, member, precision, strategy=strategy)


def _built(
    fit: Fit, member: Member, precision: str | None, devices: Sequence[Any] = (), strategy: Any = None
) -> Learner:
    built = construct(fit.build, member.params)
    if kind_of(built) == "torch":
        from tenfold.training.learner_torch import TorchLearner

        return TorchLearner(fit, member, built, precision)
    if precision is not None:
        raise BadCall(of_keras(precision))
    import keras

    backend = keras.backend.backend()
    if strategy is not None:
        from tenfold.training.learner_mirrored import MirroredLearner

        return MirroredLearner(fit, member, built, strategy)
    if backend == "tensorflow":
        from tenfold.training.learner_tensorflow import TensorFlowLearner

        return TensorFlowLearner(fit, member, built)
    if backend == "jax":
        from tenfold.training.learner_jax import JaxLearner

        return JaxLearner(fit, member, built, devices)
    from tenfold.training.learner_keras_torch import KerasTorchLearner

    return KerasTorchLearner(fit, member, built)


def on_torch(fit: Fit) -> bool:
    """Whether it is seen in the code of `build` that it makes a module of PyTorch."""
    names = used.members(fit)
    return "torch" in names and "keras" not in names


def keras_backend() -> str | None:
    """What this process's Keras models are made of; None where nobody has said it. Without an import."""
    keras = sys.modules.get("keras")
    return os.environ.get("KERAS_BACKEND") if keras is None else str(keras.config.backend())


def one_device(devices: int) -> str:
    """Why several are refused for what runs on PyTorch."""
    return (
        f"devices={devices}: of Keras on JAX or TensorFlow; PyTorch has one device in each process, so that several "
        f"are several workers: workers={devices}, with gpus=1 where each has a GPU"
    )


def no_group() -> str:
    """Why TensorFlow's and JAX's own collectives are refused for what runs on PyTorch."""
    return (
        'exchange="framework": of Keras on TensorFlow or JAX; PyTorch has its own collectives as exchange="nccl" on '
        'GPUs, and as "gloo" between CPUs'
    )


def of_keras(precision: str) -> str:
    """Why it is refused for a model of Keras."""
    return (
        f"precision={precision!r}: of modules of PyTorch; a Keras model has it from its layers, when `build` calls "
        f'keras.config.set_dtype_policy("mixed_{precision}") first'
    )
