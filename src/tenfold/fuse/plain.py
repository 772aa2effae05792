"""One model, trained by its framework's own loop on the same batches: for what cannot be fused, and to compare with."""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any

import numpy

from tenfold.fuse.building import Member, add_metrics, construct, kind_of
from tenfold.fuse.columns import Columns, mapped
from tenfold.fuse.outputs import Outputs
from tenfold.fuse.reading import Reading
from tenfold.fuse.result import FitResult

if TYPE_CHECKING:
    from tenfold.fuse.fit import Fit


def train(fit: Fit, member: Member, how: str) -> FitResult:
    """In this process, in whatever backend it has."""
    built = construct(fit.build, member.params)
    if kind_of(built) == "torch":
        from tenfold.fuse import torch_plain

        return torch_plain.train(fit, member, built, how)
    reading = Reading(fit, [member], alone=True)
    history, best_epoch = _train_keras(fit, member, built, reading)
    outputs = _outputs(built, reading.shown(member)) if fit.outputs else None
    return FitResult(member.params, history, built.get_weights(), how, best_epoch, outputs=outputs)


def _outputs(model: Any, rows: Columns | None) -> Outputs:
    return None if rows is None else model.predict(rows.x, verbose=0)


def _train_keras(fit: Fit, member: Member, model: Any, reading: Reading) -> tuple[dict[str, list[float]], int | None]:
    import keras

    if fit.metrics:
        add_metrics(model, fit.metrics)
    batches = _batches(fit, reading, member)
    told = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, _: batches.turn(epoch),
        on_epoch_end=lambda epoch, logs: member.report(epoch, {name: float(value) for name, value in logs.items()}),
    )
    stopping = _stopping(fit)
    callbacks = [*copy.deepcopy(fit.callbacks), *([stopping] if stopping is not None else []), told]
    fitted = model.fit(
        batches,
        epochs=fit.epochs,
        validation_data=_validation(reading, member),
        validation_batch_size=fit.batch_size,
        shuffle=False,
        callbacks=callbacks,
        verbose=0,
    )
    history = {name: [float(value) for value in values] for name, values in fitted.history.items()}
    restored = stopping is not None and stopping.restore_best_weights and stopping.best_weights is not None
    return history, stopping.best_epoch if restored else None


def _stopping(fit: Fit) -> Any:
    import keras

    rule = fit.stopping
    if rule is None:
        return None
    return keras.callbacks.EarlyStopping(
        monitor=rule.monitor,
        min_delta=rule.min_delta,
        patience=rule.patience,
        mode="min" if rule.sign > 0 else "max",
        baseline=rule.baseline,
        restore_best_weights=rule.restore_best,
        start_from_epoch=rule.start_from_epoch,
    )


def _validation(reading: Reading, member: Member) -> tuple[Any, ...] | None:
    found = reading.scored(member)
    return None if found is None else found.parts


def _batches(fit: Fit, reading: Reading, member: Member) -> Any:
    import keras

    class Batches(keras.utils.PyDataset):  # type: ignore[misc]
        """The model's batches, in the order that it would see them in a group."""

        def __init__(self) -> None:
            super().__init__(workers=1, use_multiprocessing=False)
            self.turn(0)

        def __len__(self) -> int:
            return len(self._cuts)

        def __getitem__(self, place: int) -> tuple[Any, ...]:
            block, rows = self._cuts[place]
            return mapped(lambda a: None if a is None else numpy.asarray(a[rows]), block.parts)  # type: ignore[no-any-return]

        def turn(self, epoch: int) -> None:
            """Called when an epoch begins. Keras's own `on_epoch_end` also comes before the first one."""
            self._cuts = _cuts(fit, reading, member, epoch)

    return Batches()


def _cuts(fit: Fit, reading: Reading, member: Member, epoch: int) -> list[tuple[Columns, numpy.ndarray]]:
    size = fit.batch_size
    return [
        (block, rows[0][start * size : (start + 1) * size])
        for block, rows in reading.orders([member], epoch)
        for start in range(math.ceil(rows.shape[1] / size))
    ]
