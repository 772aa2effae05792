"""Learning rates in parallel on Ray: scored on rows that were held out, with data that go to each machine once.

`python tune_on_ray.py ray://auto` uses the cluster that this machine is in; without an address, Ray starts one here.
"""

import sys

import tenfold
from sklearn.datasets import load_digits


def build(lr, momentum):
    import torch

    module = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    return module, torch.nn.CrossEntropyLoss(), torch.optim.SGD(module.parameters(), lr, momentum)


x, y = load_digits(return_X_y=True)
data = (x / 16).astype("float32"), y
fit = tenfold.Fit(build, data, epochs=9, validation=0.2, metrics=["accuracy"])
space = {"lr": tenfold.loguniform(1e-3, 1.0), "momentum": tenfold.uniform(0.0, 0.95)}

with tenfold.use(sys.argv[1] if sys.argv[1:] else "ray"):
    study = tenfold.tune(fit, space, trials=16, objective="val_accuracy", pruner="asha", progress=False)

print(study.summary())
for trial in study.trials:
    lr, momentum = trial.params["lr"], trial.params["momentum"]
    print(f"trial {trial.number:2}: {trial.state:8} after {trial.steps} epochs, lr {lr:.4f}, momentum {momentum:.2f}")
print(f"best: {study.best.params}")
assert study.best.value > 0.8
