"""How a set is made of a source, for `prepare` and `predict`.

source ─> parts ─> what earlier calls have made of them ─> map over the parts ─> pieces ─> a set that is whole
"""

from __future__ import annotations

import contextlib
import os
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from tenfold import engines
from tenfold.data import manifest, preparing, stores
from tenfold.data.manifest import Manifest
from tenfold.data.prepared import Prepared
from tenfold.data.preparing import Fault, Kept, Piece, Preparing
from tenfold.data.source import Part, Source, cut
from tenfold.dispatch.feed import Feed
from tenfold.dispatch.first import FirstAlone
from tenfold.dispatch.results import Results
from tenfold.dispatch.using import choice
from tenfold.errors import BadCall, TaskDied, TaskOutOfMemory, TasksFailed, TaskTimedOut
from tenfold.journal import fingerprint
from tenfold.nursery import used
from tenfold.verbs.call import Settings
from tenfold.verbs.map import over
from tenfold.verbs.workplace import PARTS, Workplace
from tenfold.work import seeds
from tenfold.work.outcome import Outcome

ENDED = (TaskDied, TaskTimedOut, TaskOutOfMemory)
"""What a single sample can do to its worker, so that the others of its part have to go again."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a set is to be made of."""

    function: Callable[[Any], Any]
    """Of a sample, or of a batch of them."""
    source: Source
    """Where samples come from."""
    batched: bool
    """The function takes a batch."""
    batch: int | None
    """How many samples go together."""
    quarantines: bool
    """A sample that fails is left out."""
    format: str
    """Of the files."""
    least: int = 1
    """Samples of a part, where a single one is hardly any work."""
    streamed: bool = False
    """A part is not read at once."""
    verb: str = "prepare"
    """What was called."""
    one_form: bool = False
    """Any rows show the form of all; otherwise it comes from the first part, which goes alone."""

    def identity(self, seed: int) -> dict[str, str]:
        """What makes other rows of the same samples."""
        settings = {"batched": str(self.batched), "batch": str(self.batch), "seed": str(seed)}
        return fingerprint.of_function(self.function) | settings

    def parts(self) -> Iterator[Part]:
        """The source, cut for workers: as it likes, or where samples go together, at these places."""
        if self.batch is None and self.least == 1:
            return self.source.parts()
        return cut(self.source, least=self.least, multiple=self.batch or 1, streamed=self.streamed)

    def modules(self) -> list[str]:
        """What a worker imports for the task."""
        return [Preparing.__module__, type(self.source).__module__, *used.modules(self.function)]

    def task(self, folder: Path, kept: dict[str, Kept], retries: int) -> Preparing:
        """What workers do. A sample that is left out otherwise is tried again by itself, not with its part."""
        return Preparing(
            self.function,
            self.source,
            folder,
            batched=self.batched,
            batch=self.batch,
            quarantines=self.quarantines,
            retries=retries if self.quarantines else 0,
            kept=kept,
        )


def own_faults(source: object, to: str | os.PathLike[str], format: str) -> list[str]:  # noqa: A002
    """Refuse a folder whose files each call would take in with the source."""
    if not isinstance(source, str | os.PathLike):
        return []
    place, root = Path(to).absolute(), Path(source).absolute()
    written = place / (stores.PARQUET if format == "parquet" else "data.npy")
    if root.is_dir():
        below = place.relative_to(root).parts if root in place.parents else ()
        is_read = format == "parquet" and below and not any(name.startswith(".") for name in below)
    else:
        is_read = fnmatch(str(written), str(root)) if "**" in root.parts else written.match(str(root))
    return [f"to={str(to)!r}: each call would take in what the last one made; give another"] if is_read else []


def make(recipe: Recipe, to: str | os.PathLike[str], settings: Settings, *, fresh: bool) -> Prepared:
    """The set in `to`, made of what is there and what is missing."""
    if isinstance(recipe.source, Prepared) and recipe.source.folder == Path(to).absolute():
        raise BadCall(f"to={str(to)!r}: the source itself; each call would use what the last one made. Give another")
    parts = None if recipe.source.length is None else list(recipe.parts())
    identity, is_whole = recipe.identity(settings.seed), not recipe.quarantines
    place = Workplace(Path(to).absolute(), identity, parts, recipe.format, is_whole=is_whole)
    if not fresh and place.is_made():
        place.tidy()
        return Prepared.open(place.folder)
    engines.expect(choice(settings.engine, settings.workers).engine, recipe.modules())
    with place.held():
        if fresh:
            place.clear()
        if place.moved_in():
            return Prepared.open(place.folder)
        pieces = _pieces(recipe, place, settings, parts)
        rows = sum(piece.rows for piece in pieces)
        form = preparing.read_form(place.work)
        samples, about = place.samples, recipe.source.describe()
        place.finish(Manifest(form, recipe.format, rows, place.identity, about, samples, tuple(pieces)))
    _tell_faults(pieces, place.folder)
    return Prepared.open(place.folder)


