"""Scales, ticks, numbers and what is left out of large charts: pure, so without a run."""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ElementTree

import numpy
import pytest
import reported

from tenfold.report import bars, coordinates, lines, occupied, of_cells, slices, surface, svg, timeline
from tenfold.report.lines import Line
from tenfold.report.occupied import Bar
from tenfold.report.parts import Chart
from tenfold.report.slices import Dot
from tenfold.report.svg import Scale
from tenfold.scaling.cells import Cell, Setting, Taken
from tenfold.work.times import precise

NAN, INFINITE = math.nan, math.inf


def drawn(chart: Chart) -> ElementTree.Element:
    """What it draws, wide and narrow, is well formed, and its numbers are numbers."""
    for width in (343.0, 720.0):
        text = chart.draw(width)
        assert not any(word in text for word in ("nan", "inf", "None")), text
        found = ElementTree.fromstring(text)
    json.dumps(chart.data)
    return found


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (3.14159, "3.142"), (12_000, "12,000"), (1_234_567, "1.235M"), (1.2e-5, "1.2e-05"), (INFINITE, "inf")],
)
def test_numbers(value: float, text: str) -> None:
    assert svg.number(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 µs"),
        (2.5e-7, "0.25 µs"),
        (0.000123, "123 µs"),
        (0.0456, "45.6 ms"),
        (0.99999, "1.00 s"),
        (75, "1 min 15 s"),
    ],
)
def test_times(seconds: float, text: str) -> None:
    assert precise(seconds) == text


@pytest.mark.parametrize(
    ("scale", "ticks"),
    [
        (Scale(0, 10), [0, 2, 4, 6, 8, 10]),
        (Scale(0.12, 0.31), [0.15, 0.2, 0.25, 0.3]),
        (Scale(1, 1000, log=True), [1, 3, 10, 30, 100, 300, 1000]),
        (Scale(0.08, 5, log=True), [0.1, 0.2, 0.5, 1, 2, 5]),
        (Scale(5, 5), [5]),
    ],
)
def test_ticks_are_round(scale: Scale, ticks: list[float]) -> None:
    assert scale.ticks(5) == pytest.approx(ticks)


@pytest.mark.parametrize(
    ("seconds", "texts"),
    [
        (0, ["0 s"]),
        (0.2, ["0 ms", "50 ms", "100 ms", "150 ms", "200 ms"]),
        (7, ["0 s", "2 s", "4 s", "6 s"]),
        (200, ["0 min", "1 min", "2 min", "3 min"]),
        (4 * 3600, ["0 h", "1 h", "2 h", "3 h", "4 h"]),
        (9 * 86400, ["0 d", "3 d", "6 d", "9 d"]),
    ],
)
def test_times_of_a_timeline(seconds: float, texts: list[str]) -> None:
    assert [text for _, text in timeline.ticks(seconds, 4)] == texts


def test_in_a_seat_one_task_runs_at_a_time() -> None:
    told = [Bar(0, 0, 9.0, 10.0, True), Bar(1, 0, 8.1, 9.1, True), Bar(2, 0, 9.1, 10.1, True)]
    found = {bar.task: (bar.start, bar.stop) for bar in occupied.apart([*told, Bar(3, 1, 0.0, 10.0, True)])}
    assert found == {2: (9.1, 10.1), 0: pytest.approx((8.1, 9.1)), 1: pytest.approx((7.1, 8.1)), 3: (0.0, 10.0)}


def test_a_long_line_keeps_its_peaks() -> None:
    points = [(float(x), 100.0 if x == 5000 else math.sin(x)) for x in range(100_000)]
    found = lines.thinned(points)
    assert len(found) <= lines.MOST + 2
    assert (5000.0, 100.0) in found
    assert found == sorted(found)


@pytest.mark.parametrize(
    "points",
    [
        [],
        [(1.0, 2.0)],
        [(1.0, NAN), (2.0, NAN)],
        [(1.0, 1.0), (2.0, NAN), (3.0, INFINITE), (4.0, 2.0), (5.0, 3.0)],
        [(1.0, 5.0), (2.0, 5.0)],
        [(1.0, 1e-9), (2.0, 1e9)],
        [(1.0, -1e300), (2.0, 1e300)],
        [(1.0, 0.0), (2.0, 0.0)],
    ],
)
def test_lines_of_any_numbers(points: list[tuple[float, float]]) -> None:
    for log in (None, False, True):
        for dots in (False, True):
            chart = lines.chart("t", "w", [Line("a", points, dots=dots)], labels=("x", "y"), log=(False, log))
            text = chart.draw(343)
            assert not any(word in text.replace("inf at", "") for word in ('"nan', '"inf', " nan", " inf")), text
            ElementTree.fromstring(text)


@pytest.mark.parametrize("seconds", [[0.0, 0.0], [1.0], [1e-7, 5000.0], [0.5, 0.5, 0.5], [0.0, 1.0]])
def test_any_durations(seconds: list[float]) -> None:
    chart = bars.durations("t", numpy.array(seconds))
    drawn(chart)
    assert sum(chart.data["tasks"]) == len(seconds)


def test_bars_of_nothing_and_of_parts() -> None:
    drawn(bars.divided("t", "w", [("none", {}), ("some", {"a": 1.0, "c": 3.0})], ("a", "b", "c")))


def test_a_surface_with_holes() -> None:
    values = {("1", "10"): 5.0, ("2", "10"): NAN}
    root = drawn(surface.chart("t", "w", values, columns=["1", "2"], rows=["10", "20"], labels=("workers", "size")))
    texts = [element.text for element in root.iter("text")]
    assert texts.count("failed") == 1
    assert texts.count("-") == 2


