"""Dask workers on other hosts, which share neither memory nor network with the caller."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import dask_clusters
import hosts
import numpy
import pytest
from dask_clusters import Cluster, Process, committed, trace, traces
from hosts import Net

import scripts
import tenfold
import waiting
from tenfold import errors
from tenfold.engines import dask
from tenfold.engines.cluster import crew

COUNT = 40
LARGE = 80_000_000  # three messages
LITTLE = 4_000_000  # bytes that a call takes without any content, also where it takes long, and some more


_IMPATIENT = """
from tenfold.engines.cluster import foreman

foreman.CALLER_GONE = 6.0  # instead of 20
"""


@dataclass
class Place:
    """Two workers on the first host, one on the second; scheduler and caller here."""

    net: Net
    cluster: Cluster
    workers: list[list[Process]]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    impatient = tmp_path_factory.mktemp("preload") / "impatient.py"
    impatient.write_text(_IMPATIENT)
    with hosts.several() as net, dask_clusters.running(net.here) as cluster:
        first, second = [
            [cluster.worker("--preload", str(impatient), host=host, wait=False) for _ in range(count)]
            for host, count in zip(net.others, (2, 1), strict=True)
        ]
        workers = [first, second]
        for worker in [worker for some in workers for worker in some]:
            worker.says("Registered to:")
        yield Place(net, cluster, workers)


def test_a_large_array_is_sent_once_to_each_host_and_not_again(place: Place, tmp_path: Path) -> None:
    array = numpy.random.default_rng(0).integers(0, 255, LARGE, dtype=numpy.uint8)
    before = [place.net.sent(n) for n in range(2)] if place.net.real else []

    def work(x: int) -> tuple[str, int]:
        trace(tmp_path, x)
        waiting.until(lambda: len({pid for pids in traces(tmp_path).values() for pid in pids}) >= 3, 20, "all workers")
        return os.readlink("/proc/self/ns/net"), int(array[x::COUNT].sum(dtype=numpy.int64))

    found = list(tenfold.map(work, range(COUNT), engine=place.cluster.address, progress=False))
    assert [total for _, total in found] == [int(array[x::COUNT].sum(dtype=numpy.int64)) for x in range(COUNT)]
    if place.net.real:
        assert len({namespace for namespace, _ in found}) == 2
        assert os.readlink("/proc/self/ns/net") not in {namespace for namespace, _ in found}
        sent = [place.net.sent(n) - before[n] for n in range(2)]
        assert all(LARGE <= count < LARGE + LITTLE for count in sent), sent
        again = [place.net.sent(n) for n in range(2)]
        same = list(tenfold.map(work, range(COUNT), engine=place.cluster.address, progress=False))
        assert [total for _, total in same] == [total for _, total in found]
        sent = [place.net.sent(n) - again[n] for n in range(2)]
        assert all(count < LITTLE for count in sent), sent


_MODEL = """
    import os
    import pathlib
    import torch
    import tenfold
    import waiting

    model = torch.nn.Linear(2000, 2500)
    data = torch.ones(1, 2000)
    ends = {ends!r}

    def use(x):
        return float(model(data * x).sum())

    def use_everywhere(x):
        pathlib.Path(f"worker-{{os.getpid()}}").touch()
        waiting.until(lambda: len([*pathlib.Path().glob("worker-*")]) >= 3, 60, "all workers")
        return use(x)

    def sent():
        return [int(pathlib.Path(f"/sys/class/net/{{end}}/statistics/tx_bytes").read_text()) for end in ends]

    expected = [use(x) for x in range(12)]
    for _ in range(2):
        before = sent()
        found = list(tenfold.map(use_everywhere, range(12), engine={engine!r}, progress=False))
        for file in pathlib.Path().glob("worker-*"):
            file.unlink()
        assert torch.allclose(torch.tensor(found), torch.tensor(expected), rtol=1e-4), (found, expected)
        print(*[after - there for after, there in zip(sent(), before)])