def _pieces(recipe: Recipe, place: Workplace, settings: Settings, parts: list[Part] | None) -> list[Piece]:
    """What becomes of each part, in order."""
    kept = place.prepare()
    coming = parts if parts is not None else _streamed(recipe, kept, place.work)
    run = replace(settings, run=place.work / PARTS)
    mapped = partial(over, verb=recipe.verb, even=True)

    def begun() -> None:
        with contextlib.suppress(LookupError):  # no sample has become a row yet
            stores.check(preparing.read_form(place.work), recipe.format)

    feed_of = Feed if recipe.one_form else partial(FirstAlone, begun=begun)
    pieces = _map(
        mapped,
        recipe.task(place.work, kept, settings.retries),
        coming,
        run,
        collects=recipe.quarantines,
        feed_of=feed_of,
    )
    if not any(piece.rows for piece in pieces):
        _refuse_empty(pieces)
    return sorted(pieces, key=lambda piece: piece.start)


def _streamed(recipe: Recipe, kept: dict[str, Kept], work: Path) -> Iterator[Part]:
    """Parts of a stream are known by their content when it has come; what has been made of it need not be sent.

    That is looked at here: a worker that found it damaged could not read the samples again.
    """
    for part in recipe.parts():
        try:
            key = fingerprint.of_value(part.rows).hex()
        except Exception:  # it cannot be pickled in a way that can be compared
            yield part
        else:
            known = kept.get(key)
            is_there = known is not None and (not known.rows or preparing.is_sound(known, preparing.read_form(work)))
            yield replace(part, key=key, rows=None if is_there else part.rows)


def _map(
    mapped: Callable[..., Results],
    task: Preparing,
    parts: Iterable[Part],
    settings: Settings,
    *,
    collects: bool,
    feed_of: Callable[..., Feed] = Feed,
) -> list[Piece]:
    if collects:  # an innocent sample must not be left out because its worker was killed
        settings = replace(settings, retries=max(1, settings.retries))
    lost: dict[int, Part] = {}  # also of a stream, which cannot be read again
    results = mapped(
        task,
        parts,
        settings,
        on_error="collect" if collects else "stop",
        feed_of=partial(feed_of, failed=lost.__setitem__),
    )
    _raise_ours(results, lost, collects=collects)
    pieces = [value for value in results if isinstance(value, Piece)]
    failed = [(outcome, lost[outcome.index]) for outcome in results.journal.outcomes(ok=False)]
    if all(part.stop - part.start == 1 for _, part in failed):
        return pieces + [_left_out(part, outcome) for outcome, part in failed]
    alone = [one for _, part in failed for one in preparing.ones(part)]
    # Another time, others may have died: their run is another one. And tasks are seeded by their number in a call.
    mark = zlib.crc32(repr([one.start for one in alone]).encode())
    seed = seeds.number(settings.seed, mark)
    settings = replace(settings, run=f"{settings.run}-apart-{mark:08x}", seed=seed)
    return pieces + _map(mapped, task, alone, settings, collects=collects)


def _raise_ours(results: Results, lost: dict[int, Part], *, collects: bool) -> None:
    """What failed, but not by the fault of a sample that may be left out: a full disk, a folder that is not seen."""
    ours = [error for error in results.failures if not (collects and isinstance(error, ENDED))]
    if ours:
        part = lost.get(ours[0].index) if isinstance(ours[0], ENDED) else None  # of others, the error names it
        text = f"{len(ours)} of {len(results)} parts failed; what is done is kept\n\n{_which(part)}{ours[0]}"
        raise TasksFailed(text, results) from ours[0].__cause__


def _which(part: Part | None) -> str:
    if part is None:
        return ""
    is_one = part.stop - part.start == 1
    return f"sample {part.start}: " if is_one else f"one of the samples {part.start} to {part.stop - 1}: "


def _left_out(part: Part, outcome: Outcome) -> Piece:
    """A sample that ended its worker."""
    assert outcome.failure is not None
    fault = Fault(part.start, outcome.failure.summary, str(outcome.error))
    return Piece(part.start, part.stop, part.key, 0, 0, (fault,))


def _refuse_empty(pieces: list[Piece]) -> NoReturn:
    if not pieces:  # a stream that ended at once: of other sources that is known before
        raise BadCall("source: has no samples")
    faults = [fault for piece in pieces for fault in piece.faults]
    said = f"none of {sum(p.stop - p.start for p in pieces)} samples has become a row"
    if not faults:
        raise BadCall(f"{said}: fn returned None for all of them")
    raise TasksFailed(
        f"{said}: {len(faults)} failed. The first one, sample {faults[0].sample}:\n\n{faults[0].traceback}"
    )


def _tell_faults(pieces: list[Piece], folder: Path) -> None:
    faults = [fault for piece in pieces for fault in piece.faults]
    if faults:
        warnings.warn(
            f"{len(faults)} of {sum(p.stop - p.start for p in pieces)} samples failed and were left out; the first is "
            f"sample {faults[0].sample}: {faults[0].error}. All of them are in {str(folder / manifest.QUARANTINE)!r}",
            stacklevel=4,
        )
