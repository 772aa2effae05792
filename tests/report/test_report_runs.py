"""Reports of runs: what they tell of each verb, of runs that are old, unfinished or under way, and of what fails."""

from __future__ import annotations

import fcntl
import json
import shutil
import sqlite3
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy
import pytest
import reported

import tenfold
from tenfold.errors import BadCall, MissingPackage, TasksFailed
from tenfold.journal.folder import Folder
from tenfold.journal.store import Block, Journal
from tenfold.report import matters, png
from tenfold.report.of_run import of_run
from tenfold.report.parts import Chart, Facts, Listing, Part, Report, Table
from tenfold.report.trials import looked_for, trials
from tenfold.work.outcome import Failure

OLD = Path(__file__).parent.parent / "data" / "journal-v1"


def parts(report: Report, heading: str) -> list[Part]:
    """Of the section with that heading."""
    (found,) = [section for section in report.sections if section.heading == heading]
    return list(found.parts)


def headings(report: Report) -> list[str]:
    return [section.heading for section in report.sections]


# -- each verb --------------------------------------------------------------------------------------------------------


def test_map(tmp_path: Path) -> None:
    report = of_run(reported.mapped(tmp_path))
    assert report.summary.startswith("10 of 12 tasks are done, 2 failed. It took ")
    assert "with 1 at a time on the serial engine" in report.summary
    assert dict(report.figures)["tasks done"] == "10"
    assert headings(report) == [
        "Learning curves",
        "When",
        "The slowest tasks",
        "Failures",
        "Machine and versions",
        "How to repeat it",
    ]
    (failure,) = parts(report, "Failures")  # both at the same place of the code
    assert isinstance(failure, Listing)
    assert failure.headline.startswith("task 3 and 1 alike: ValueError: item 3 ")
    assert "Earlier attempt 1: ValueError" in failure.text
    timeline, _, sessions = parts(report, "When")
    assert isinstance(timeline, Chart)
    assert isinstance(sessions, Table)
    drawn = [bar[0] for bar in timeline.data["bars"] if not bar[4]]
    assert sorted(drawn) == [3, 3, 8, 8]  # attempts that were tried again have taken time as well
    facts = parts(report, "Machine and versions")[0]
    assert isinstance(facts, Facts)
    assert dict(facts.pairs)["tenfold"] == tenfold.__version__


def test_what_is_hostile_is_text(tmp_path: Path) -> None:
    report = of_run(reported.mapped(tmp_path))
    html = report.html()
    assert "&lt;script&gt;" in html
    assert not any(mark in html for mark in ("<script", "<img", "\x00", "\x1b", '="http', "@import", "url("))
    assert "<script" not in report.markdown().replace("\\<script", "").split("```")[0]
    assert json.loads(report.json())["title"].startswith("map of <script>")


def test_the_trials_of_a_study_are_those_that_it_gave_back(tmp_path: Path) -> None:
    study = reported.tuned(tmp_path)
    with_journal(tmp_path / "tune", study)
    text = of_run(tmp_path / "tune").summary
    assert text.startswith(f"12 trials: {sum(t.state == 'complete' for t in study.trials)} complete, ")
    assert f"The best loss is {study.best.value:.4g}, of trial {study.best.number}." in text


@pytest.mark.parametrize(
    "options",
    [
        {"pruner": None},
        {"pruner": None, "objective": ["loss", "other"], "direction": "minimize"},
        {"pruner": None, "sampler": "pbt", "trials": 4, "direction": "maximize"},
    ],
)
def test_other_studies(tmp_path: Path, options: dict[str, Any]) -> None:
    def task(params: dict[str, Any]) -> dict[str, float]:
        return {**reported.objective({**params, "x": min(3.9, params["x"])}), "other": params["x"]}

    given = {"trials": 6, "objective": "loss", "steps": 4, "engine": "serial", "progress": False, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that it keeps no checkpoint
        study = tenfold.tune(task, reported.SPACE, run=tmp_path / "tune", **given)
    with_journal(tmp_path / "tune", study)
    assert "The best loss is " in of_run(tmp_path / "tune").summary


def test_a_study_of_models_with_folds(tmp_path: Path) -> None:
    study = tenfold.tune(
        reported.fit(),
        {"rate": tenfold.loguniform(1e-3, 1e-1)},
        trials=4,
        cv=2,
        pruner="asha",
        run=tmp_path / "tune",
        progress=False,
    )
    with_journal(tmp_path / "tune", study)
    assert "val_loss of the trials, step by step" in of_run(tmp_path / "tune").html()


def test_what_matters_is_what_the_study_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def task(params: dict[str, Any]) -> float:
        return float(params["x"] ** 2 + params.get("momentum", 0.0) + params["rate"])

    branches = tenfold.choice(adam={}, sgd={"momentum": tenfold.uniform(0, 1)})
    space = {
        "x": tenfold.uniform(-1, 1),
        "rate": tenfold.loguniform(1e-5, 1e-1),
        "how": branches,
        "layers": [(2,), (3, 4)],
    }
    given = {"sampler": "random", "engine": "serial", "progress": False}
    study = tenfold.tune(task, space, trials=20, run=tmp_path / "tune", **given)
    shares, slices = parts(of_run(tmp_path / "tune"), "What matters")
    assert isinstance(shares, Chart)
    assert isinstance(slices, Chart)
    assert shares.data == study.importance()
    assert "over the 20 complete trials: x " in shares.words
    assert len(slices.data) == 20
    assert "<figcaption>value over each parameter</figcaption>" in study.save(tmp_path / "study.html").read_text()
    few = tenfold.tune(task, space, trials=matters.LEAST - 1, run=tmp_path / "few", **given)
    assert len(few.trials) == 7
    assert [part.title for part in parts(of_run(tmp_path / "few"), "What matters")] == ["value over each parameter"]  # type: ignore[union-attr]
    monkeypatch.setitem(sys.modules, "optuna", None)
    (slices,) = parts(of_run(tmp_path / "tune"), "What matters")


def test_of_many_trials_some_are_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matters, "MOST", 10)
    monkeypatch.setattr(matters, "DRAWN", 10)
    space = {"x": tenfold.uniform(-1, 1), "y": tenfold.uniform(-1, 1)}
    tenfold.tune(
        lambda params: params["x"], space, trials=25, run=tmp_path, sampler="random", engine="serial", progress=False
    )
    shares, slices = parts(of_run(tmp_path), "What matters")
    assert isinstance(shares, Chart)
    assert isinstance(slices, Chart)
    assert "over 9 of the 25 complete trials" in shares.words
    assert "The best 10 of 25 trials are drawn." in slices.words