"""


@pytest.mark.slow
def test_a_model_is_sent_once_to_each_host_and_not_again(place: Place, tmp_path: Path) -> None:
    text = _MODEL.format(ends=place.net.ends, engine=place.cluster.address)
    first, second = (map(int, line.split()) for line in scripts.run(tmp_path, text).out.splitlines()[-2:])
    size = 4 * 2000 * 2500
    assert all(size <= count < size + LITTLE for count in first), first
    assert all(count < LITTLE for count in second), second


def test_a_launch_over_hosts(place: Place) -> None:
    """Workers on different hosts reach each other at the addresses by which they have reached the caller."""

    def total() -> tuple[int, float, str]:
        import torch
        from torch import distributed

        vector = torch.full((1,), tenfold.here().rank + 1.0)
        distributed.all_reduce(vector)
        return tenfold.here().rank, float(vector), os.readlink("/proc/self/ns/net")

    found = tenfold.launch(total, workers=3, engine=place.cluster.address, progress=False)
    assert [(rank, value) for rank, value, _ in found] == [(0, 6.0), (1, 6.0), (2, 6.0)]
    assert len({network for _, _, network in found}) == (2 if place.net.real else 1)


def test_large_results_come_home(place: Place) -> None:
    found = tenfold.map(lambda x: numpy.full(3_000_000, x), range(6), engine=place.cluster.address, progress=False)
    for x, array in enumerate(found):
        assert array.shape == (3_000_000,)
        assert (array == x).all()


def test_predictions_without_a_folder_come_home(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those with one need a folder that all hosts see, and say so."""
    rows = numpy.arange(9000.0).reshape(3000, 3)
    call = {"batch_size": 1000, "engine": place.cluster.address, "progress": False}
    if place.net.hidden is not None:
        (place.net.hidden / "temporary").mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(place.net.hidden / "temporary"))
        with pytest.raises(tenfold.TasksFailed, match=r"hidden/set' cannot be seen on .*; give to= a folder that all"):
            tenfold.predict(lambda x: x * 2, rows, place.net.hidden / "set", **call)  # type: ignore[arg-type]
    found = tenfold.predict(lambda x: x * 2, rows, **call)  # type: ignore[arg-type]
    assert numpy.array_equal(found.numpy(), rows * 2)
    scores = tenfold.evaluate(lambda x: x[:, 0], (rows, rows[:, 0] > 50), ["roc_auc"], **call)  # type: ignore[arg-type]
    assert scores["roc_auc"] == 1


