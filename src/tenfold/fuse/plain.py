"""One model, trained by its framework's own loop on the same batches: for what cannot be fused, and to compare with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenfold.errors import BadCall
from tenfold.fuse import refusing, settings
from tenfold.fuse.building import Member, construct, kind_of
from tenfold.fuse.result import FitResult

if TYPE_CHECKING:
    from tenfold.fuse.fit import Fit


def train(fit: Fit, member: Member, how: str) -> FitResult:
    """In this process, in whatever backend it has."""
    with settings.applied(fit.settings):
        return _train(fit, member, how)


def _train(fit: Fit, member: Member, how: str) -> FitResult:
    built = construct(fit.build, member.params)
    kind = kind_of(built)
    refusing.check(fit, member, built, kind)
    saved = member.leg.state if member.leg is not None else None
    if saved is not None and saved.kind != kind:
        raise BadCall(f"trial {member.leg and member.leg.trial} was begun in a group, and cannot go on alone")
    if kind == "torch":
        from tenfold.fuse import torch_plain

        return torch_plain.train(fit, member, built, how)
    from tenfold.fuse.keras_plain import Loop

    refusing.check_optimizer(member, built)
    return Loop(fit, member, built).train(how)
