"""How good is a model on data that it was not made for? Scores on six versions of the digits, in one call.

Scores are exact though every worker sees only a part: what is merged is counts, not means.
"""

import tenfold
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

x, y = load_digits(return_X_y=True)
x = x / 16
model = LogisticRegression(max_iter=500).fit(x[:900], y[:900])

rng = np.random.default_rng(0)
images = x[900:].reshape(-1, 8, 8)
versions = {
    "seen": x[:900].reshape(-1, 8, 8),
    "unseen": images,
    "noisy": images + rng.normal(scale=0.2, size=images.shape),
    "dark": images * 0.5,
    "shifted": np.roll(images, 1, axis=2),
    "mirrored": images[:, :, ::-1],
}
data_sets = {
    name: (version.reshape(-1, 64), y[:900] if name == "seen" else y[900:]) for name, version in versions.items()
}

found = tenfold.evaluate(model, data_sets, ["accuracy", "f1_macro", "log_loss"], by="y", bootstrap=200)

print(f"{'data set':10} {'rows':>5} {'accuracy':>9} {'95 %':>16} {'f1':>7} {'log loss':>9}  worst digit")
for name, scores in found.items():
    low, high = scores.interval("accuracy")
    digit, of_digit = min(scores.groups.items(), key=lambda group: group[1]["accuracy"])
    numbers = f"{scores.rows:5} {scores['accuracy']:9.4f} {f'{low:.4f} to {high:.4f}':>16} {scores['f1_macro']:7.4f}"
    print(f"{name:10} {numbers} {scores['log_loss']:9.4f}  {digit} ({of_digit['accuracy']:.2f})")
assert abs(found["unseen"]["accuracy"] - model.score(x[900:], y[900:])) < 1e-12  # as if it were not in parts

worst = min(found, key=lambda name: found[name]["accuracy"])
print(f"\nwhat it takes for what, where it is worst ({worst}):")
print(tenfold.evaluate(model, data_sets[worst], ["accuracy", "confusion"]))
