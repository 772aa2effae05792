"""One of two workers is killed in the middle of a training: `recovery.py CONTESTANT FOLDER`.

Prints the seconds from the kill until the next step of the training begins. The loss notes when it is computed, and
kills the second worker once. Contestants: tenfold, and torchrun, whose workers go on from their last checkpoint.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

CONTESTANT, FOLDER = sys.argv[1], Path(sys.argv[2])
STEPS, KILLED_AT, EVERY = 400, 200, 20
LIMIT = 120.0  # seconds; who has not gone on by then counts as if it had
ROWS = np.random.default_rng(0).normal(size=(64 * STEPS, 32)).astype("float32")
TARGETS = ROWS.sum(axis=1, keepdims=True)


class Noting(nn.MSELoss):
    """The loss, which takes its time, so that a training is not over before it can be killed."""

    steps = 0

    def forward(self, found, wanted):
        self.steps += 1
        time.sleep(0.005)  # the work
        if rank() == 1 and self.steps == KILLED_AT and not (FOLDER / "killed").exists():
            (FOLDER / "killed").write_text(str(time.time()))
            os.kill(os.getpid(), signal.SIGKILL)
        with open(FOLDER / f"steps {os.getpid()}", "a") as file:
            file.write(f"{time.time()}\n")
        return super().forward(found, wanted)


def rank():
    if "RANK" in os.environ:
        return int(os.environ["RANK"])
    import tenfold

    return tenfold.here().index


def build():
    module = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))
    return module, Noting(), torch.optim.SGD(module.parameters(), 0.01)


def tenfold_trains():
    import tenfold

    fit = tenfold.Fit(build, (ROWS, TARGETS), epochs=1, batch_size=64)
    tenfold.train(fit, workers=2, progress=False)


def torchrun():
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "2"]
    words = [sys.executable, *words, __file__, "loop", str(FOLDER)]
    with subprocess.Popen(words, stdout=sys.stderr, stderr=subprocess.DEVNULL) as process:
        try:
            process.wait(LIMIT)
        except subprocess.TimeoutExpired:  # seen: new workers that wait for each other for ever
            process.terminate()


def loop():
    """What a user of torchrun writes."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    plain, loss, optimizer = build()
    module, path = nn.parallel.DistributedDataParallel(plain), FOLDER / "checkpoint.pt"
    done = 0
    if path.exists():
        kept = torch.load(path)
        plain.load_state_dict(kept["model"])
        optimizer.load_state_dict(kept["optimizer"])
        done = kept["done"]
    rows, targets = torch.from_numpy(ROWS), torch.from_numpy(TARGETS)
    for step in range(done, STEPS):
        start = step * 64 + 32 * rank()
        optimizer.zero_grad()
        loss(module(rows[start : start + 32]), targets[start : start + 32]).backward()
        optimizer.step()
        if rank() == 0 and step % EVERY == EVERY - 1:
            kept = {"model": plain.state_dict(), "optimizer": optimizer.state_dict(), "done": step + 1}
            torch.save(kept, f"{path}.new")
            os.replace(f"{path}.new", path)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    {"tenfold": tenfold_trains, "torchrun": torchrun, "loop": loop}[CONTESTANT]()
    if CONTESTANT != "loop":
        killed = float((FOLDER / "killed").read_text())
        noted = sorted(float(line) for path in FOLDER.glob("steps *") for line in path.read_text().splitlines())
        # The survivor may have been in the middle of the same step.
        after = [moment for moment in noted if moment > killed + 0.006]
        print(json.dumps({"seconds": after[0] - killed if after else LIMIT}))
