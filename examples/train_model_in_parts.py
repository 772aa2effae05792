"""A model of which no worker holds the whole: parameters, and what Adam remembers of them, are divided.

For a model that is too large for one device. The result is that of training it whole; parts travel in every step, so a
model that fits is trained faster with `how="synchronous"`.
"""

import numpy as np
import tenfold


def build(width=512):
    import torch

    layers = [torch.nn.Linear(20, width), torch.nn.ReLU(), torch.nn.Linear(width, width), torch.nn.ReLU()]
    module = torch.nn.Sequential(*layers, torch.nn.Linear(width, 1))
    return module, torch.nn.MSELoss(), torch.optim.Adam(module.parameters(), 1e-3)


x = np.random.default_rng(0).normal(size=(1024, 20)).astype("float32")
fit = tenfold.Fit(build, (x, x.sum(axis=1, keepdims=True)), epochs=6, batch_size=64)

whole = tenfold.train(fit, progress=False)
parts = tenfold.train(fit, how="sharded", workers=2, progress=False)

print(f"the whole model: {parts.whole.parameters / 1e6:.2f} MB of parameters")
for number, share in enumerate(parts.shares):
    held = f"{share.parameters / 1e6:.2f} MB of parameters and {share.optimizer / 1e6:.2f} MB of Adam's"
    print(f"worker {number}: {held}")
for epoch, (one, two) in enumerate(zip(whole.history["loss"], parts.history["loss"], strict=True)):
    print(f"epoch {epoch}: loss {one:.6f} whole, {two:.6f} in parts")
furthest = max(float(np.abs(whole.weights[name] - parts.weights[name]).max()) for name in whole.weights)
print(f"largest difference of a weight: {furthest:.1e}")
assert furthest < 1e-4
assert max(share.parameters for share in parts.shares) < 0.6 * parts.whole.parameters
print(parts)  # .model is the whole again, where there is memory for it
