"""`tenfold.train`: several workers make what one makes, whoever is lost on the way."""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import signal
import sqlite3
import threading
from pathlib import Path
from typing import Any

import nets
import numpy
import pytest

import tenfold
import waiting
from tenfold.errors import BadCall, RunDiffers, TasksFailed, TaskTimedOut
from tenfold.training import stations
from tenfold.training.checkpoint import Checkpoint
from tenfold.training.server import Server
from tenfold.training.wires import Ticket
from tenfold.verbs import serving

PARAMS = {"seed": 3}


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    """What `map` makes, one process with the framework's own loop."""
    items = [dict(PARAMS, optimizer="sgd"), dict(PARAMS, optimizer="adam", lr=0.01)]
    results = tenfold.map(nets.fit(metrics=["accuracy"], how="alone"), items, workers=1, progress=False)
    return dict(zip(("sgd", "adam"), results, strict=True))


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_the_same_weights_for_any_number_of_workers(workers: int, optimizer: str, alone: dict[str, Any]) -> None:
    params = alone[optimizer].params
    trained = tenfold.train(nets.fit(metrics=["accuracy"]), params, workers=workers, progress=False)
    assert nets.furthest(trained.weights, alone[optimizer].weights) < 1e-5
    assert trained.history.keys() == alone[optimizer].history.keys()
    for name, values in trained.history.items():
        numpy.testing.assert_allclose(values, alone[optimizer].history[name], rtol=1e-4, atol=1e-6)
    assert trained.workers == workers
    assert trained.model(numpy_to_torch(nets.X[:4])).shape == (4, 2)


@pytest.mark.parametrize("seen", ["weights", "rates"])
def test_models_that_begin_otherwise_have_the_state_of_the_first(seen: str, tmp_path: Path) -> None:
    fit = nets.fit(nets.build_differing, epochs=2, validation=None)
    trained = tenfold.train(fit, dict(PARAMS, folder=str(tmp_path), seen=seen), workers=2, progress=False)
    first, other = (numpy.load(tmp_path / f"{index}.npy") for index in range(2))
    numpy.testing.assert_array_equal(first, other)
    assert any("worker 1 was built otherwise than worker 0" in event for event in trained.events), trained.events


@pytest.mark.parametrize("exchange", ["ring", "gloo"])
def test_the_same_weights_whichever_way_they_are_added_up(exchange: Any, alone: dict[str, Any]) -> None:
    for workers in (1, 2, 3):
        for one in alone.values():
            fit = nets.fit(metrics=["accuracy"])
            trained = tenfold.train(fit, one.params, workers=workers, exchange=exchange, progress=False)
            assert nets.furthest(trained.weights, one.weights) < 1e-5
            for name, values in trained.history.items():
                numpy.testing.assert_allclose(values, one.history[name], rtol=1e-4, atol=1e-6)


def test_a_run_goes_on_the_way_it_began(tmp_path: Path) -> None:
    run = {"workers": 2, "run": tmp_path / "run", "progress": False}
    began = tenfold.train(nets.fit(), PARAMS, exchange="ring", **run)
    assert tenfold.train(nets.fit(), PARAMS, exchange="ring", **run).history == began.history
    with pytest.raises(RunDiffers, match="exchange"):
        tenfold.train(nets.fit(), PARAMS, **run)


def numpy_to_torch(array: numpy.ndarray) -> Any:
    import torch

    return torch.from_numpy(array)


def test_accumulated_and_clipped() -> None:
    whole = tenfold.train(nets.fit(), PARAMS, workers=1, clip=0.1, progress=False)
    pieces = tenfold.train(nets.fit(), PARAMS, workers=2, clip=0.1, accumulate=3, progress=False)
    free = tenfold.train(nets.fit(), PARAMS, workers=2, progress=False)
    gloo = tenfold.train(nets.fit(), PARAMS, workers=2, clip=0.1, accumulate=3, exchange="gloo", progress=False)
    assert nets.furthest(whole.weights, pieces.weights) < 1e-5
    assert nets.furthest(whole.weights, gloo.weights) < 1e-5
    assert nets.furthest(whole.weights, free.weights) > 1e-3, "or the norm was never above it"


