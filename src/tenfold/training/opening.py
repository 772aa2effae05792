"""In a worker: from a `Fit` and its parameters to a copy of the model that can be trained with others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenfold.errors import BadCall
from tenfold.fuse.building import Member, construct, kind_of
from tenfold.training.port import Learner

if TYPE_CHECKING:
    from tenfold.fuse.fit import Fit


def learner(fit: Fit, member: Member, precision: str | None = None) -> Learner:
    """Built as everywhere, from the seed: so all workers begin with the same weights."""
    built = construct(fit.build, member.params)
    if kind_of(built) == "torch":
        from tenfold.training.learner_torch import TorchLearner

        return TorchLearner(fit, member, built, precision)
    if precision is not None:
        raise BadCall(of_keras(precision))
    import keras

    backend = keras.backend.backend()
    if backend == "tensorflow":
        from tenfold.training.learner_tensorflow import TensorFlowLearner

        return TensorFlowLearner(fit, member, built)
    if backend == "jax":
        from tenfold.training.learner_jax import JaxLearner

        return JaxLearner(fit, member, built)
    from tenfold.training.learner_keras_torch import KerasTorchLearner

    return KerasTorchLearner(fit, member, built)


def of_keras(precision: str) -> str:
    """Why it is refused for a model of Keras."""
    return (
        f"precision={precision!r}: of modules of PyTorch; a Keras model has it from its layers, when `build` calls "
        f'keras.config.set_dtype_policy("mixed_{precision}") first'
    )
