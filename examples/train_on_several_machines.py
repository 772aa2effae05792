"""One model on the machines of a Dask cluster: no `TF_CONFIG`, no addresses, no script to start on each of them.

`python train_on_several_machines.py dask://scheduler:8786` uses a cluster that is there. Without an address, two Dask
workers on this machine stand for two machines. Ray is the same line: `ray://auto`.
"""

import contextlib
import sys

import numpy as np
import tenfold


def build(width=64, lr=0.002):
    import torch

    module = torch.nn.Sequential(torch.nn.Linear(20, width), torch.nn.ReLU(), torch.nn.Linear(width, 2))
    return module, torch.nn.CrossEntropyLoss(), torch.optim.Adam(module.parameters(), lr)


@contextlib.contextmanager
def cluster():
    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as two, Client(two) as client:
        yield client


if __name__ == "__main__":  # Dask's own cluster wants this line; tenfold does not
    x = np.random.default_rng(0).normal(size=(4000, 20)).astype("float32")
    y = (x[:, 0] * x[:, 1] > 0).astype("int64")
    fit = tenfold.Fit(build, (x, y), epochs=8, batch_size=64, validation=0.2, metrics=["accuracy"])

    here = tenfold.train(fit, workers=1, engine="local", progress=False)
    with contextlib.nullcontext(sys.argv[1]) if sys.argv[1:] else cluster() as engine:
        there = tenfold.train(fit, workers=2, engine=engine, progress=False)
    for epoch, (one, two) in enumerate(zip(here.history["loss"], there.history["loss"], strict=True)):
        print(f"epoch {epoch}: loss {one:.6f} here, {two:.6f} by two workers of the cluster")
    assert np.allclose(here.history["loss"], there.history["loss"], rtol=1e-4)
    print(f"accuracy on rows that it has not seen: {there.history['val_accuracy'][-1]:.3f}")
    print("what happened:", *there.events, sep="\n  ")
