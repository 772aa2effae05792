"""The caller of `train` is killed by SIGKILL: nothing of it stays, and the same call goes on from the checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import leftovers
import scripts
import waiting

_SCRIPT = """
    import json, sys, time
    sys.path.insert(0, {folder!r})
    import nets, tenfold

    fit = nets.fit(nets.build_slow, epochs=10)
    params = dict(seed=3, folder=".", act="calm")
    trained = tenfold.train(fit, params, workers=2, run={run!r}, checkpoint=3, progress=False)
    weights = {{name: array.tolist() for name, array in trained.weights.items()}}
    print(json.dumps([weights, trained.events, trained.history["loss"]]))
"""


def test_it_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    folder = str(Path(__file__).parent.parent / "training")
    text = _SCRIPT.format(folder=folder, run=str(tmp_path / "run"))
    whole = _SCRIPT.format(folder=folder, run=str(tmp_path / "whole"))
    (tmp_path / "a").mkdir()
    with scripts.started(tmp_path / "a", text) as script:
        waiting.until((tmp_path / "run" / "train.checkpoint").exists, 90, "a checkpoint")
        script.kill()
    waiting.until(lambda: not leftovers.processes(), 5, "the end of all processes")
    (tmp_path / "b").mkdir()
    weights, events, losses = json.loads(scripts.run(tmp_path / "b", text).out)
    expected, _, all_losses = json.loads(scripts.run(tmp_path / "b", whole).out)
    assert not events[0].endswith("at step 0"), events
    assert losses == all_losses
    assert weights == expected
