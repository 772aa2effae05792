"""In a worker: the epochs of one group of models: histories, early stopping, checkpoints. It names no framework."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy

from tenfold.errors import BadCall
from tenfold.fuse import Stack
from tenfold.fuse.building import Member
from tenfold.fuse.checkpoint import Checkpoints, Saved
from tenfold.fuse.outputs import Outputs, joined
from tenfold.fuse.reading import Reading
from tenfold.fuse.result import FitResult
from tenfold.fuse.stopping import EarlyStopping, Patience
from tenfold.work.leg import Why

if TYPE_CHECKING:
    from tenfold.fuse.fit import Fit


class Group:
    """Models that are trained together, from the first epoch or from a checkpoint to the last."""

    def __init__(
        self,
        fit: Fit,
        stack: Stack,
        members: Sequence[Member],
        reading: Reading,
        how: str,
        *,
        stopping: EarlyStopping | None,
    ) -> None:
        """`stopping` is the rule of the `Fit`, as a workshop has found it to be meant for these models."""
        self._fit = fit
        self._stopping = stopping
        self._stack = stack
        self._active = list(members)
        self._reading = reading
        self._how = how
        self._histories: dict[int, dict[str, list[float]]] = {member.index: {} for member in members}
        self._watches = {m.index: Patience(stopping) for m in members} if stopping is not None else {}
        self._results: dict[int, FitResult] = {}
        self._ended: dict[int, Why | None] = {}
        self._epoch = 0

    def go_on(self, saved: Sequence[Saved]) -> None:
        """Start from what was saved of each model; equal in shape among themselves."""
        if saved[0].shapes != (wanted := tuple(array.shape[1:] for array in self._stack.snapshot())):
            ours, theirs = (", ".join(map(str, shapes)) for shapes in (wanted, saved[0].shapes))
            raise BadCall(f"its weights have other shapes than those that it is to go on from: {ours}, and {theirs}")
        self._stack.restore([numpy.stack(arrays) for arrays in zip(*(one.arrays for one in saved), strict=True)])
        for member, one in zip(self._active, saved, strict=True):
            self._epoch, self._histories[member.index], watch = one.begun()
            if watch is not None:
                self._watches[member.index] = watch

    def train(self, checkpoints: Checkpoints, chunk: int) -> dict[int, FitResult]:
        """To the end; returns results by the members' places."""
        for epoch in range(self._epoch, self._fit.epochs):
            self._note(epoch, self._one_epoch(epoch))
            self._finish(epoch + 1, chunk)
            if not self._active:
                break
            if checkpoints.due():
                checkpoints.write(self._saved(epoch + 1, chunk), self._results)
        return self._results

    def _one_epoch(self, epoch: int) -> dict[str, numpy.ndarray]:
        self._stack.begin()
        for block, order in self._reading.training(self._active, epoch):
            self._stack.train(block, order)
        logs = dict(self._stack.logs())
        scored = False
        for block, rows in self._reading.validation(self._active):
            if not scored:
                self._stack.begin()
                scored = True
            self._stack.test(block, rows)
        logs |= {f"val_{name}": values for name, values in self._stack.logs().items()} if scored else {}
        self._stack.close(logs)
        return logs

    def _note(self, epoch: int, logs: dict[str, numpy.ndarray]) -> None:
        better = []
        for row, member in enumerate(self._active):
            mine = {name: float(values[row]) for name, values in logs.items()}
            for name, value in mine.items():
                self._histories[member.index].setdefault(name, []).append(value)
            self._ended[member.index] = member.tell(epoch, mine)
            if self._watches and self._watches[member.index].look(epoch, mine):
                better.append(row)
        if better and self._stopping is not None and self._stopping.restore_best:
            self._stack.remember(better)

    def _finish(self, epoch: int, chunk: int) -> None:
        """Take the weights of models that are done before this epoch, and go on without them."""
        why = [self._why(member, epoch) for member in self._active]
        done = [row for row, reason in enumerate(why) if reason is not None]
        saved = self._saved(epoch, chunk) if "paused" in why else {}
        outputs = self._outputs(done)
        for row in done:
            member = self._active[row]
            watch = self._watches.get(member.index)
            best = watch is not None and watch.rule.restore_best and watch.best_epoch >= 0
            self._results[member.index] = FitResult(
                member.params,
                self._histories[member.index],
                self._stack.weights(row, best=best),
                self._how,
                watch.best_epoch if watch is not None and best else None,
                why[row] or "finished",
                saved.get(member.index) if why[row] == "paused" else None,
                outputs=outputs.get(row),
            )
        left = [row for row in range(len(self._active)) if row not in done]
        if done and left:
            self._stack.keep(left)
        self._active = [self._active[row] for row in left]

    def _why(self, member: Member, epoch: int) -> Why | None:
        """Why a model is done before this epoch; None where it is not."""
        if epoch == self._fit.epochs or (self._watches and self._watches[member.index].stopped):
            return "finished"
        return self._ended[member.index] or ("paused" if epoch == member.until(self._fit.epochs) else None)

    def _outputs(self, done: Sequence[int]) -> dict[int, Outputs]:
        """What models that are done give for the rows that were asked for, by their rows in the stack."""
        if not self._fit.outputs or not done:
            return {}
        watch = self._watches.get(self._active[done[0]].index)  # all of them have had their first epoch, or none
        best = watch is not None and watch.rule.restore_best and watch.best_epoch >= 0
        blocks = self._reading.outputs(self._active)
        parts = [self._stack.outputs(block, rows, done, best=best) for block, rows in blocks]
        return {row: joined(own) for row, *own in zip(done, *parts, strict=True)} if parts else {}

    def _saved(self, epoch: int, chunk: int) -> dict[int, Saved]:
        arrays = self._stack.snapshot()
        return {
            member.index: Saved(
                epoch,
                [array[row] for array in arrays],
                self._histories[member.index],
                self._watches.get(member.index),
                chunk,
                member.params,
            )
            for row, member in enumerate(self._active)
        }
