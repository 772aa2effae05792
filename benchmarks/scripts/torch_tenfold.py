"""The PyTorch iterations of the question with tenfold. Arguments: ITERATIONS ROWS EPOCHS [isolate]."""

# ruff: noqa: N806  # for its users tenfold is third-party, and sorted so; the names are the question's

import sys
from functools import partial

import tenfold
import torch
import torch.nn as nn
import torch.optim as optim


def train_iteration_pytorch(i: int, data_size: int, learning_rate: float, num_epochs: int) -> tuple[float, int]:
    torch.manual_seed(i)  # not in the question: it makes the losses comparable
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    X_train = torch.randn(data_size, 10).to(device)
    y_train = torch.randn(data_size, 1).to(device)

    model = nn.Linear(10, 1).to(device)
    optimizer = optim.SGD(model.parameters(), lr=learning_rate)
    criterion = nn.MSELoss()

    for _ in range(num_epochs):
        optimizer.zero_grad()
        outputs = model(X_train)
        loss = criterion(outputs, y_train)
        loss.backward()
        optimizer.step()

    final_loss = loss.item()
    return final_loss, i


num_iterations, data_size_per_iter, epochs_per_iter = map(int, sys.argv[1:4])
learning_rate_per_iter = 0.001

train = partial(
    train_iteration_pytorch,
    data_size=data_size_per_iter,
    learning_rate=learning_rate_per_iter,
    num_epochs=epochs_per_iter,
)
results = tenfold.map(train, range(num_iterations), workers=2, isolate="isolate" in sys.argv)

for final_loss, iteration_number in results:
    print(f"Iteration {iteration_number} final loss: {final_loss:.4f}")
