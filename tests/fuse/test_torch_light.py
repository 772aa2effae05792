"""Groups of PyTorch models do without PyTorch's compiler, and those that want it get it."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
import torch
from tenfold.fuse.torch_light import NAME, light

module = torch.nn.Linear(3, 1)
with light():
    for kind in (torch.optim.Adam, torch.optim.SGD, torch.optim.NAdam):
        optimizer = kind(module.parameters(), lr=0.1)
        optimizer.zero_grad()
        module(torch.ones(2, 3)).sum().backward()
        optimizer.step()
    scored = torch.func.vmap(torch.nn.functional.cross_entropy)
    scored(torch.zeros(2, 4, 3), torch.zeros(2, 4, dtype=torch.int64))
    try:
        scored(torch.zeros(2, 4, 3), torch.zeros(2, 5, dtype=torch.int64))
    except (RuntimeError, ValueError) as error:
        assert "size" in str(error)  # checks are made as ever
    else:
        raise AssertionError("4 rows, and 5 targets")
    assert not [name for name in sys.modules if name.startswith((NAME + ".", "sympy"))], "the compiler was imported"
assert NAME not in sys.modules
assert "_dynamo" not in vars(torch)
assert torch._check_with.__module__ == "torch"

with light():
    doubled = torch.compile(lambda x: 2 * x, backend="eager")
    assert doubled(torch.ones(1)).item() == 2
assert NAME + ".eval_frame" in sys.modules, "the real one was asked for"
optimizer = torch.optim.Adam(module.parameters(), lr=0.1)
optimizer.step()
print("done")
"""


def test_optimizers_do_without_the_compiler_until_somebody_wants_it() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120)
    assert done.stdout == "done\n", done.stderr
