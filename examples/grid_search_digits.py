"""A grid search over a Keras classifier of the digits: 4 learning rates x 2 widths x 3 folds, 24 models at once.

What `GridSearchCV(KerasClassifier(...), n_jobs=-1)` is mostly asked for, without TensorFlow in every process.
"""

from tenfold.sklearn import GridSearch, KerasClassifier

from sklearn.datasets import load_digits


def build(n_features, n_classes, learning_rate, width=128):
    import keras

    model = keras.Sequential(
        [
            keras.Input((n_features,)),
            keras.layers.Dense(width, activation="relu"),
            keras.layers.Dense(n_classes, activation="softmax"),
        ]
    )
    model.compile(keras.optimizers.Adam(learning_rate), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


x, y = load_digits(return_X_y=True)
grid = {"learning_rate": [0.0003, 0.001, 0.003, 0.01], "width": [64, 128]}
search = GridSearch(KerasClassifier(build, epochs=10, random_state=0), grid, cv=3, return_train_score=True)
search.fit(x / 16, y)
found = search.cv_results_
for params, test, train in zip(found["params"], found["mean_test_score"], found["mean_train_score"], strict=True):
    print(f"{params}: {test:.3f} on rows that it has not seen, {train:.3f} on others")
print(f"best: {search.best_params_}, {search.best_score_:.3f}")
print(f"trained {search.best_estimator_.epochs} epochs on all rows: {search.score(x / 16, y):.3f}")
assert len(found["params"]) == 8
assert search.best_score_ == max(found["mean_test_score"]) > 0.9
