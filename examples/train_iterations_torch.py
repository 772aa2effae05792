"""n training iterations in parallel with PyTorch, on CPUs and GPUs: each task sees only the device it was given."""

import tenfold
import torch


def train(iteration: int, data_size: int = 1000, learning_rate: float = 0.001, epochs: int = 5) -> dict[str, float]:
    device = tenfold.here().device
    x = torch.randn(data_size, 10, device=device)
    y = torch.randn(data_size, 1, device=device)
    model = torch.nn.Linear(10, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    loss = torch.zeros(())
    for epoch in range(epochs):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        tenfold.here().report(epoch, loss=loss.item())
    return {"loss": loss.item()}


results = tenfold.map(train, range(10))
for number, result in enumerate(results):
    print(f"iteration {number}: final loss {result['loss']:.4f}")
assert len({result["loss"] for result in results}) == 10  # each has random numbers of its own
