"""`tenfold.prepare`: a data set through a function, in parallel, cached, larger than memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Literal

from tenfold.data import stores
from tenfold.data.opening import source as open_source
from tenfold.data.prepared import Prepared
from tenfold.errors import BadCall
from tenfold.verbs.call import Settings, lazy_faults, sound
from tenfold.verbs.making import Recipe, make, own_faults
from tenfold.verbs.predict import size_faults


def prepare(
    fn: Callable[[Any], Any],
    source: Any,
    to: str | os.PathLike[str],
    *,
    batch: int | None = None,
    batched: bool = False,
    columns: Sequence[str] | None = None,
    on_error: Literal["quarantine", "raise"] = "quarantine",
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
    """Call `fn(sample)` for every sample of a source, in parallel, and keep what it returns as a set of rows in `to`.

    fn         returns an array, a tuple or a dict of arrays for a sample; None leaves it out, a list makes several rows
    source     arrays, files (.npy, .npz, .zarr, .h5, .parquet, .csv), a folder or pattern of images, a list of names, a
               data set of Dask, TensorFlow or PyTorch, any iterable, or a prepared set
    batch      samples that go together; found by itself where it is not given
    batched    `fn` takes a batch of samples as arrays, and returns as many rows as it likes
    columns    of a table, or the names of arrays in a file: only these are read
    on_error   "quarantine" leaves out a sample that fails, and says so in quarantine.jsonl; "raise" stops
    format     of the files: "npy", "zarr" or "parquet"

    The others are those of `tenfold.map`. The same call again returns at once. Where the source has changed, only what
    is new is made; a call that was killed goes on. `fresh=True` makes everything again.
    """
    settings = Settings(cpus, gpus, memory, workers, False, retries, timeout, seed, engine, None, False, progress)
    faults = settings.faults()
    if not callable(fn):
        faults.append(f"fn={fn!r}: expected a function of one sample")
    faults += lazy_faults("fn", fn, generates=not batched)
    faults += size_faults(batch, "batch")
    if on_error not in ("quarantine", "raise"):
        faults.append(f"on_error={on_error!r}: expected 'quarantine' or 'raise'")
    if format not in stores.FORMATS:
        faults.append(f"format={format!r}: expected one of {', '.join(map(repr, stores.FORMATS))}")
    if not (isinstance(to, str | os.PathLike) and os.fspath(to) and "\0" not in str(to)):
        faults.append(f"to={to!r}: expected the name of a folder")
    else:
        faults += own_faults(source, to, format)
    found = sound(faults, open_source, source, columns=columns)
    if faults or found is None:
        raise BadCall("; ".join(faults))
    stores.needed(format)
    together = None if batch is None else int(batch)
    recipe = Recipe(fn, found, batched=batched, batch=together, quarantines=on_error == "quarantine", format=format)
    return make(recipe, to, settings, fresh=fresh)