def test_early_stopping_restores_the_best() -> None:
    stopping = tenfold.EarlyStopping("val_loss", patience=1)
    fit = nets.fit(epochs=60, callbacks=[stopping])
    params = dict(PARAMS, optimizer="adam", lr=0.2)
    one = tenfold.map(fit, [params], workers=1, progress=False)[0]
    two = tenfold.train(fit, params, workers=2, progress=False)
    assert two.result.epochs == one.epochs < 60
    assert two.result.best_epoch == one.best_epoch
    assert nets.furthest(two.weights, one.weights) < 1e-4


@pytest.mark.parametrize("exchange", [None, "gloo"])
@pytest.mark.parametrize("act", ["kill", "stop"])
def test_the_others_go_on_without_one_and_nothing_is_lost(act: str, exchange: Any, tmp_path: Path) -> None:
    fit = nets.fit(nets.build_slow, epochs=12)
    calm = tenfold.train(fit, dict(PARAMS, folder=str(tmp_path), act="calm"), workers=3, progress=False)
    params = dict(PARAMS, folder=str(tmp_path), act=act, waits=True)
    lost = tenfold.train(fit, params, workers=3, exchange=exchange, progress=False)
    assert (tmp_path / act).exists()
    assert nets.furthest(lost.weights, calm.weights) < 1e-5
    numpy.testing.assert_allclose(lost.history["loss"], calm.history["loss"], rtol=1e-4)
    counts = [re.search(r"(\d) of 3 workers go on at step (\d+)", event) for event in lost.events]
    there, steps = zip(*[(int(found[1]), int(found[2])) for found in counts if found], strict=True)
    assert there == (3, 2, 3), "one was lost, and another one has joined"
    assert 0 == steps[0] < steps[1] <= steps[2], "the new one may be there before the two have taken a step"
    if act == "stop":
        silence = next(filter(None, (re.search(r"no sign of life for ([\d.]+) s", event) for event in lost.events)))
        assert float(silence[1]) <= 5


def test_one_that_is_stopped_before_it_has_a_model_is_noticed_too(tmp_path: Path) -> None:
    trained = tenfold.train(nets.fit(nets.build_stopping), {"folder": str(tmp_path)}, workers=2, progress=False)
    silence = re.search(r"worker 1 has given no sign of life for ([\d.]+) s; 1 of 2 are there", "".join(trained.events))
    assert silence is not None, trained.events
    assert float(silence[1]) <= 5
    assert trained.workers == 2


def test_one_that_exits_in_a_step_ends_the_training(tmp_path: Path) -> None:
    params = {"folder": str(tmp_path), "act": "exit"}
    with pytest.raises(TasksFailed, match="SystemExit: 3"):
        tenfold.train(nets.fit(nets.build_slow), params, workers=2, progress=False)


def test_one_that_takes_longer_to_score_is_waited_for() -> None:
    trained = tenfold.train(nets.fit(nets.build_scoring_slowly, epochs=2), workers=2, progress=False)
    assert len(trained.events) == 1, trained.events


@pytest.mark.parametrize("lost", [0, 1])
def test_killed_when_not_all_workers_had_returned_a_run_ends_all_the_same(lost: int, tmp_path: Path) -> None:
    """As a caller leaves it that is killed at its end, or a worker that was lost for good."""
    trained = tenfold.train(nets.fit(), PARAMS, workers=2, run=tmp_path, progress=False)
    with contextlib.closing(sqlite3.connect(tmp_path / "journal.sqlite")) as journal, journal:
        journal.execute("DELETE FROM outcomes WHERE first = ?", [lost])
    again = tenfold.train(nets.fit(), PARAMS, workers=2, run=tmp_path, progress=False)
    assert nets.furthest(again.weights, trained.weights) < 1e-5
    assert bool(again.events) == (lost == 0), "only the first of them had the result"


def test_a_loss_that_is_not_a_number_names_the_step() -> None:
    params = dict(PARAMS, lr=1e38)
    with pytest.raises(TasksFailed, match=r"the loss is (nan|inf) at step \d+ \(epoch \d+, batch \d+, rows \d+"):
        tenfold.train(nets.fit(), params, workers=2, progress=False)


