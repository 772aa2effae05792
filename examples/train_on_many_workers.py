"""One model on several workers: the same weights for any number of them, and no update lost without waiting."""

import numpy
import tenfold
from sklearn.datasets import load_digits

images, labels = load_digits(return_X_y=True)
images = (images / 16).astype("float32")


def build(width=64, lr=0.002):
    import torch

    module = torch.nn.Sequential(torch.nn.Linear(64, width), torch.nn.ReLU(), torch.nn.Linear(width, 10))
    return module, torch.nn.CrossEntropyLoss(), torch.optim.Adam(module.parameters(), lr)


fit = tenfold.Fit(build, (images, labels), epochs=8, batch_size=64, validation=0.2, metrics=["accuracy"])

if __name__ == "__main__":
    one = tenfold.train(fit, {"seed": 0}, workers=1, progress=False)  # with all cores
    two = tenfold.train(fit, {"seed": 0}, workers=2, progress=False)  # every batch divided between two
    for epoch, (first, second) in enumerate(zip(one.history["loss"], two.history["loss"], strict=True)):
        print(f"epoch {epoch}: loss {first:.6f} with one worker, {second:.6f} with two")
    furthest = max(float(numpy.abs(one.weights[name] - two.weights[name]).max()) for name in one.weights)
    print(f"largest difference of a weight: {furthest:.1e}")
    assert furthest < 1e-4

    free = tenfold.train(fit, {"seed": 0}, workers=2, how="asynchronous", progress=False)
    print(f"asynchronous: {free.updates} updates, validation accuracy {free.history['val_accuracy'][-1]:.3f}")
    print(f"synchronous: {two.updates} updates, validation accuracy {two.history['val_accuracy'][-1]:.3f}")
    print(tenfold.evaluate(two, (images, labels), ["accuracy"], progress=False))
