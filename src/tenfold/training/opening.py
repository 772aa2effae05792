"""In a worker: from a `Fit` and its parameters to a copy of the model that can be trained with others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenfold.fuse.building import Member, construct, kind_of
from tenfold.training.port import Learner

if TYPE_CHECKING:
    from tenfold.fuse.fit import Fit


def learner(fit: Fit, member: Member) -> Learner:
    """Built as everywhere, from the seed: so all workers begin with the same weights."""
    built = construct(fit.build, member.params)
    if kind_of(built) == "torch":
        from tenfold.training.learner_torch import TorchLearner

        return TorchLearner(fit, member, built)
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