def test_a_model_that_cannot_be_built_says_so_once() -> None:
    with pytest.raises(TasksFailed, match="division by zero"):
        tenfold.train(nets.fit(lambda: 1 / 0), workers=2, progress=False)


@pytest.mark.parametrize("how", ["synchronous", "sharded"])
def test_who_takes_too_long_is_not_started_again(how: Any) -> None:
    fit = nets.fit(nets.build_costly, epochs=10**6)
    with pytest.raises(TasksFailed, match=r"^worker [01] of 2 failed first: .*timeout=1") as caught:
        tenfold.train(fit, dict(PARAMS, step=0.05), how=how, workers=2, timeout=1, progress=False)
    assert {error.attempts for error in caught.value.failures if isinstance(error, TaskTimedOut)} == {1}
    del caught


def test_killed_as_a_whole_it_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    fit = nets.fit(nets.build_slow, epochs=12)
    calm = tenfold.train(fit, dict(PARAMS, folder=str(tmp_path), act="calm"), workers=2, progress=False)
    params = dict(PARAMS, folder=str(tmp_path), act="kill all")
    trained = tenfold.train(fit, params, workers=2, run=tmp_path / "run", checkpoint=5, progress=False)
    assert nets.furthest(trained.weights, calm.weights) < 1e-5
    again = tenfold.train(fit, params, workers=2, run=tmp_path / "run", checkpoint=5, progress=False)
    assert nets.furthest(again.weights, trained.weights) == 0
    fresh = tenfold.train(fit, params, workers=2, run=tmp_path / "run", fresh=True, progress=False)
    assert fresh.events[0].endswith("at step 0")


def test_asynchronous_goes_on_from_its_checkpoint_too(tmp_path: Path) -> None:
    fit = nets.fit(nets.build_slow, epochs=8, validation=None)
    params = dict(PARAMS, folder=str(tmp_path), act="kill all")
    trained = tenfold.train(
        fit, params, workers=2, how="asynchronous", run=tmp_path / "run", checkpoint=5, progress=False
    )
    assert (tmp_path / "kill all").exists()
    assert trained.updates == 8 * 7
    begun = [int(event.rpartition(" ")[2]) for event in trained.events if "go on at step" in event]
    assert begun[-1] > 0, trained.events


def build_failing(path: str) -> Any:
    """A loss that writes down each of its calls, for all workers, and fails at one of them."""
    module, loss, optimizer = nets.build()

    def noted(outputs: Any, targets: Any) -> Any:
        with open(path, "ab") as file:
            file.write(b".")
        if file_size(path) == 40:
            raise OSError("once")
        return loss(outputs, targets)

    return module, noted, optimizer


def file_size(path: Any) -> int:
    return os.stat(path).st_size


