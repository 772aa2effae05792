"""64 trials of a small Keras model by successive halving: `halving.py CONTESTANT TRIALS EPOCHS FILE FOLDER SEED`.

Contestants: tenfold, optuna (4 processes), kerastuner (Hyperband), raytune (ASHA), sklearn (HalvingGridSearchCV over
scikeras). Everybody tries the same grid of learning rates and dropouts, in the same order, which SEED decides (but for
kerastuner and optuna, which draw from it), with the same model on the same rows, in 2 workers at a time (optuna 4),
with a factor of 3. What is seen of a trial on the held-out rows, and of those alone, is noted in FOLDER with its time:
after every epoch, or where its tool looks only when a fit is over (sklearn), after every fit.
"""

import json
import os
import sys
import time

import numpy

CONTESTANT, TRIALS, EPOCHS, FILE, FOLDER = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
SEED = int(sys.argv[6])
BATCH = 32
HELD_OUT = 360  # the last rows
LOW, HIGH = 1e-4, 1e-1

if CONTESTANT == "tenfold":
    import tenfold

    tenfold.warm("fuse")
elif CONTESTANT != "optuna":
    import keras  # noqa: F401


def digits():
    with numpy.load(FILE) as held:
        return held["x"], held["y"]


def grid():
    """What is tried: values of each, in an order that says nothing."""
    side = round(TRIALS**0.5)
    order = numpy.random.default_rng(SEED).permutation
    rates, dropouts = numpy.geomspace(LOW, HIGH, side), numpy.linspace(0.1, 0.45, side)
    return {"lr": order(rates).tolist(), "dropout": order(dropouts).tolist()}


def points():
    return [{"lr": lr, "dropout": dropout} for lr in grid()["lr"] for dropout in grid()["dropout"]]


def build(lr=1e-3, dropout=0.0):
    import keras

    layers = keras.layers
    own = [layers.Dense(128, activation="relu"), layers.Dropout(dropout), layers.Dense(10, activation="softmax")]
    model = keras.Sequential([keras.Input((64,)), *own])
    model.compile(keras.optimizers.Adam(lr), "sparse_categorical_crossentropy")
    return model


def note(loss):
    with open(os.path.join(FOLDER, f"{os.getpid()}.jsonl"), "a") as file:
        file.write(json.dumps([time.time(), float(loss)]) + "\n")


def noting():
    import keras

    return keras.callbacks.LambdaCallback(on_epoch_end=lambda _, logs: note(logs["val_loss"]))


def run_tenfold():
    fit = tenfold.Fit(build, digits(), epochs=EPOCHS, batch_size=BATCH, validation=HELD_OUT / len(digits()[0]))
    study = tenfold.tune(fit, grid(), trials=TRIALS, sampler="grid", pruner="asha", workers=2, progress=False)
    for report in study.results.reports():
        with open(os.path.join(FOLDER, "tenfold.jsonl"), "a") as file:
            file.write(json.dumps([report.at, report.values["val_loss"]]) + "\n")


# -- Optuna -----------------------------------------------------------------------------------------------------------


def objective(trial):
    import keras
    import optuna

    x, y = digits()
    model = build(trial.suggest_float("lr", LOW, HIGH, log=True), trial.suggest_float("dropout", 0.0, 0.5))
    for epoch in range(EPOCHS):
        held = (x[-HELD_OUT:], y[-HELD_OUT:])
        logs = model.fit(x[:-HELD_OUT], y[:-HELD_OUT], batch_size=BATCH, validation_data=held, verbose=0).history
        note(logs["val_loss"][-1])
        trial.report(logs["val_loss"][-1], epoch + 1)
        if trial.should_prune():
            raise optuna.TrialPruned
    keras.utils.clear_session()
    return logs["val_loss"][-1]


def optuna_process(seed, trials):
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.load_study(
        study_name="halving",
        storage=f"sqlite:///{FOLDER}/optuna.db",
        sampler=optuna.samplers.GridSampler(grid(), seed=seed),
        pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=3),
    )
    study.optimize(objective, n_trials=trials)


