"""A grid search over a small Keras classifier: `keras_grid.py CONTESTANT RATES EPOCHS FILE`. Prints the best score.

The model and the search of the question "How can TensorFlow training be parallelized using joblib and Dask?":
64-128-10, learning rates x 3 folds, on the digits. Contestants: tenfold (its own estimator and search), scikeras
(scikit-learn's GridSearchCV, n_jobs=-1).
"""

import sys

import numpy

CONTESTANT, RATES, EPOCHS, FILE = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
FOLDS, BATCH = 3, 32

if CONTESTANT == "tenfold":
    import tenfold

    tenfold.warm("fuse")


def build(lr=1e-3):
    import keras

    layers = [keras.layers.Dense(128, activation="relu"), keras.layers.Dense(10, activation="softmax")]
    model = keras.Sequential([keras.Input((64,)), *layers])
    model.compile(keras.optimizers.Adam(lr), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def search():
    rates = numpy.geomspace(1e-4, 1e-2, RATES).tolist()
    if CONTESTANT == "tenfold":
        from tenfold.sklearn import GridSearch, KerasClassifier

        estimator = KerasClassifier(build, epochs=EPOCHS, batch_size=BATCH, random_state=0)
        return GridSearch(estimator, {"lr": rates}, cv=FOLDS, progress=False)
    from scikeras.wrappers import KerasClassifier
    from sklearn.model_selection import GridSearchCV

    estimator = KerasClassifier(build, epochs=EPOCHS, batch_size=BATCH, random_state=0, verbose=0)
    return GridSearchCV(estimator, {"model__lr": rates}, cv=FOLDS, n_jobs=-1)


if __name__ == "__main__":
    with numpy.load(FILE) as held:
        found = search().fit(held["x"], held["y"])
    print("score", found.best_score_)