def test_asynchronous_goes_on_from_the_middle_of_an_epoch(tmp_path: Path) -> None:
    fit = nets.fit(build_failing, epochs=1, batch_size=2, validation=None)
    params = dict(PARAMS, path=str(tmp_path / "calls"))
    options: Any = {"workers": 2, "how": "asynchronous", "run": tmp_path / "run", "progress": False}
    with pytest.raises(TasksFailed, match="once"):
        tenfold.train(fit, params, checkpoint=5, **options)
    begun = file_size(tmp_path / "calls")
    _, progress = pickle.loads(Checkpoint(tmp_path / "run" / "train.checkpoint").body())
    assert 0 < progress.done.sum() <= begun
    trained = tenfold.train(fit, params, checkpoint=5, **options)
    assert trained.updates == 102
    assert file_size(tmp_path / "calls") == begun + 102 - progress.done.sum()


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights with two servers, though all workers are here."""
    monkeypatch.setattr(stations, "parts", lambda _size, _hosts: 2)


@pytest.mark.parametrize("staleness", [None, 2])
def test_asynchronous_loses_no_update(staleness: int | None) -> None:
    fit = nets.fit(epochs=30, validation=None, metrics=["accuracy"])
    trained = tenfold.train(fit, PARAMS, workers=3, how="asynchronous", staleness=staleness, progress=False)
    assert trained.updates == 30 * 7
    assert trained.history["accuracy"][-1] > 0.95
    assert len(trained.history["loss"]) == 30


@pytest.mark.parametrize("where", ["memory", "servers"])
def test_nobody_is_further_ahead_than_staleness(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if where == "servers":
        monkeypatch.setattr(stations, "parts", lambda _size, _hosts: 2)
    fit = nets.fit(nets.build_counted, epochs=1, batch_size=4, validation=None)

    def lead(name: str, staleness: int | None) -> int:
        """The largest, of steps that were begun: one that is begun is not yet added, and counts besides."""
        numpy.memmap(tmp_path / name, numpy.int64, "w+", shape=(2, 3))
        params = dict(PARAMS, path=str(tmp_path / name))
        tenfold.train(fit, params, workers=3, how="asynchronous", staleness=staleness, progress=False)
        begun, leads = numpy.memmap(tmp_path / name, numpy.int64, "r", shape=(2, 3))
        assert begun.sum() == -(-nets.ROWS // 4)
        return int(leads.max()) - 1

    assert lead("bound", 2) <= 2
    assert lead("free", None) > 2


def test_no_staleness_at_all_is_synchronous() -> None:
    found = tenfold.train(nets.fit(), PARAMS, workers=2, how="asynchronous", staleness=0, progress=False)
    expected = tenfold.train(nets.fit(), PARAMS, workers=2, progress=False)
    assert nets.furthest(found.weights, expected.weights) == 0
    assert found.history == expected.history


def test_asynchronous_is_as_accurate_on_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    data = (images / 16).astype("float32"), labels
    fit = tenfold.Fit(nets.build_digits, data, epochs=15, batch_size=32, validation=0.25, metrics=["accuracy"])
    scores = {
        how: tenfold.train(fit, PARAMS, workers=2, how=how, progress=False).history["val_accuracy"][-1]  # type: ignore[arg-type]
        for how in ("synchronous", "asynchronous")
    }
    assert scores["synchronous"] > 0.9
    assert scores["asynchronous"] > scores["synchronous"] - 0.01
    monkeypatch.setattr(stations, "parts", lambda _size, _hosts: 2)
    served = tenfold.train(fit, PARAMS, workers=2, how="asynchronous", progress=False)
    assert any("server 1 is there" in event for event in served.events)
    assert served.history["val_accuracy"][-1] > scores["synchronous"] - 0.01


def test_asynchronous_averages_of_batch_norm_do_not_overshoot() -> None:
    def build(seed: int) -> Any:
        import torch

        module = torch.nn.Sequential(torch.nn.BatchNorm1d(12, momentum=0.9), torch.nn.Linear(12, 2))
        return module, torch.nn.CrossEntropyLoss(), torch.optim.SGD(module.parameters(), 0.01)

    trained = tenfold.train(nets.fit(build, batch_size=4), PARAMS, workers=3, how="asynchronous", progress=False)
    assert (trained.weights["0.running_var"] > 0).all()
    assert numpy.isfinite(trained.history["val_loss"]).all()


def test_averaged_after_some_steps_of_their_own() -> None:
    fit = nets.fit(epochs=20, metrics=["accuracy"])
    one = tenfold.train(fit, PARAMS, workers=1, progress=False)
    alone = tenfold.train(fit, PARAMS, workers=1, how="asynchronous", average_every=3, progress=False)
    assert nets.furthest(one.weights, alone.weights) < 1e-5, "the average of one is what it was"
    several = tenfold.train(fit, PARAMS, workers=3, how="asynchronous", average_every=2, progress=False)
    assert several.updates == 20 * 6
    assert several.history["val_accuracy"][-1] > 0.85


def test_asynchronous_counts_every_update_once_when_a_worker_is_killed(tmp_path: Path) -> None:
    fit = nets.fit(nets.build_slow, epochs=10, validation=None)
    params = dict(PARAMS, folder=str(tmp_path), act="kill", at=10)
    trained = tenfold.train(fit, params, workers=3, how="asynchronous", progress=False)
    assert (tmp_path / "kill").exists()
    assert trained.updates == 10 * 7


class Mortal(Server):
    """A server that is killed as soon as there is a file, for so many attempts."""

    def __init__(self, ticket: Ticket, file: Path, deaths: int) -> None:
        super().__init__(ticket)
        self.file = file
        self.deaths = deaths

    def __call__(self, part: int) -> None:
        if part == 1 and tenfold.here().attempt <= self.deaths:
            threading.Thread(target=self.die, daemon=True).start()
        super().__call__(part)

    def die(self) -> None:
        waiting.for_file(self.file)
        os.kill(os.getpid(), signal.SIGKILL)


def test_an_epoch_is_repeated_when_a_server_is_lost(
    served: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = nets.fit(nets.build_slow, epochs=6, validation=None)
    params = dict(PARAMS, folder=str(tmp_path), act="calm", at=10)
    monkeypatch.setattr(serving, "Server", lambda ticket: Mortal(ticket, tmp_path / "calm", deaths=1))
    trained = tenfold.train(fit, params, workers=2, how="asynchronous", progress=False)
    assert trained.updates == 6 * 7
    assert any("parameter server 1 has ended" in event for event in trained.events), trained.events
    monkeypatch.setattr(serving, "Server", lambda ticket: Mortal(ticket, tmp_path / "calm", deaths=9))
    with pytest.raises(TasksFailed, match=r"server 1 was lost 2 times, the last time because"):
        tenfold.train(fit, params, workers=2, how="asynchronous", retries=0, progress=False)


def test_updates_are_counted_once_when_a_worker_is_killed_while_it_scores(tmp_path: Path) -> None:
    fit = nets.fit(nets.build_slow, epochs=3)
    params = dict(PARAMS, folder=str(tmp_path), act="kill scoring", at=0)
    trained = tenfold.train(fit, params, workers=2, how="asynchronous", progress=False)
    assert (tmp_path / "kill scoring").exists()
    assert trained.updates == 3 * 6


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"workers": 0}, "workers=0: expected a whole number above 0"),
        ({"how": "magic"}, "how='magic': expected one of 'synchronous', 'asynchronous', 'sharded'"),
        ({"clip": -1}, "clip=-1: expected a number above 0"),
        ({"checkpoint": "often", "run": "x"}, "checkpoint='often': expected a number of steps, or a time"),
        ({"checkpoint": 5}, "there is nowhere to write it without run="),
        ({"workers": 2, "engine": "serial"}, "workers=2: only 1 can work at once here"),
        ({"staleness": 3}, "only with how="),
        (
            {"staleness": 0, "how": "sharded", "workers": 2},
            'staleness= and average_every=: only with how="asynchronous"',
        ),
        ({"staleness": 0, "how": "asynchronous", "average_every": 4}, "staleness= and average_every=: give one of"),
        ({"exchange": "mail"}, "exchange='mail': expected one of 'ring', 'gloo', 'nccl', 'framework', or None"),
        ({"exchange": "nccl"}, "exchange='nccl' and gpus=0: it is for workers that have a GPU each"),
        ({"exchange": "gloo", "how": "asynchronous"}, "exchange='gloo': only with how="),
        ({"average_every": 0, "how": "asynchronous"}, "average_every=0: expected a whole number above 0"),
    ],
)
def test_bad_calls(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(BadCall, match=words):
        tenfold.train(nets.fit(), PARAMS, progress=False, **settings)


def test_what_would_be_ignored_or_is_no_parameter_is_refused() -> None:
    with pytest.raises(BadCall, match=r"Fit\(outputs=True\): of tenfold.map; tenfold.predict"):
        tenfold.train(nets.fit(outputs=True), workers=1, progress=False)
    with pytest.raises(BadCall, match=r"^build\(.*unexpected keyword argument 'rate'"):
        tenfold.train(nets.fit(), {"rate": 1}, workers=1, progress=False)


def test_numbers_of_numpy_are_as_good(tmp_path: Path) -> None:
    numbers: dict[str, Any] = {"workers": numpy.int64(1), "clip": numpy.float32(1), "checkpoint": numpy.int64(2)}
    trained = tenfold.train(nets.fit(epochs=1), PARAMS, run=tmp_path, progress=False, **numbers)
    assert trained.workers == 1


def test_groups_of_pytorch_are_refused_for_other_frameworks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    with pytest.raises(BadCall, match=r"exchange='gloo' and Keras on \w+: only PyTorch adds up gradients so"):
        tenfold.train(nets.fit(nets.build_keras), workers=2, exchange="gloo", progress=False)
