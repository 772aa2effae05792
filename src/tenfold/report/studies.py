"""Pictures of a study, with matplotlib and without pyplot: nothing global is touched, no window is opened."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from tenfold.search.trial import Trial

COLOURS = {"complete": "#2563a8", "pruned": "#b8c4d0", "failed": "#c0392b"}
BEST = "#e07b00"
MAP = "viridis"  # dark is good


def history(trials: Sequence[Trial], name: str, sign: int) -> Figure:
    """The objective of each trial, and the best so far."""
    figure, (axes,) = _figure(1)
    for state in ("pruned", "complete"):
        some = [trial for trial in trials if trial.state == state and math.isfinite(trial.value)]
        axes.scatter([t.number for t in some], [t.value for t in some], s=18, color=COLOURS[state], label=state)
    complete = [trial for trial in trials if trial.state == "complete" and math.isfinite(trial.value)]
    if complete:
        best = sign * numpy.minimum.accumulate([sign * trial.value for trial in complete])
        axes.step([trial.number for trial in complete], best, where="post", color=BEST, label="best so far")
    axes.set(xlabel="trial", ylabel=name, title=f"{name} over {len(trials)} trials")
    if _spans([trial.value for trial in complete]):
        axes.set_yscale("log")
    axes.legend(frameon=False)
    return figure


def slices(trials: Sequence[Trial], name: str, sign: int) -> Figure:
    """The objective over each parameter."""
    known = _known(trials)
    names = _names(known)
    figure, every = _figure(max(1, len(names)))
    for axes, parameter in zip(every, names, strict=False):
        own = [trial for trial in known if parameter in trial.params]
        places, labels = _places([trial.params[parameter] for trial in own])
        picture = axes.scatter(places, [t.value for t in own], c=[t.number for t in own], cmap="viridis", s=18)
        axes.set(xlabel=parameter)
        _scale(axes, "x", places, labels)
        if _spans([trial.value for trial in own]):
            axes.set_yscale("log")
    every[0].set(ylabel=name)
    if names:
        figure.colorbar(picture, ax=list(every), label="trial")
    return figure


def parallel(trials: Sequence[Trial], name: str, sign: int) -> Figure:
    """A line for each trial, through all its parameters to its objective."""
    known = _known(trials)
    names = _names(known)
    figure, (axes,) = _figure(1, width=2.2 + 1.6 * (len(names) + 1))
    columns = [_unit([trial.params.get(parameter) for trial in known]) for parameter in names]
    columns.append(_unit([trial.value for trial in known]))
    ranks = numpy.argsort(numpy.argsort([sign * trial.value for trial in known]))
    colours = Normalize(0, max(1, len(known) - 1))
    from matplotlib import colormaps

    for place in numpy.argsort(-ranks):  # the best on top
        points = [(x, height) for x, (heights, _) in enumerate(columns) if math.isfinite(height := heights[place])]
        axes.plot(*zip(*points, strict=True), color=colormaps[MAP](colours(ranks[place])), alpha=0.75, lw=1.2)
    for place, (_, ticks) in enumerate(columns):
        axes.axvline(place, color="#888888", lw=0.8)
        for height, text in ticks:
            axes.text(place + 0.03, height, text, fontsize=8, va="center")
    axes.set_xticks(range(len(columns)), [*names, name])
    axes.set_yticks([])
    axes.set_title("parameters of the trials; dark lines are good ones")
    axes.spines[:].set_visible(False)
    return figure


def importance(shares: Mapping[str, float], name: str) -> Figure:
    """How much each parameter matters."""
    figure, (axes,) = _figure(1)
    names = list(shares)[::-1]
    bars = axes.barh(names, [shares[parameter] for parameter in names], color=COLOURS["complete"])
    axes.bar_label(bars, [f"{shares[parameter]:.2f}" for parameter in names], padding=3)
    axes.set(xlabel="share of the variation", title=f"what matters for {name}", xlim=(0, 1.1))
    return figure


# -- parts ------------------------------------------------------------------------------------------------------------


def _figure(count: int, width: float | None = None) -> tuple[Figure, Sequence[Axes]]:
    figure = Figure(figsize=(width or max(6.4, 2.6 * count + 1), 4.0), layout="constrained")
    every = figure.subplots(1, count, sharey=True, squeeze=False)[0]
    for axes in every:
        axes.spines[["top", "right"]].set_visible(False)
    return figure, list(every)


def _known(trials: Sequence[Trial]) -> list[Trial]:
    return [trial for trial in trials if math.isfinite(trial.value)]


def _names(trials: Sequence[Trial]) -> list[str]:
    """Of parameters that are not the same everywhere."""
    every = dict.fromkeys(name for trial in trials for name in trial.params)
    return [name for name in every if len({repr(trial.params.get(name)) for trial in trials}) > 1]


def _spans(values: Sequence[float]) -> bool:
    """Whether they are better seen on a logarithmic scale."""
    return bool(values) and min(values) > 0 and max(values) > 20 * min(values)


def _places(values: Sequence[Any]) -> tuple[list[float], list[str] | None]:
    """Numbers as they are; anything else by its turn, with labels."""
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return [float(value) for value in values], None
    labels = sorted({str(value) for value in values})
    return [float(labels.index(str(value))) for value in values], labels


def _scale(axes: Axes, which: str, places: Sequence[float], labels: list[str] | None) -> None:
    if labels is not None:
        axes.set_xticks(range(len(labels)), labels)
    elif _spans(places):
        axes.set_xscale("log")


def _unit(values: Sequence[Any]) -> tuple[list[float], list[tuple[float, str]]]:
    """Heights from 0 to 1, and what to write at which height."""
    if not values:
        return [], []
    places, labels = _places([value for value in values if value is not None])
    found = iter(places)
    every = [next(found) if value is not None else math.nan for value in values]
    is_log = labels is None and _spans(places)
    scaled = numpy.log(every) if is_log else numpy.asarray(every)
    low, high = float(numpy.nanmin(scaled)), float(numpy.nanmax(scaled))
    heights = (scaled - low) / (high - low) if high > low else numpy.full(len(every), 0.5)
    if labels is not None:
        return list(heights), [((n - low) / max(high - low, 1e-9), label) for n, label in enumerate(labels)]
    ends = [(0.0, min(places)), (1.0, max(places))] if high > low else [(0.5, places[0])]
    return list(heights), [(height, f"{number:.3g}") for height, number in ends]