def with_journal(path: Path, study: Any) -> None:
    journal = Journal(Folder(path), read_only=True)
    found = trials(journal, looked_for(journal))
    journal.close()
    names = ("number", "params", "state", "values", "curve", "steps", "spread", "error")
    assert [[getattr(trial, name) for name in names] for trial in found] == [
        [getattr(trial, name) for name in names] for trial in study.trials
    ]


def test_a_study_saves_itself_with_and_without_a_run(tmp_path: Path) -> None:
    for study in (reported.tuned(tmp_path), reported.tuned(tmp_path, run=None)):
        html = study.save(tmp_path / "study.html").read_text()
        assert "Parameters and what came of them" in html
        assert "Machine and versions" in html
    with pytest.raises(BadCall, match=r"save\('study.pdf'\): expected a name that ends with .html, .md, .json or .png"):
        study.save("study.pdf")


def test_train(trained: Path) -> None:
    report = of_run(trained)
    assert report.summary.startswith("One model was trained for 4 epochs, in ")
    (chart,) = parts(report, "Learning curves")
    assert isinstance(chart, Chart)
    assert [len(line["points"]) for line in chart.data["lines"]] == [4, 4]
    assert {"Parameters", "How it was trained", "Who came and who was lost"} <= set(headings(report))


def test_prepare_and_predict(tmp_path: Path) -> None:
    report = of_run(reported.prepared(tmp_path))
    assert report.title.startswith("prepare of half in ")
    assert report.summary.startswith("100 samples have become 85 rows, 15 were left out.")
    fault = parts(report, "Samples that were left out")[0]
    assert isinstance(fault, Listing)
    assert fault.headline == "sample 0 and 14 alike: ValueError: seven"
    report = of_run(reported.predicted(tmp_path))
    assert report.title.startswith("predict of ")
    assert report.summary.startswith("100 samples have become 100 rows.")


def test_a_set_that_is_not_finished(tmp_path: Path) -> None:
    x = numpy.arange(400).reshape(100, 4)
    options = {"batch": 10, "engine": "serial", "progress": False}
    with pytest.raises(TasksFailed):
        tenfold.prepare(reported.half, x, to=tmp_path / "set", on_error="raise", **options)
    report = of_run(tmp_path / "set")
    assert report.title.startswith("prepare of half in ")
    assert "Failures" in headings(report)


def test_what_is_kept_of_a_set_holds_no_samples(tmp_path: Path) -> None:
    stream = (numpy.full(4, float(number)) for number in range(100))
    tenfold.prepare(lambda sample: sample[:2], stream, to=tmp_path / "set", engine="serial", progress=False)
    with sqlite3.connect(tmp_path / "set" / ".run" / "journal.sqlite") as database:
        rows = database.execute("SELECT items, digests FROM outcomes").fetchall()
    database.close()
    assert rows
    assert set(rows) == {(None, None)}
    assert sorted(path.name for path in (tmp_path / "set" / ".run").iterdir()) == ["journal.sqlite", "lock", "values"]


# -- runs that are special --------------------------------------------------------------------------------------------


