"""Every page is looked at in a browser: on a desk and on a phone, by day and by night."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import browser
import pytest
import reported
from browser import Browser

from tenfold.report import of_cells
from tenfold.report.of_run import of_run

LOOKS = (Path(__file__).parent / "looks.js").read_text()
DESK, PHONE = 1000, 375
SEEN = {(width, dark) for width in (DESK, PHONE) for dark in (False, True)}


def pages(folder: Path, trained: Path) -> dict[str, Path]:
    """A page for each verb."""
    runs = {"map": reported.mapped(folder), "prepare": reported.prepared(folder), "train": trained}
    runs |= {"predict": reported.predicted(folder), "evaluate": reported.evaluated(folder)}
    reported.tuned(folder, trials=24, pruner="median")
    runs["tune"] = folder / "tune"
    found = {name: of_run(path).save(folder / f"{name}.html") for name, path in runs.items()}
    curves = {f"size {size:,}": [(n, size / n, size / n / 2, size / n * 2) for n in range(1, 17)] for size in (1_000,)}
    report = of_cells.report(reported.cells(), ["Take 4 workers.", reported.HOSTILE], curves, unit="samples")
    study = reported.measured()
    found |= {"measure": report.save(folder / "measure.html"), "study": study.save(folder / "study.html")}
    return found | {"demo": reported.demonstrated(folder, study).save(folder / "demo.html")}


CHARTS = {  # what each must draw
    "map": {"loss", "<b>bold</b>", "Tasks in each seat", "How long tasks took"},
    "tune": {
        "loss of each trial",
        "Parameters and what came of them",
        "How much of loss comes from each parameter",
        "loss over each parameter",
        "loss of the trials, step by step",
    },
    "train": {"loss", "Tasks in each seat"},
    "prepare": {"Tasks in each seat", "How long tasks took"},
    "predict": {"Tasks in each seat"},
    "evaluate": {"Tasks in each seat"},
    "demo": {"Parameters and what came of them", "Speed-up", "Wall time"},
    "study": {"Speed-up", "Efficiency", "Throughput", "Throughput over workers and size", "Wall time"},
    "measure": {"Speed-up", "Efficiency", "Throughput", "Throughput over workers and size", "Wall time"},
}


@pytest.mark.timeout(120)
def test_every_page_draws_fits_and_asks_for_nothing(tmp_path: Path, trained: Path) -> None:
    every = pages(tmp_path, trained)
    faults: list[str] = []
    with browser.started(tmp_path) as tab:
        for (name, page), (width, dark) in itertools.product(every.items(), sorted(SEEN)):
            tab.open(page, width=width, dark=dark)
            found = json.loads(tab.value(LOOKS))
            told = f"{name} at {width}{' by night' if dark else ''}"
            faults += [f"{told}: {fault}" for fault in looked_at(tab, found, CHARTS[name])]
            faults += [f"{told}: {found['paper']}, {found['ink']}"] if is_dark(found["paper"]) is not dark else []
    assert not faults, "\n".join(faults)


def looked_at(tab: Browser, found: dict[str, Any], charts: set[str]) -> list[str]:
    """What is wrong with a page that is open."""
    faults = [f"asked for {url}" for url in tab.requests() if not url.startswith("data:")]
    faults += [f"said {text}" for text in tab.complaints()]
    faults += [f"holds {found['strange']} strange elements"] if found["strange"] else []
    faults += [f"is {found['wide']} wide"] if found["wide"] > found["window"] else []
    titles = [chart["title"] for chart in found["charts"]]
    faults += [f"has no chart {title!r} among {titles}" for title in charts - set(titles)]
    faults += [f"shows {len(titles)} of {found['figures']} charts"] if len(titles) != found["figures"] else []
    for chart in found["charts"]:
        faults += [f"{chart['title']}: {fault}" for fault in chart_faults(chart)]
    return faults


def chart_faults(chart: dict[str, Any]) -> list[str]:
    faults = (
        [] if min(chart["size"]) > 20 and chart["marks"] else [f"is empty: {chart['size']}, {chart['marks']} marks"]
    )
    faults += [f"has texts of {chart['height']:.1f} pixels"] if chart["texts"] and chart["height"] < 10 else []
    left, top, right, bottom = chart["whole"]
    for text, *box in chart["texts"]:
        inside = box[0] >= left - 2 and box[1] >= top - 2 and box[2] <= right + 2 and box[3] <= bottom + 2
        faults += [] if inside else [f"{text!r} at {box} leaves it: {chart['whole']}"]
    for (one, *a), (other, *b) in itertools.combinations(chart["texts"], 2):
        across = min(a[2], b[2]) - max(a[0], b[0])
        down = min(a[3], b[3]) - max(a[1], b[1])
        faults += [f"{one!r} and {other!r} overlap"] if across > 1 and down > 4 else []  # a line has room above letters
    return faults


def is_dark(colour: str) -> bool:
    return sum(map(int, re.findall(r"\d+", colour)[:3])) < 3 * 128
