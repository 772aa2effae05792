"""Workers of a divided training are killed or stopped, or their caller is: it goes on from its checkpoint by itself."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import nets
import pytest

import leftovers
import scripts
import tenfold
import waiting
from tenfold.errors import TasksFailed

ENDED = "its process has ended without a word"
SILENT = r"it has given no sign of life for [34]\.\d s"

_SCRIPT = """
    import json, sys
    sys.path.insert(0, {folder!r})
    import nets, tenfold

    def trained(**options):
        fit = nets.fit(nets.build_slow, epochs=20, metrics=["accuracy"])
        params = dict(seed=3, folder=".", act="calm")
        found = tenfold.train(fit, params, workers=2, how="sharded", progress=False, **options)
        return [{{name: array.tolist() for name, array in found.weights.items()}}, found.history, found.events]

    whole = trained() if {compares!r} else None
    print(json.dumps([trained(run={run!r}, checkpoint="0.1s"), whole]))
"""


def train(folder: Path, act: str, at: int = 20, **options: Any) -> Any:
    params = {"seed": 3, "folder": str(folder), "act": act, "at": at}
    fit = nets.fit(nets.build_slow, epochs=6)
    return tenfold.train(fit, params, workers=2, how="sharded", progress=False, **options)


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return train(tmp_path_factory.mktemp("calm"), "calm")


@pytest.mark.parametrize(("act", "said"), [("kill", ENDED), ("stop", SILENT)])
def test_all_start_again_from_the_checkpoint(act: str, said: str, calm: Any, tmp_path: Path) -> None:
    at = 20 + 3  # before the first step, the loss is asked about some rows, in three ways
    trained = train(tmp_path, act, at, run=tmp_path / "run", checkpoint=5)
    assert nets.furthest(trained.weights, calm.weights) == 0
    assert trained.history == calm.history
    assert trained.updates == calm.updates
    first, lost, again = trained.events
    assert first.endswith("2 of 2 workers start from the beginning")
    assert re.search(rf"worker [01]: {said}", lost), trained.events
    assert again.endswith("2 of 2 workers start again from step 15")
    assert not (tmp_path / "run" / "train.parts").exists(), "it is of no use any more"
    finished = train(tmp_path, act, at, run=tmp_path / "run", checkpoint=5)
    assert nets.furthest(finished.weights, calm.weights) == 0
    assert finished.events == ()


@pytest.mark.parametrize("shape", [{"stages": 2}, {"mesh": (1, 2), "layout": {"0.weight": ("model", None)}}])
def test_cut_weights_and_pipelines_start_again(shape: dict[str, Any], calm: Any, tmp_path: Path) -> None:
    at = 60 if "stages" in shape else 20  # a loss is taken of each piece of a batch
    trained = train(tmp_path, "kill", at, run=tmp_path / "run", checkpoint=5, **shape)
    assert nets.furthest(trained.weights, calm.weights) < 1e-5
    assert trained.updates == calm.updates
    assert re.search("2 of 2 workers start again from step [1-9]", trained.events[-1]), trained.events


def test_without_a_run_from_the_beginning(calm: Any, tmp_path: Path) -> None:
    with pytest.raises(TasksFailed, match=rf"worker [01] of 2 failed first: {ENDED}"):
        train(tmp_path, "kill", retries=0)
    (tmp_path / "kill").unlink()
    trained = train(tmp_path, "kill", retries=1)
    assert trained.events[-1].endswith("start again from the beginning: there is no checkpoint without run=")
    assert nets.furthest(trained.weights, calm.weights) == 0


def test_the_caller_is_killed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    text = _SCRIPT.format(folder=str(Path(__file__).parent), run=str(run), compares=False)
    (tmp_path / "a").mkdir()
    with scripts.started(tmp_path / "a", text) as script:
        waiting.until((run / "train.parts" / "manifest").exists, 90, "a checkpoint")
        script.kill()
    waiting.until(lambda: not leftovers.processes(), 5, "the end of all processes")
    step = json.loads((run / "train.parts" / "manifest").read_text())["step"]
    (tmp_path / "b").mkdir()
    text = _SCRIPT.format(folder=str(Path(__file__).parent), run=str(run), compares=True)
    (weights, history, events), (expected, whole, _) = json.loads(scripts.run(tmp_path / "b", text).out)
    assert events[0].endswith(f"workers start from step {step}")
    assert history == whole
    assert weights == expected