def test_sessions_are_laid_one_after_the_other(tmp_path: Path) -> None:
    def stops(item: int) -> int:
        if item == 2 and not (tmp_path / "again").exists():
            raise ValueError
        return item

    path = tmp_path / "run"
    with pytest.raises(TasksFailed):
        tenfold.map(stops, range(5), run=path, on_error="stop", engine="serial", progress=False)
    with sqlite3.connect(path / "journal.sqlite") as database:  # a week ago
        database.execute("UPDATE sessions SET began = began - 604800, ended = NULL")
        database.execute("UPDATE outcomes SET started = started - 604800")
        database.execute("UPDATE attempts SET ended = ended - 604800")
    database.close()
    (tmp_path / "again").touch()
    tenfold.map(stops, range(5), run=path, engine="serial", progress=False)
    timeline = parts(of_run(path), "When")[0]
    assert isinstance(timeline, Chart)
    assert len(timeline.data["sessions_begin"]) == 2
    assert timeline.data["seconds"] < 3600
    assert len(timeline.data["bars"]) == 6
    assert "2 calls worked on this run" in timeline.words


def test_a_run_of_the_first_format(tmp_path: Path) -> None:
    shutil.copytree(OLD, tmp_path / "run")  # opening a database makes files beside it
    report = of_run(tmp_path / "run")
    assert "this is what is here now" in report.html()
    assert report.summary.startswith("6 of 8 tasks are done, 2 failed.")


def test_a_run_that_is_under_way(tmp_path: Path) -> None:
    path = reported.mapped(tmp_path, 2)
    with open(path / "lock") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert "and it is still running." in of_run(path).summary


def test_a_run_without_tasks(tmp_path: Path) -> None:
    tenfold.map(abs, [], run=tmp_path / "run", engine="serial", progress=False)
    report = of_run(tmp_path / "run")
    assert report.summary.startswith("0 of 0 tasks are done.")
    assert "No task has ended yet." in report.html()
    with pytest.raises(BadCall, match="has no chart to draw"):
        report.png(tmp_path / "x.png")


def test_a_run_of_measure_has_its_cells(tmp_path: Path) -> None:
    path = tmp_path / "run"
    tenfold.measure(lambda workers, size: None, workers=[1, 2], sizes=[1, 2], repeats=1, run=path, progress=False)
    found = of_run(path)
    assert [section.heading for section in found.sections[:3]] == ["Advice", "Speed", "Where the time went"]
    assert "4 settings were measured" in found.summary


def test_many_tasks_make_no_large_page(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "run")
    folder.prepare()
    journal = Journal(folder)
    journal.set_meta(verb="map", function="f", count="43000")
    journal.begin_session({"engine": "local", "workers": 100, "plan": ""})
    for index in range(10_000):
        journal.add_values(Block(index, [0.001 * (index % 7)], 0, index % 100, "w", 1, [index]), [b"K\x01."])
    for index in range(10_000, 40_000, 1000):
        journal.add_values(Block(index, [1e-6] * 1000, 0, 1, "w", 1, [0] * 1000), [b"K\x01."] * 1000)
    for index in range(40_000, 43_000):
        failure = Failure("raised", f"ValueError: {index}", f"Traceback\n  File {index % 40}\nValueError: {index}")
        block = Block(index, [0.001], 0, 2, "w", 1, [index])
        journal.add_attempt(block, failure)
        journal.add_failure(block, failure)
    journal.commit()
    journal.end_session()
    journal.close()
    report = of_run(tmp_path / "run")
    html = report.html()
    assert len(html) < 1_000_000
    assert "There are too many tasks to draw each" in html
    assert "The first 40 of 100 seats are drawn." in html
    assert "1,500 more failures are not shown here" in html
    assert html.count("<details") == 20


# -- pictures ---------------------------------------------------------------------------------------------------------


def test_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = of_run(reported.mapped(tmp_path))
    drawn = report.png(tmp_path / "x.png").read_bytes()
    assert drawn.startswith(b"\x89PNG")
    wide, high = (int.from_bytes(drawn[place : place + 4]) for place in (16, 20))
    assert (wide, high > 1500) == (1536, True)
    monkeypatch.setattr(png, "FOLDERS", ())
    assert "mpl-data" in str(png.font()[0])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(BadCall, match="png: no font was found to write with"):
        png.font()


def test_without_the_package_that_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = of_run(reported.mapped(tmp_path, 2))
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(MissingPackage, match=r'pip install "tenfold\[report\]"'):
        report.png(tmp_path / "x.png")


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    report = of_run(reported.mapped(tmp_path, 2))
    with pytest.raises(BadCall, match="cannot be written: No such file or directory"):
        report.save(tmp_path / "nowhere" / "x.html")


def test_an_evaluation_is_called_by_its_name(tmp_path: Path) -> None:
    rows = numpy.arange(400.0).reshape(100, 4)
    options: dict[str, Any] = {"run": tmp_path / "scores", "engine": "serial", "progress": False}
    tenfold.evaluate(lambda some: some[:, 0], (rows, rows[:, 0]), ["mse"], **options)
    found = of_run(tmp_path / "scores")
    assert found.title == f"evaluate in {tmp_path / 'scores'}"
    assert "tenfold.evaluate(model, source, metrics, workers=1" in found.markdown()
