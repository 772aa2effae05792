"""What is asked about groups of Keras models besides parity; each question answers with something for a test to judge.

Called by `keras_parity.py`, in a process that has Keras on JAX.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import keras_case as cases
import numpy
from keras_case import EPOCHS, dense, keras, sequential, softmax
from keras_layers import plain
from keras_parity import here, same, sizes_of_groups, train

from tenfold.errors import BadCall
from tenfold.fuse import chunks, code, fewer, notes, program, together, xla
from tenfold.fuse import keras as workshops
from tenfold.fuse.fit import Fit
from tenfold.fuse.portrait import difference
from tenfold.fuse.stopping import EarlyStopping
from tenfold.fuse.survey import Survey

QUESTIONS: dict[str, Callable[[Path], dict[str, Any]]] = {}
STORED = "stored.pickle"


def question(ask: Callable[[Path], dict[str, Any]]) -> Callable[[Path], dict[str, Any]]:
    QUESTIONS[ask.__name__] = ask
    return ask


def normalised(lr: float, rate: float = 0.2) -> Any:
    """Something of everything that a backend could get wrong: state, randomness, whole numbers, loops."""
    own = (
        keras.layers.Embedding(12, 4),
        keras.layers.SimpleRNN(4, return_sequences=True),
        keras.layers.Conv1D(4, 2, use_bias=False),
        keras.layers.BatchNormalization(),
        keras.layers.Dropout(rate),
        keras.layers.Flatten(),
    )
    return sequential(*own, softmax(), lr=lr, shape=(5,))


def simple(lr: float, rate: float = 0.2) -> Any:
    own = dense(5, "relu", use_bias=False), keras.layers.BatchNormalization(), keras.layers.Dropout(rate)
    return sequential(*own, softmax(), lr=lr)


# -- neighbours -------------------------------------------------------------------------------------------------------


@question
def neighbours_of_nan(folder: Path) -> dict[str, Any]:
    """Groups in which the model in the middle is broken, and one in which it is not."""
    return _neighbours(folder, [0.2, 0.2, 0.2])


@question
def neighbours_of_nan_with_other_numbers(folder: Path) -> dict[str, Any]:
    return _neighbours(folder, [0.1, 0.2, 0.3])


def _neighbours(folder: Path, rates: list[float]) -> dict[str, Any]:
    fit = Fit(simple, cases.table(), epochs=EPOCHS, batch_size=16, how="fused")
    groups = {}
    for lr in (0.01, float("nan"), float("inf")):
        items = [
            {"seed": n, "lr": own, "rate": rate}
            for n, (own, rate) in enumerate(zip((0.02, lr, 0.03), rates, strict=True))
        ]
        groups[str(lr)] = train(fit, items, folder / str(lr))
    sound, *broken = groups.values()
    return {
        "broken": [str(group[1].history["loss"][-1]) for group in broken],
        "same": [same(sound[place], group[place]) for group in broken for place in (0, 2)],
    }


# -- chunks -----------------------------------------------------------------------------------------------------------


@question
def compacted(folder: Path) -> dict[str, Any]:
    """How many models were trained in each epoch, and by programs for how many: for the same bits, and for time."""
    epochs: list[list[Any]] = []
    train_one, call = xla.Stack.train, code.Code.call

    def counted(self: Any, *arguments: Any) -> None:
        epochs.append([len(self), []])
        train_one(self, *arguments)

    def called(self: Any, name: str, *arguments: Any, **settings: Any) -> Any:
        if name == "advance":
            epochs[-1][1].append(arguments[2].shape[1])
        return call(self, name, *arguments, **settings)

    items = [{"seed": n, "lr": lr} for n, lr in enumerate((3.0, 0.001, 5.0, 4.0, 0.002))]
    answers = {}
    with (
        mock.patch.object(xla.Stack, "seconds_a_step", return_value=1.0),
        mock.patch.object(xla.Stack, "train", counted),
        mock.patch.object(code.Code, "call", called),
    ):
        for name, how, size, worth in (
            ("fused", "fused", 2, 0.0),
            ("filled", "auto", 5, 1e9),
            ("auto", "auto", 5, 0.0),
        ):
            epochs.clear()
            options = {"how": how, "callbacks": [EarlyStopping("loss", patience=0)], "outputs": True}
            fit = Fit(plain, cases.whole(cases.table)(), epochs=6, batch_size=16, validation=0.25, **options)
            with sizes_of_groups(size), mock.patch.object(fewer, "WORTH", worth):
                found = train(fit, items, folder / name)
            answers[name] = {"epochs": list(epochs), "trained": [one.epochs for one in found]}
            answers[name]["weights"] = [[array.tolist() for array in (*one.weights, one.outputs)] for one in found]
    return answers


@question
def little_memory(folder: Path) -> dict[str, Any]:
    """Five models where there is room for two and a half, and where there is more."""
    fit = Fit(plain, cases.whole(cases.table)(), epochs=2, batch_size=16, how="fused")
    items = [{"seed": n, "lr": 0.01} for n in range(5)]
    workshop, models = together.build_all(fit, [fit.member(items[0], here(0, folder))], {}, folder)
    room = 2.5 * workshop.nbytes(models[0])
    with mock.patch.object(chunks, "room", return_value=room):
        little = train(fit, items, folder / "little")
    much = train(fit, items, folder / "much")
    pairs = [zip(one.weights, other.weights, strict=True) for one, other in zip(much, little, strict=True)]
    far = max(float(abs(a - b).max()) for pair in pairs for a, b in pair)
    return {"little": [one.how for one in little], "much": [one.how for one in much], "apart": far}


# -- what is known of programs ----------------------------------------------------------------------------------------


@question
def noted(folder: Path) -> dict[str, Any]:
    """How often steps are traced by a worker, and by the next one; and what is noted of a model with own code."""

    def activation(x: Any) -> Any:
        return keras.ops.softmax(x)

    def own(lr: float) -> Any:
        return sequential(dense(3, activation), lr=lr)

    found: dict[str, Any] = {}
    for name, build in (("keras", plain), ("own", own)):
        cache = folder / name
        for worker in ("first", "second"):
            with (
                mock.patch.dict(workshops._drawings, clear=True),
                mock.patch.object(program, "trace", side_effect=program.trace) as trace,
            ):
                fit = Fit(build, cases.table(), epochs=1, batch_size=16)
                members = [fit.member({"seed": n, "lr": 0.01}, here(n, folder)) for n in range(3)]
                workshop, models = together.build_all(fit, members, {}, cache)
                assert workshop is not None
                found[f"{name}, {worker}"] = [trace.call_count, len(workshop.same(list(models.values())))]
        found[f"{name}, files"] = len(list((cache / "compiled" / "traced").glob("*")))
    return found


@question
def notebooks(folder: Path) -> dict[str, Any]:
    """What is read of notes: those of a model, of another one, of another reading, and of a damaged file."""
    written = {("train", 16): notes.Note(b"key", (numpy.float32(0.5), numpy.arange(3)))}
    long = {("train", 16): notes.Note(b"key", (numpy.zeros(notes.LARGEST, numpy.int8), 1))}
    notes.Notebook(folder).write(long, "of data")
    notes.Notebook(folder).write(written, "a model")
    found = {one: repr(notes.Notebook(folder).read(one)) for one in ("of data", "a model", "another")}
    with mock.patch.object(program, "READING", "another"):
        found["another reading"] = repr(notes.Notebook(folder).read("a model"))
    (path,) = (path for path in folder.rglob("*") if path.is_file())
    path.write_bytes(path.read_bytes()[:9])
    damaged = repr(notes.Notebook(folder).read("a model"))
    return {"found": found, "damaged": damaged, "written": repr(written)}


@question
def unknown_option(folder: Path) -> dict[str, Any]:
    """What becomes of a compiler that does not know an option of older code."""
    import jax

    older = {"xla_cpu_is_not_an_option": True}
    lowered = jax.jit(lambda x: x + 1).lower(1.0)
    with mock.patch.object(code, "OLDER", older):
        found = float(code.compiled(lowered, {code.LEVEL: 1, **older})(1.0))
    try:
        lowered.compile(older)
    except Exception as error:
        return {"found": found, "refused": str(error)}
    return {"found": found, "refused": ""}


# -- what cannot be one program ---------------------------------------------------------------------------------------


def _with_own_step(name: str) -> Callable[..., Any]:
    def build(lr: float) -> Any:
        def step(self: Any, *arguments: Any) -> Any:
            return getattr(super(Own, self), name)(*arguments)

        Own = type("Own", (keras.Sequential,), {name: step})  # noqa: N806
        model = Own([keras.Input((6,)), softmax()])
        model.compile(keras.optimizers.Adam(lr), "sparse_categorical_crossentropy")
        return model

    return build


def eager(lr: float) -> Any:
    model = sequential(softmax(), lr=lr)
    model.compile(keras.optimizers.Adam(lr), model.loss, run_eagerly=True)
    return model


def averaged(lr: float) -> Any:
    return sequential(softmax(), optimizer=keras.optimizers.Adam(lr, use_ema=True))


def double(lr: float) -> Any:
    return sequential(dense(dtype="float64"), softmax(), lr=lr)


def assigning(lr: float) -> Any:
    return sequential(keras.layers.SpectralNormalization(dense()), softmax(), lr=lr)


@question
def declined(folder: Path) -> dict[str, Any]:
    """What becomes of models that cannot be trained together."""
    found = {}
    callbacks = {"callback": [keras.callbacks.TerminateOnNaN()]}
    builds = {
        "train_step": _with_own_step("train_step"),
        "test_step": _with_own_step("test_step"),
        "run_eagerly": eager,
        "use_ema": averaged,
        "callback": plain,
        "float64": double,
        "assigned": assigning,
        "int64": plain,
    }
    data = {"int64": (numpy.full((cases.ROWS, 6), 1 << 31), cases.table()[1])}
    for name, build in builds.items():
        fit = Fit(build, data.get(name, cases.table()), epochs=1, callbacks=callbacks.get(name, ()))
        (folder / name).mkdir()
        found[name] = [f"{type(one).__name__}: {one}" for one in train(fit, cases.items(), folder / name)]
    return found


@question
def declined_among_others(folder: Path) -> dict[str, Any]:
    """One model is declined and one cannot be built; the others are trained."""

    def build(lr: float, kind: str) -> Any:
        if kind == "broken":
            raise OSError("no weights.h5 here")
        return averaged(lr) if kind == "averaged" else plain(lr)

    fit = Fit(build, cases.table(), epochs=1)
    items = [{"seed": n, "lr": 0.01, "kind": kind} for n, kind in enumerate(("", "averaged", "broken", ""))]
    return {"found": [f"{type(one).__name__}: {one}" for one in train(fit, items, folder)]}


@question
def untraceable(folder: Path) -> dict[str, Any]:
    """Steps that cannot be traced, between two that can."""

    class Warm(keras.optimizers.schedules.LearningRateSchedule):  # type: ignore[misc]
        def __call__(self, step: Any) -> float:
            return 0.1 if step < 3 else 0.2

    class Bounded(keras.constraints.Constraint):  # type: ignore[misc]
        def __call__(self, weight: Any) -> Any:
            return numpy.minimum(numpy.asarray(weight), 1)

    def build(lr: float, kind: str) -> Any:
        constraint = Bounded() if kind == "constraint" else None
        own = dense(3, "softmax", kernel_constraint=constraint)
        return sequential(own, lr=Warm() if kind == "schedule" else lr)

    fit = Fit(build, cases.table(), epochs=1)
    items = [{"seed": n, "lr": 0.01, "kind": kind} for n, kind in enumerate(("", "schedule", "constraint", ""))]
    tasks = [(here(n, folder), params) for n, params in enumerate(items)]
    trained = [f"{type(one).__name__}: {one}" for one in train(fit, items, folder)]
    return {"trained": trained, "explained": [finding.how for finding in Survey(fit).together(tasks)]}


@question
def refused(folder: Path) -> dict[str, Any]:
    """Models that would be trained, and be wrong: labels without an output, and weights of another model."""
    backbone = dense()
    frozen = dense(trainable=False)

    def shared(lr: float, own: bool) -> Any:
        return sequential(frozen if own else backbone, softmax(), lr=lr)

    def few(lr: float, own: bool) -> Any:
        return sequential(dense(2, "softmax"), lr=lr)

    x, y = cases.table()
    found = {}
    for name, build, own, labels in (
        ("labels", few, True, y),
        ("negative labels", few, True, -(y > 1).astype(int)),
        ("rows", few, True, y),
        ("shared", shared, False, y),
        ("frozen", shared, True, y),
    ):
        fit = Fit(build, (x, labels), epochs=1)
        rows = {"rows": numpy.flatnonzero(y < 2)} if name == "rows" else {}
        items = [{"seed": n, "lr": 0.01, "own": own, **rows} for n in range(2)]
        found[name] = [f"{type(one).__name__}: {one}" for one in train(fit, items, folder / name)]
    watched = Fit(shared, (x, y), epochs=1, callbacks=[EarlyStopping("accuracy")])
    found["watched"] = [str(one) for one in train(watched, [{"lr": 0.01, "own": True}], folder / "watched")]
    alone = Fit(shared, (x, y), epochs=1)
    backbone = dense()
    alone({"seed": 0, "lr": 0.01, "own": False})
    alone({"seed": 0, "lr": 0.01, "own": False})
    try:
        alone({"seed": 1, "lr": 0.01, "own": False})
    except BadCall as error:
        found["alone"] = [str(error)]
    return found


@question
def settings_of_build(folder: Path) -> dict[str, Any]:
    """What a model sets in all of Keras, and what the next one finds."""

    def build(lr: float, half: bool) -> Any:
        if half:
            keras.config.set_dtype_policy("mixed_bfloat16")
            keras.config.set_image_data_format("channels_first")
        policies.append((keras.config.dtype_policy().name, keras.config.image_data_format()))
        return sequential(dense(), dense(3, "softmax", dtype="float32"), lr=lr)

    policies: list[tuple[str, str]] = []
    items = [{"seed": 0, "lr": 0.01, "half": half} for half in (False, True, False)]
    trained = train(Fit(build, cases.table(), epochs=1), items, folder)
    return {"policies": policies, "same": same(trained[0], trained[2])}


@question
def widths(folder: Path) -> dict[str, Any]:
    """Models of two widths, and what is said about them."""

    def build(lr: float, units: int) -> Any:
        return sequential(dense(units), softmax(), lr=lr)

    fit = Fit(build, cases.table(), epochs=1, batch_size=16, how="fused")
    items = cases.items(units=(4, 7, 4))
    with sizes_of_groups(None) as sizes:
        trained = train(fit, items, folder)
    members = [fit.member(params, here(n, folder)) for n, params in enumerate(items)]
    workshop, models = together.build_all(fit, members, {}, folder)
    portraits = [workshop.portrait(models[place]) for place in (0, 1)]
    shapes = [[list(array.shape) for array in result.weights] for result in trained]
    return {"sizes": sizes, "difference": difference(*portraits), "shapes": shapes}


# -- other backends ---------------------------------------------------------------------------------------------------


@question
def stored(folder: Path) -> dict[str, Any]:
    """Leaves results, and what their models say here, for processes with other backends."""
    x, y = cases.words()
    fit = Fit(normalised, (x, y), epochs=2, batch_size=16, how="fused")
    results = [fit.received(result) for result in train(fit, cases.items(rate=(0.1, 0.2, 0.3)), folder)]
    outputs = [result.model().predict(x, verbose=0) for result in results]
    (folder.parent / STORED).write_bytes(pickle.dumps((results, outputs)))
    return {"how": results[0].how}


def reopened(path: Path) -> dict[str, Any]:
    """In another backend: whether weights are the same, and how far outputs are from what they were."""
    results, outputs = pickle.loads(path.read_bytes())
    x, _ = cases.words()
    models = [result.model(normalised) for result in results]
    pairs = [zip(m.get_weights(), r.weights, strict=True) for m, r in zip(models, results, strict=True)]
    return {
        "backend": keras.backend.backend(),
        "same": [all(a.dtype == b.dtype and (a == b).all() for a, b in pair) for pair in pairs],
        "apart": [float(abs(m.predict(x, verbose=0) - o).max()) for m, o in zip(models, outputs, strict=True)],
    }
