"""How does training scale with workers and data? A small grid, what takes the time, and what a cluster would do."""

import numpy
import tenfold


def build(lr=0.01):
    import torch

    layers = [torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)]
    module = torch.nn.Sequential(*layers)
    return module, torch.nn.CrossEntropyLoss(), torch.optim.SGD(module.parameters(), lr)


rng = numpy.random.default_rng(0)
x, y = rng.normal(size=(4000, 64)).astype("float32"), rng.integers(0, 10, 4000)
fit = tenfold.Fit(build, (x, y), epochs=2, batch_size=128)
study = tenfold.measure(fit, workers=[1, 2], sizes=[1000, 4000], repeats=2)

for cell in study.cells:
    parts = ", ".join(f"{name} {seconds:.2f}" for name, seconds in cell.parts.items())
    print(f"{cell.setting}: {cell.throughput:,.0f} rows a second; seconds: {parts}")
    assert abs(sum(cell.parts.values()) - cell.seconds) < 1e-6  # no moment of it is unaccounted for
print("\n".join(study.advice))
print(study.project([8, 64, 512], network="25Gbit", latency="5us", parameters=25e6))
print("written:", study.save("scaling.html"))
