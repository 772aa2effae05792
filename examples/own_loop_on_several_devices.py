"""A training loop of one's own in several processes, which form a group: no port, no `mp.spawn`, no `torchrun`.

For whoever has a loop and wants to keep it. With GPUs: `tenfold.launch(train, ..., workers=4, gpus=1)`.
"""

import tenfold
import torch
from sklearn.datasets import load_digits
from torch.nn.parallel import DistributedDataParallel

digits = load_digits()


def train(lr, epochs=6):
    here = tenfold.here()  # here.rank of here.workers; torch.distributed is there already
    x = torch.tensor(digits.data[here.rank :: here.workers] / 16, dtype=torch.float32, device=here.device)
    y = torch.tensor(digits.target[here.rank :: here.workers], device=here.device)
    model = DistributedDataParallel(torch.nn.Linear(64, 10).to(here.device))
    optimizer = torch.optim.Adam(model.parameters(), lr)
    losses = []
    for _ in range(epochs):
        for part in torch.arange(len(x) // 32 * 32, device=here.device).split(32):
            loss = torch.nn.functional.cross_entropy(model(x[part]), y[part])
            optimizer.zero_grad()
            loss.backward()  # gradients are averaged over the group here
            optimizer.step()
        losses.append(loss.item())
    right = (model(x).argmax(1) == y).float().mean().item()
    return {"rows": len(x), "losses": losses, "accuracy": right, "sum": model.module.weight.sum().item()}


workers = tenfold.launch(train, {"lr": 0.01}, workers=2, progress=False)
for rank, found in enumerate(workers):
    print(f"worker {rank}: {found['rows']} rows, accuracy {found['accuracy']:.3f}, sum of weights {found['sum']:.6f}")
for epoch, losses in enumerate(zip(*(found["losses"] for found in workers), strict=True)):
    print(f"epoch {epoch}: loss of the last batch " + ", ".join(f"{loss:.4f}" for loss in losses))
print("the model of all of them:", *(found["sum"] for found in workers))
assert len({found["sum"] for found in workers}) == 1
print("rows in all:", sum(found["rows"] for found in workers))
