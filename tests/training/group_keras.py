"""Keras models on the devices of two processes, compared with one. Run in a process of each backend's own."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import devices_keras
import learner_cases as cases

import tenfold
import waiting

BOTH: dict[str, Any] = {"progress": False, "timeout": 200}
ONE: dict[str, Any] = {**BOTH, "workers": 1}
TWO: dict[str, Any] = {**BOTH, "workers": 2, "exchange": "framework"}
STOPPING = tenfold.EarlyStopping("val_loss", patience=2, min_delta=0.02)


def fit(name: str, **settings: Any) -> Any:
    """Of 71 rows, the last batch has 7."""
    build, data, _ = devices_keras.PARITY[name]
    return tenfold.Fit(build, data, **{"epochs": 13, "batch_size": 16, "validation": 0.275, **settings})


def apart(fitted: Any, **options: Any) -> float:
    one = tenfold.train(fitted, {"seed": 3}, **ONE, **{k: v for k, v in options.items() if k != "engine"})
    two = tenfold.train(fitted, {"seed": 3}, **TWO, **options)
    assert one.updates == two.updates
    assert one.updates == 65 or fitted.stopping is not None
    assert two.workers == 2
    return devices_keras.apart(one, two)


def lossy(folder: str) -> Any:
    """The first process that builds it is killed when there is a checkpoint."""

    def fall() -> None:
        waiting.until((Path(folder) / "run" / "train.parts" / "manifest").exists, 120)
        os.kill(os.getpid(), signal.SIGKILL)

    if not (Path(folder) / "begun").exists():
        (Path(folder) / "begun").touch()
        threading.Thread(target=fall, daemon=True).start()
    return cases.table()


def killed(folder: str) -> dict[str, Any]:
    """One of both is lost."""
    fitted = tenfold.Fit(lossy, (cases.X, cases.CLASSES), epochs=60, batch_size=16)
    options = {**TWO, "run": Path(folder) / "run", "checkpoint": 3}
    found = tenfold.train(fitted, {"seed": 3, "folder": folder}, **options)
    calm = tenfold.train(fitted, {"seed": 3, "folder": folder}, **ONE)
    return {"events": found.events, "apart": devices_keras.apart(found, calm)}


def main(folder: str) -> None:
    found = {
        "sgd": apart(fit("sgd"), engine="dask"),
        "adam": apart(fit("adam", callbacks=[STOPPING]), clip=0.2, accumulate=2),
        "killed": killed(folder),
    }
    print(json.dumps(found))