def test_coordinates_of_numbers_words_and_what_is_missing() -> None:
    rows = [{"lr": 10.0**-n, "kind": "<b>" if n % 2 else None, "flag": bool(n % 2), "loss": n} for n in range(1, 9)]
    root = drawn(coordinates.chart("t", "w", [*rows, {"loss": 9.0}], "loss", {}))
    assert [element.text for element in root.iter("text")].count("lr") >= 1
    words = coordinates.axis("kind", ["b", "a", None])
    assert [text for _, text in words.ticks] == ["a", "b"]
    assert math.isnan(words.heights[2])


def test_an_axis_goes_by_factors_only_where_that_spreads_numbers_evenly() -> None:
    shares = coordinates.axis("dropout", [0.002, *(place / 20 for place in range(1, 11))])
    assert shares.heights[5] == pytest.approx(0.5, abs=0.02)
    rates = coordinates.axis("lr", [10.0**-place for place in range(5)])
    assert rates.heights == pytest.approx([1, 0.75, 0.5, 0.25, 0])
    told = coordinates.axis("lr", [10.0**-place for place in range(5)], log=False)
    assert told.heights[1] == pytest.approx(0.1, abs=0.01), "the space says how it was suggested"


def test_slices_of_numbers_words_and_what_is_missing() -> None:
    kinds = ["best", *["complete"] * 5, *["pruned"] * 2]
    dots = [
        Dot(
            {"lr": 10.0**-n, "kind": "<b>" if n % 2 else None, "flag": bool(n % 2), "few": n % 3}, 0.5 + n, kind, f"{n}"
        )
        for n, kind in enumerate(kinds)
    ]
    root = drawn(slices.chart("t", "w", dots, {"lr": True, "kind": None, "flag": None, "few": None}, "loss"))
    dots_of = [box.findall("circle") for box in root.findall("g")]
    assert list(map(len, dots_of)) == [8, 4, 8, 8], "a dot only where there is a value"
    assert [dots[-1].get("class") for dots in dots_of] == ["f-c2", "f-c1", "f-c2", "f-c2"], "the best is on top"
    texts = [element.text for element in root.iter("text")]
    assert {"<b>", "False", "True", "0", "1", "2", "pruned", "complete", "best", "lr", "few"} <= set(texts)
    assert slices.across([1e-4, 1e-2, 1.0], log=True).scale.share(1e-2) == pytest.approx(0.5)


def test_slices_of_many_parameters_and_of_one_value() -> None:
    dots = [Dot({f"p{n}": 1.0 for n in range(20)}, 2.0, "best", "0")]
    root = drawn(slices.chart("t", "w", dots, dict.fromkeys(dots[0].params), "loss"))
    assert len(root.findall("g")) == slices.MOST


def test_shares() -> None:
    root = drawn(bars.shares("t", "w", {"lr": 0.75, "<b>": 0.25}))
    widths = [float(bar.get("width", "")) for bar in root.iter("rect") if bar.get("class") == "f-c1"]
    assert widths == [540, 180]
    assert {"lr", "<b>", "75 %", "25 %"} <= {element.text for element in root.iter("text")}


def test_a_grid_that_was_measured() -> None:
    report = of_cells.report(reported.cells(), ["Take 4.", "Not 8."], unit="samples")
    charts = {chart.title: chart for chart in report.charts}
    assert list(charts) == ["Speed-up", "Efficiency", "Throughput", "Throughput over workers and size", "Wall time"]
    for chart in charts.values():
        drawn(chart)
    named = {line["name"]: line["points"] for line in charts["Speed-up"].data["lines"]}
    assert named["ideal"][-1] == (8.0, 8.0)
    assert named["size 1,000"][-1] == pytest.approx((8, 1 / (0.2 + 0.8 / 8)))
    assert "8 workers are 3.33 times as fast as 1" in report.summary
    assert "42 % of what they could be" in report.summary
    assert "Take 4." in report.markdown()
    assert report.sections[0].heading == "Advice"
    grid = [Cell(Setting(n, how=how), (Taken(t, 10, {}, 0, n),)) for how, t in (("a", 9.0), ("b", 3.0)) for n in (1, 2)]
    assert "2 workers are 1.00 times as fast as 1 with b:" in of_cells.report(grid).summary  # the faster way


def test_grids_of_one_cell_of_one_size_and_of_failures_alone() -> None:
    one = reported.cells((2,), (10,))
    assert of_cells.report(one[:1]).summary == "1 setting was measured."
    several = of_cells.report(reported.cells((1, 2), (10,))[:2], curves={"law": [(1, 2, 1, 3), (4, 5, 4, 6)]})
    assert "Throughput over workers and size" not in several.html()
    assert "law" in several.html()
    keras = Cell(Setting(2, how="sharded"), (Taken(2.0, 10, {"compute": 2.0}, 0, 2.0),))
    assert "what devices send each other is a part of their program" in of_cells.report([keras]).html()
    failed = of_cells.report([Cell(Setting(1), (), "no")])
    assert not failed.charts
    assert failed.summary == "0 of 1 settings were measured."
    assert "no" in failed.html()


def test_more_series_than_colours_are_thinned_and_that_is_said() -> None:
    report = of_cells.report(reported.cells((1, 2), tuple(range(10, 110, 10))))
    assert "6 of 10 series are drawn; all of them are in the table." in report.html()
