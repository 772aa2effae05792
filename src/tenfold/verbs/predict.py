"""`tenfold.predict`: a model over a source larger than memory, in parallel."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy

from tenfold.data import stores
from tenfold.data.form import Form, batch_of
from tenfold.data.opening import source as open_source
from tenfold.data.placing import Block
from tenfold.data.prepared import Prepared
from tenfold.data.returning import Returning
from tenfold.data.roles import Roles, look_at
from tenfold.data.source import Part, Source, cut
from tenfold.dispatch.first import FirstAlone
from tenfold.dispatch.results import Results
from tenfold.errors import BadCall
from tenfold.journal.store import Journal
from tenfold.models.opening import model as open_model
from tenfold.models.predicting import Predicting
from tenfold.plan.needs import readable
from tenfold.verbs.call import Settings, sound
from tenfold.verbs.making import Recipe, make, own_faults
from tenfold.verbs.map import over, raise_failures

LEAST = 1024
"""Samples that go to a worker at once: a model takes microseconds for one, and milliseconds for a batch."""
KEPT_IN_MEMORY = 1 << 30
"""Bytes of predictions that are returned without `to`. A fixed number: a call must not fail on another machine only."""


def predict(
    model: Any,
    source: Any,
    to: str | os.PathLike[str] | None = None,
    *,
    batch_size: int | None = None,
    output: str | None = None,
    inputs: str | Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    format: stores.Format = "npy",  # noqa: A002
    cpus: float = 1,
    gpus: float = 0,
    memory: int | str | None = None,
    workers: int | None = None,
    retries: int = 0,
    timeout: float | None = None,
    seed: int = 0,
    engine: object = None,
    fresh: bool = False,
    progress: bool | None = None,
) -> Prepared:
    """What `model` gives for every sample of a source, in order, as a set of rows in the folder `to`.

    model        a Keras model or a .keras file, a PyTorch module, a fitted scikit-learn estimator, a function of rows
                 (of JAX or any other), or what tenfold has trained
    source       as `tenfold.prepare` takes it; of (x, y) only x goes into the model
    to           a folder; without it, predictions are kept in memory, and large ones are refused
    batch_size   rows at a time; found by measuring where it is not given
    output       of an estimator "predict", "predict_proba", "decision_function" or "transform"; of other models the
                 name of one of several outputs
    inputs       the columns of a table that go into the model
    columns      of a table, or the names of arrays in a file: only these are read
    format       of the files: "npy", "zarr" or "parquet"

    The others are those of `tenfold.map`. The same call again returns at once; one that was killed goes on.
    """
    settings = Settings(cpus, gpus, memory, workers, False, retries, timeout, seed, engine, None, False, progress)
    faults = settings.faults() + size_faults(batch_size)
    if format not in stores.FORMATS:
        faults.append(f"format={format!r}: expected one of {', '.join(map(repr, stores.FORMATS))}")
    if to is not None and not (isinstance(to, str | os.PathLike) and os.fspath(to) and "\0" not in str(to)):
        faults.append(f"to={to!r}: expected the name of a folder, or None to keep predictions in memory")
    elif to is not None:
        faults += own_faults(source, to, format)
    opened = sound(faults, open_model, model, output=output)
    found = sound(faults, open_source, source, columns=columns)
    roles = Roles(inputs)
    if found is not None:
        sound(faults, look_at, found, roles.x)
    if faults or opened is None or found is None:
        raise BadCall("; ".join(faults))
    stores.needed(format)
    function = Predicting(opened, roles.x, None if batch_size is None else int(batch_size))
    look_at(found, function.check)
    if to is None:
        return _in_memory(function, found, settings)
    recipe = Recipe(function, found, batched=True, batch=None, quarantines=False, format=format)
    if opened.one_form:
        recipe = replace(recipe, one_form=True, streamed=found.is_flat)
    recipe = replace(recipe, least=LEAST, verb="predict")
    return make(recipe, to, settings, fresh=fresh)


def _in_memory(function: Predicting, source: Source, settings: Settings) -> Prepared:
    """Rows come back as the values of tasks: workers may be on machines that share no folder with this one."""
    forms: list[Form] = []

    def parts() -> Iterator[Part]:
        for part in cut(source, least=LEAST):
            for form in forms:  # none before the first part
                _refuse_large(form, part.stop)
            yield part

    def feed(items: Any, journal: Journal, *, resumable: bool) -> FirstAlone:
        def begun() -> None:
            first = journal.outcome(0)
            if first.ok:
                forms.append(first.value[0])
                _refuse_large(forms[0], source.expected or 0)

        return FirstAlone(items, journal, resumable=resumable, begun=begun)

    items = parts() if source.length is None else list(parts())
    task = Returning(function, source)
    results = over(task, items, settings, on_error="stop", feed_of=feed, verb="predict", even=True, shelved=True)
    raise_failures(results, "stop")
    if not len(results):
        raise BadCall("source: has no samples")
    with contextlib.closing(results.journal):
        return _joined(results)


def _joined(results: Results) -> Prepared:
    """All rows, in the form of the first part's, with types that hold the numbers of all."""
    parts = list(results)
    form = functools.reduce(Form.widened, (found for found, _ in parts))
    blocks: list[Block] = []
    for found, block in parts:
        try:
            blocks.append(block if found == form else batch_of(found.nested(block), form))
        except BadCall as error:
            rows = sum(len(arrays[0]) for arrays in blocks)
            raise BadCall(f"model: for rows {rows} to {rows + len(block[0])}, {error}") from None
    arrays = [numpy.concatenate(arrays) for arrays in zip(*blocks, strict=True)]
    return Prepared(form, stores.InMemory(arrays), len(arrays[0]), None)


def size_faults(size: object, name: str = "batch_size") -> list[str]:
    """What is wrong with a size of batches."""
    if size is None or (isinstance(size, int | numpy.integer) and not isinstance(size, bool) and int(size) > 0):
        return []
    return [f"{name}={size!r}: expected a whole number, 1 or above"]


def _refuse_large(form: Form, rows: int) -> None:
    size = rows * form.row_bytes
    if size > KEPT_IN_MEMORY:
        raise BadCall(
            f"to=None: the predictions for {rows} samples take {readable(size)}, more than {readable(KEPT_IN_MEMORY)}; "
            "give to= a folder to keep them in"
        )