def test_a_model_that_predicts_is_sent_once_to_each_host_and_loaded_once_by_each_worker(
    place: Place, tmp_path: Path
) -> None:
    class Doubling:
        def __init__(self) -> None:
            self.weights = numpy.random.default_rng(1).random(LARGE // 32)

        def __setstate__(self, state: dict[str, object]) -> None:
            self.__dict__.update(state)
            trace(tmp_path, 0)

        def __call__(self, x: numpy.ndarray) -> numpy.ndarray:
            return x * 2 + 0 * self.weights[0]

    model, rows = Doubling(), numpy.arange(60_000.0).reshape(20_000, 3)
    for size in (model.weights.nbytes, 0):
        before = [place.net.sent(n) for n in range(2)] if place.net.real else []
        found = tenfold.predict(model, rows, batch_size=1000, engine=place.cluster.address, progress=False)
        assert numpy.array_equal(found.numpy(), rows * 2)
        sent = [place.net.sent(n) - before[n] for n in range(2)] if place.net.real else []
        assert all(size <= count < size + LITTLE for count in sent), sent
    loaded = traces(tmp_path)[0]
    assert len(loaded) == len(set(loaded)), "a process that predicts has loaded it once, whatever it is asked for"


def test_files_of_tasks_come_home(place: Place, tmp_path: Path) -> None:
    def work(x: int) -> str:
        folder = tenfold.here().folder
        (folder / "model.txt").write_text(f"model {x}")
        (folder / "deep").mkdir()
        (folder / "deep" / "empty").touch()
        (folder / "deep" / "weights").write_bytes(bytes([x]) * 1_000_000)
        return str(folder)

    run = tmp_path / "run"
    found = list(tenfold.map(work, range(6), engine=place.cluster.address, run=run, progress=False))
    for x in range(6):
        folder = run / "tasks" / f"{x:06d}"
        assert (folder / "model.txt").read_text() == f"model {x}"
        assert (folder / "deep" / "empty").read_bytes() == b""
        assert (folder / "deep" / "weights").read_bytes() == bytes([x]) * 1_000_000
    if place.net.real:
        assert not any(Path(folder).exists() for folder in found if not folder.startswith(str(run)))


def test_a_second_attempt_finds_what_the_first_one_left(place: Place, tmp_path: Path) -> None:
    def work(x: int) -> str:
        file = tenfold.here().folder / "checkpoint"
        if tenfold.here().attempt == 1:
            file.write_text(f"half of {x}")
            raise OSError("try again")
        return file.read_text()

    run = tmp_path / "run"
    results = tenfold.map(work, range(6), engine=place.cluster.address, run=run, retries=1, progress=False)
    assert list(results) == [f"half of {x}" for x in range(6)]


def test_a_trial_goes_on_from_its_checkpoint_on_whichever_host(place: Place, tmp_path: Path) -> None:
    """Each checkpoint has a name of its own, and the one before it is removed."""

    def train(params: dict[str, float]) -> float:
        here = tenfold.here()
        kept = sorted(path.name for path in here.folder.glob("step-*"))
        assert len(kept) <= 1, kept
        for step in range(int(kept[0].partition("-")[2]) if kept else 0, 9):
            with open(tmp_path / "log", "a") as file:
                file.write(f"{params['x']} {step} {os.readlink('/proc/self/ns/net')}\n")
            (here.folder / f"step-{step + 1}").touch()
            (here.folder / f"step-{step}").unlink(missing_ok=True)
            here.report(step, loss=params["x"] / (step + 1))
        return params["x"]

    space = {"x": [float(x) for x in range(1, 19)]}
    call = {"pruner": "asha", "steps": 9, "progress": False}
    study = tenfold.tune(train, space, engine=place.cluster.address, **call)  # type: ignore[arg-type]
    assert [trial.error for trial in study.trials] == [None] * 18
    done = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    assert len({(x, step) for x, step, _ in done}) == len(done) == sum(trial.steps for trial in study.trials)
    (tmp_path / "log").unlink()
    alone = tenfold.tune(train, space, engine="serial", **call)  # type: ignore[arg-type]
    assert [(t.state, t.curve) for t in study.trials] == [(t.state, t.curve) for t in alone.trials]
    if place.net.real:
        assert len({where for *_, where in done}) == 2


def test_seeds_are_those_of_the_caller(place: Place) -> None:
    def work(x: int) -> float:
        return float(tenfold.here().rng.random() + numpy.random.random())

    assert list(tenfold.map(work, range(8), engine=place.cluster.address)) == list(tenfold.map(work, range(8)))


_ENDLESS = """
    import os, pathlib, time
    import tenfold

    folder = pathlib.Path({folder!r})

    def work(x):
        with open(folder / f"began {{x}}", "a") as file:
            file.write(f"{{os.getpid()}}\\n")
        if x >= 10 and not (folder / "killed").exists():
            time.sleep(600)
        with open(folder / f"ended {{x}}", "a") as file:
            file.write(f"{{os.getpid()}}\\n")
        return x * x

    print(list(tenfold.map(work, range(20), run="run", engine={engine!r}, progress=False)))
"""


def test_a_killed_callers_tasks_end_on_other_hosts_too(place: Place, tmp_path: Path) -> None:
    text = _ENDLESS.format(folder=str(tmp_path), engine=place.cluster.address)
    with scripts.started(tmp_path, text) as script:
        waiting.until(lambda: len(committed(tmp_path / "run")) >= 5 or script.process.poll() is not None)
        waiting.until(lambda: len([x for x in traces(tmp_path, "began") if x >= 10]) == 3)
        script.kill()
    finished, before = committed(tmp_path / "run"), traces(tmp_path)
    endless = {pid for x, pids in traces(tmp_path, "began").items() for pid in pids if x >= 10}
    assert not place.net.real or any(map(waiting.lives, endless))
    (tmp_path / "killed").touch()
    assert scripts.run(tmp_path, text).out.strip() == str([x * x for x in range(20)])
    after = traces(tmp_path)
    assert {x: after[x] for x in finished} == {x: before[x] for x in finished}, "a finished task ran again"
    waiting.until(lambda: not any(map(waiting.lives, endless)), 12, "the end of the dead caller's tasks")


def test_a_host_that_is_cut_off_loses_nothing(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Last in this file: the cluster is not what it was before."""
    monkeypatch.setattr(crew, "SILENCE", 4.0)  # instead of 15
    monkeypatch.setattr(dask, "CALL_LIMIT", 4.0)  # instead of 30
    run = tmp_path / "run"
    finished: set[int] = set()
    array = numpy.arange(1_000_000)

    def work(x: int) -> int:
        trace(tmp_path, x, "began")
        time.sleep(0.15)  # the work
        trace(tmp_path, x)
        return int(array[x]) ** 2

    def cut() -> None:
        waiting.until(lambda: len(committed(run)) >= 12)
        finished.update(committed(run))
        place.net.cut(1, place.workers[1])

    cutter = threading.Thread(target=cut, daemon=True)
    cutter.start()
    began = time.monotonic()
    try:
        results = tenfold.map(work, range(COUNT), engine=place.cluster.address, run=run, progress=False)
        seconds = time.monotonic() - began
    finally:
        cutter.join()
        place.net.mend(1, place.workers[1])
    assert list(results) == [x * x for x in range(COUNT)]
    assert len(finished) < COUNT
    ran = traces(tmp_path)
    assert all(len(ran[x]) == 1 for x in finished), "a finished task ran again"
    assert sum(map(len, ran.values())) <= COUNT + 4
    assert seconds < 30
    assert not [outcome for outcome in results.outcomes if isinstance(outcome.error, errors.TaskError)]
