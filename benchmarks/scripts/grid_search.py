"""Grid searches of scikit-learn on the digits data with 2 jobs. Arguments: BACKEND[,BACKEND] svc|forest FITS.

With several backends they take turns, in this one process. Prints the seconds of each fit and the scores, as JSON.
"""

import json
import sys
import time

if "tenfold" in sys.argv[1]:
    import tenfold.joblib  # noqa: F401  # registers its backend

from joblib import parallel_config
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

MODELS = {
    "svc": (SVC(), {"C": [1, 10, 100], "gamma": [1e-4, 1e-3]}),
    "forest": (RandomForestClassifier(random_state=0), {"n_estimators": [20, 40], "max_depth": [6, 12, None]}),
}

names, model, fits = sys.argv[1].split(","), sys.argv[2], int(sys.argv[3])
x, y = load_digits(return_X_y=True)
seconds: dict[str, list[float]] = {name: [] for name in names}
scores: dict[str, list[float]] = {}
for turn in range(fits):
    for name in names if turn % 2 else reversed(names):
        began = time.perf_counter()
        with parallel_config(backend=name, n_jobs=2):
            search = GridSearchCV(*MODELS[model], cv=3).fit(x, y)
        seconds[name].append(time.perf_counter() - began)
        scores[name] = search.cv_results_["mean_test_score"].tolist()
print(json.dumps({"seconds": seconds, "scores": scores}))