def run_optuna():
    import multiprocessing

    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    optuna.create_study(study_name="halving", storage=f"sqlite:///{FOLDER}/optuna.db")
    context = multiprocessing.get_context("spawn")
    many = [context.Process(target=optuna_process, args=(4 * SEED + own, TRIALS // 4)) for own in range(4)]
    for process in many:
        process.start()
    for process in many:
        process.join()
    if any(process.exitcode for process in many):
        sys.exit("a process has failed")


# -- KerasTuner -------------------------------------------------------------------------------------------------------


def run_kerastuner():
    import keras_tuner

    x, y = digits()

    def hypermodel(hp):
        return build(**{name: hp.Choice(name, values) for name, values in grid().items()})

    tuner = keras_tuner.Hyperband(
        hypermodel, objective="val_loss", max_epochs=EPOCHS, factor=3, directory=FOLDER, project_name="kt", seed=SEED
    )
    held = (x[-HELD_OUT:], y[-HELD_OUT:])
    tuner.search(x[:-HELD_OUT], y[:-HELD_OUT], batch_size=BATCH, validation_data=held, verbose=0, callbacks=[noting()])


# -- Ray Tune ---------------------------------------------------------------------------------------------------------


def trainable(config, data=None):
    import keras
    from ray import tune

    x, y = data
    model = build(config["lr"], config["dropout"])

    def told(_, logs):
        note(logs["val_loss"])
        tune.report({"val_loss": float(logs["val_loss"])})

    held = (x[-HELD_OUT:], y[-HELD_OUT:])
    callback = keras.callbacks.LambdaCallback(on_epoch_end=told)
    model.fit(
        x[:-HELD_OUT],
        y[:-HELD_OUT],
        batch_size=BATCH,
        epochs=EPOCHS,
        validation_data=held,
        verbose=0,
        callbacks=[callback],
    )


def run_raytune():
    import ray
    from ray import tune
    from ray.tune.schedulers import ASHAScheduler
    from ray.tune.search.basic_variant import BasicVariantGenerator

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    scheduler = ASHAScheduler(metric="val_loss", mode="min", max_t=EPOCHS, grace_period=1, reduction_factor=3)
    tuner = tune.Tuner(
        tune.with_parameters(trainable, data=digits()),
        param_space={"lr": tune.loguniform(LOW, HIGH), "dropout": tune.uniform(0.0, 0.5)},
        tune_config=tune.TuneConfig(
            num_samples=TRIALS,
            search_alg=BasicVariantGenerator(points_to_evaluate=points()),
            scheduler=scheduler,
            reuse_actors=True,
        ),
        run_config=tune.RunConfig(storage_path=FOLDER, verbose=0),
    )
    tuner.fit()


# -- scikit-learn -----------------------------------------------------------------------------------------------------


def run_sklearn():
    from scikeras.wrappers import KerasClassifier
    from sklearn.experimental import enable_halving_search_cv  # noqa: F401
    from sklearn.model_selection import HalvingGridSearchCV, PredefinedSplit

    x, y = digits()
    held = PredefinedSplit([-1] * (len(x) - HELD_OUT) + [0] * HELD_OUT)
    search = HalvingGridSearchCV(
        KerasClassifier(build, batch_size=BATCH, verbose=0),
        {f"model__{name}": values for name, values in grid().items()},
        resource="epochs",
        min_resources=1,
        max_resources=EPOCHS,
        factor=3,
        cv=held,
        scoring=scored,
        n_jobs=2,
        refit=False,
        return_train_score=False,
    )
    search.fit(x, y)


def scored(estimator, x, y):
    loss = estimator.model_.evaluate(x, y, batch_size=BATCH, verbose=0)
    assert len(x) == HELD_OUT, "a score of training rows is not comparable"
    note(loss)
    return -loss


if __name__ == "__main__":
    {
        "tenfold": run_tenfold,
        "optuna": run_optuna,
        "kerastuner": run_kerastuner,
        "raytune": run_raytune,
        "sklearn": run_sklearn,
    }[CONTESTANT]()
