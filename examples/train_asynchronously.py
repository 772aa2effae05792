"""Asynchronous training steps on Ray: every worker's updates reach the model, and nobody waits for anybody.

A Ray task that is given a model trains a pickled copy of it; the caller's weights never move. Here, workers add what a
step changes to weights that all of them share, and every batch of an epoch goes to exactly one of them.
"""

import sys

import tenfold
from sklearn.datasets import load_digits


def build(lr=0.05):
    import torch

    module = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    return module, torch.nn.CrossEntropyLoss(), torch.optim.SGD(module.parameters(), lr)


x, y = load_digits(return_X_y=True)
x = (x / 16).astype("float32")
fit = tenfold.Fit(build, (x, y), epochs=8, batch_size=32, validation=0.2, metrics=["accuracy"])

# "ray" is a small cluster here, "ray://auto" one that is there; on several machines, servers hold the weights.
engine = sys.argv[1] if sys.argv[1:] else "ray"
trained = tenfold.train(fit, workers=2, how="asynchronous", engine=engine, progress=False)

for epoch, loss in enumerate(trained.history["loss"]):
    print(f"epoch {epoch}: loss {loss:.4f}, accuracy on other rows {trained.history['val_accuracy'][epoch]:.3f}")
batches = 8 * -(-int(len(x) * 0.8) // 32)
print(f"{trained.updates} updates for {batches} batches by {trained.workers} workers")
assert trained.updates == batches  # none is lost
print(trained)  # the model that all have trained: .model, .weights, .save("digits.pt")
