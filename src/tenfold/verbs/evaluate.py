"""`tenfold.evaluate`: predictions and their scores in one pass, without keeping the predictions."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tenfold.data.opening import source as open_source
from tenfold.data.roles import Roles, look_at
from tenfold.data.source import Part, Source, cut
from tenfold.errors import BadCall
from tenfold.metrics.port import Reads
from tenfold.metrics.scores import Scores
from tenfold.metrics.scoring import Scoring, Tally, read_by
from tenfold.models.opening import model as open_model
from tenfold.models.predicting import Predicting
from tenfold.verbs.call import Settings, sound
from tenfold.verbs.map import over, raise_failures
from tenfold.verbs.predict import LEAST, size_faults
from tenfold.verbs.scored import Judged, Scored


class _Asked(NamedTuple):
    """What a model is asked for."""

    output: str | None
    """Of its outputs, or methods."""
    classes: dict[str, Any]
    """What its columns stand for, as `Scoring` takes it."""
    labels: bool = False
    scores: str | None = None
    """The same as those of `Judged`."""


def evaluate(
    model: Any,
    source: Any,
    metrics: Any,
    *,
    target: str | None = None,
    inputs: str | Sequence[str] | None = None,
    weight: str | None = None,
    by: str | None = None,
    bootstrap: int = 0,
    approximate: bool = False,
    classes: Sequence[Any] | None = None,
    batch_size: int | None = None,
    output: str | None = None,
    cpus: float = 1,
    gpus: float = 0,
    memory: int | str | None = None,
    workers: int | None = None,
    retries: int = 0,
    timeout: float | None = None,
    seed: int = 0,
    engine: object = None,
    run: str | os.PathLike[str] | None = None,
    fresh: bool = False,
    progress: bool | None = None,
) -> Any:
    """Scores of a model over a source larger than memory: exact, and the same however many workers there are.

    model         as `tenfold.predict` takes it; or a dict of models by name
    source        (x, y), (x, y, sample_weight), or a table with `target`; or a dict of data sets by name
    metrics       names such as "accuracy", "f1_macro", "roc_auc", "confusion"; metric objects; or a dict of them
    target        the column of a table that is the truth
    inputs        columns that go into the model; all others where it is not given
    weight        the column that says how much a row counts
    by            a column whose every value has scores of its own
    bootstrap     replicates for 95 % intervals, such as 1000
    approximate   roc_auc and average_precision from histograms, with a bound on the error
    classes       the label of each column of the predictions, where they are not 0, 1, 2, ...
    batch_size, output    as in `tenfold.predict`

    The others are those of `tenfold.map`. Returns `Scores`; by name for several models or data sets.
    """
    settings = Settings(cpus, gpus, memory, workers, False, retries, timeout, seed, engine, run, fresh, progress)
    faults = settings.faults() + size_faults(batch_size)
    roles = Roles(inputs, target, weight, by)
    models = _named(model, "model", faults) if isinstance(model, Mapping) else {"": model}
    several = isinstance(source, Mapping) and target not in source
    given = _named(source, "source", faults) if several else {"": source}
    sources: dict[str, Source] = {}
    for name, one in given.items():
        opened = sound(faults, open_source, one, name=f"source[{name!r}]" if several else "source")
        if opened is not None:
            sources[name] = opened
    judged: dict[str, Judged] = {}
    metrics = list(metrics) if isinstance(metrics, Iterator) else metrics
    reads = read_by(metrics)
    for name, one in models.items():
        asked = sound(faults, _asked, one, reads, output, classes) or _Asked(output, {"classes": classes})
        options = {"bootstrap": bootstrap, "approximate": approximate, **asked.classes}
        scoring = sound(faults, Scoring, metrics, by=by is not None, seed=seed, **options)
        ready = sound(faults, open_model, one, output=asked.output)
        if scoring is not None and ready is not None:
            predicting = Predicting(ready, roles.x, batch_size, among=len(models))
            judged[name] = Judged(predicting, scoring, asked.labels, asked.scores)
    looks = [roles.x, roles.truth, roles.weights, roles.groups, *(one.predicting.check for one in judged.values())]
    for opened in sources.values():
        sound(faults, look_at, opened, *looks)
    if faults:
        raise BadCall("; ".join(dict.fromkeys(faults)))  # of several models, each has what is wrong with the metrics
    parts = {"bootstrap": bootstrap, "approximate": approximate, "classes": classes, **_own(metrics)}
    scorings = {name: one.scoring for name, one in judged.items()}
    found = _scores(Scored(judged, sources, roles, parts), scorings, sources, settings)
    by_source = {name: found[name] if isinstance(model, Mapping) else found[name][""] for name in sources}
    return by_source if several else by_source[""]


def _named(given: Mapping[Any, Any], argument: str, faults: list[str]) -> dict[str, Any]:
    if not given:
        faults.append(f"{argument}={{}}: an empty dict; expected at least one, by name")
    return {str(name): one for name, one in given.items()}


def _own(metrics: Any) -> dict[str, Any]:
    """Metrics that are objects, with their classes: what a run that continues compares."""
    listed = metrics.values() if isinstance(metrics, Mapping) else _listed(metrics)
    own = [each for each in listed if not isinstance(each, str)]
    kinds = {f"the class of metric {place}": type(each) for place, each in enumerate(own)}
    return {**kinds, **{f"metric {place}": each for place, each in enumerate(own)}}


def _listed(metrics: Any) -> list[Any]:
    return [metrics] if isinstance(metrics, str) or not isinstance(metrics, Iterable) else list(metrics)


def _asked(model: Any, reads: set[Reads], output: str | None, classes: Any) -> _Asked:
    """An estimator is asked for its labels, and beside them, or instead of them, for what metrics of scores read."""
    has = [name for name in ("predict_proba", "decision_function") if hasattr(model, name)]
    labels = getattr(model, "classes_", None) if classes is None else classes
    if output in has:
        return _Asked(output, {"classes": labels})
    if output is not None or not has or reads <= {"predictions"}:
        return _Asked(output, {"classes": classes}, labels=hasattr(model, "classes_"))
    if has[0] == "decision_function" and "probabilities" in reads:
        raise BadCall(
            f"metrics: {type(model).__name__} has no predict_proba, which log_loss, brier and calibration need; with "
            "its decision_function, roc_auc, average_precision and top_5 can be scored"
        )
    if "predictions" not in reads:
        return _Asked(has[0], {"classes": labels})
    both = {"classes": classes, "columns": labels}
    return _Asked(f"predict+{has[0]}", both, labels=hasattr(model, "classes_"), scores=has[0])


def _scores(
    task: Scored, scorings: dict[str, Scoring], sources: dict[str, Source], settings: Settings
) -> dict[str, dict[str, Scores]]:
    """For each data set, the scores of each model."""
    parts = _parts(sources)
    known = all(source.length is not None for source in sources.values())
    # Where metrics keep scores, or large matrices, what all parts come to may be more than memory holds.
    items = list(parts) if known else parts
    results = over(task, items, settings, on_error="stop", verb="evaluate", even=True, shelved=True)
    raise_failures(results, "stop")
    totals: dict[tuple[str, str], Tally] = {}
    with contextlib.closing(results.journal), tempfile.TemporaryDirectory(prefix="tenfold-") as folder:
        for of_source, tallies, *_ in results:
            for name, tally in tallies.items():
                key = (of_source, name)
                totals[key] = scorings[name].merge(totals[key], tally, folder) if key in totals else tally
        return {
            of_source: {name: scorings[name].scores(totals[of_source, name]) for name in scorings}
            for of_source in sources
        }


def _parts(sources: dict[str, Source]) -> Iterator[tuple[str, Part]]:
    return ((name, part) for name, source in sources.items() for part in cut(source, least=LEAST))
