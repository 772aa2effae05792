"""Calls the user's `build`: seeded, with what it takes of the parameters, and looked at before it is used."""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy

from tenfold import frameworks
from tenfold.errors import BadCall
from tenfold.frameworks.jax import quick_compilations
from tenfold.fuse.columns import check_rows
from tenfold.fuse.stopping import EarlyStopping
from tenfold.work import seeds
from tenfold.work.leg import Halted, Leg, Why

Report = Callable[[int, dict[str, float]], None]
"""Takes the number of an epoch, and its logs."""
RESERVED = ("seed", "rows", "validation_rows", "output_rows")
"""Parameters that tenfold understands itself. `build` gets the seed where it takes one, the others never."""


@dataclass(frozen=True, slots=True)
class Member:
    """One model of a group: what distinguishes it from its neighbours."""

    params: dict[str, Any]
    """As the caller gave them, with the seed."""
    rows: numpy.ndarray | None
    """The rows that it is trained on; None for all."""
    validation_rows: numpy.ndarray | None
    """The rows that it is validated on; None for the same as everybody."""
    output_rows: numpy.ndarray | None
    """The rows whose outputs its result has; None for those that it is validated on."""
    report: Report
    """Told after each epoch: its number and logs."""
    index: int
    """Its place among the items."""
    leg: Leg | None = None
    """Of a study: the part of its training that is to be done."""

    def tell(self, epoch: int, logs: dict[str, float]) -> Why | None:
        """Report an epoch. In a study, that may end it: then why."""
        try:
            self.report(epoch, logs)
        except Halted as halted:
            return halted.why
        return None

    def until(self, epochs: int) -> int:
        """The epoch before which it stops, of so many in all."""
        stop = None if self.leg is None else self.leg.stop
        return epochs if stop is None else min(stop, epochs)

    @property
    def seed(self) -> int:
        return int(self.params["seed"])


def member(item: Any, index: int, seed: int, count: int, report: Report) -> Member:
    """Check one parameter set, or a leg with one; `seed` is for one that has none."""
    leg = item if isinstance(item, Leg) else None
    params = item if leg is None else leg.params
    if not isinstance(params, Mapping) or not all(isinstance(name, str) for name in params):
        raise BadCall(f"a Fit is mapped over dicts of parameters, such as dict(lr=1e-3, seed=0); found {params!r}")
    given = {"seed": seed, **params}
    if (
        isinstance(given["seed"], bool)
        or not isinstance(given["seed"], int | numpy.integer)
        or not 0 <= given["seed"] < 2**32
    ):
        raise BadCall(f"seed={given['seed']!r}: expected a whole number from 0 to 2**32 - 1")
    rows, validation_rows, output_rows = (
        None if given.get(name) is None else check_rows(given[name], name, count) for name in RESERVED[1:]
    )
    return Member(given, rows, validation_rows, output_rows, report, index, leg)


def same_params(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two parameter sets are equal; rows are arrays, which have no single answer."""
    return one.keys() == other.keys() and all(equal(one[name], other[name]) for name in one)


def equal(one: Any, other: Any) -> bool:
    """Whether two values of a parameter are."""
    if isinstance(one, numpy.ndarray) or isinstance(other, numpy.ndarray):
        return numpy.array_equal(one, other)
    with contextlib.suppress(Exception):  # a comparison that makes no single answer: then they count as different
        return bool(one == other)
    return False


def construct(build: Callable[..., Any], params: Mapping[str, Any]) -> Any:
    """Call `build` as on a fresh process that was seeded with the parameters' seed."""
    before = frameworks.imported()
    built = _construct(build, params)
    if frameworks.imported() == before:
        return built
    return _construct(build, params)  # it has imported its framework itself, which was not seeded then


def _construct(build: Callable[..., Any], params: Mapping[str, Any]) -> Any:
    seeds.plant(int(params["seed"]))
    if "keras" in sys.modules:
        from keras.src.utils.naming import reset_uids

        reset_uids()  # names as in a fresh process, so that equal models have equal names
    with quick_compilations(), _settings_of_its_own():
        taken = {name: value for name, value in params.items() if name not in RESERVED or name in _takes(build)}
        return build(**_copied(taken))


def _copied(value: Any) -> Any:
    """With lists and dicts of its own: one that `build` empties is needed once more, to build the model again."""
    if type(value) is dict:
        return {name: _copied(one) for name, one in value.items()}
    return [_copied(one) for one in value] if type(value) is list else value


@contextlib.contextmanager
def _settings_of_its_own() -> Iterator[None]:
    """What `build` sets in all of Keras, such as a dtype policy, is for its own model."""
    keras = sys.modules.get("keras")
    if keras is None:
        yield
        return
    from keras.src.backend.common import global_state

    floatx, image_format = keras.config.floatx(), keras.config.image_data_format()
    policy = global_state.get_global_attribute("dtype_policy")  # None as long as nobody has asked for it
    try:
        yield
    finally:
        keras.config.set_floatx(floatx)
        keras.config.set_image_data_format(image_format)
        global_state.set_global_attribute("dtype_policy", policy)


def _takes(build: Callable[..., Any]) -> tuple[str, ...]:
    try:
        parameters = inspect.signature(build).parameters
    except (TypeError, ValueError):
        return ()
    return tuple(name for name in parameters if name == "seed")


def check_takes(build: Callable[..., Any], params: Mapping[str, Any]) -> str | None:
    """What is wrong with these parameters for this function, in words; None where nothing is."""
    try:
        signature = inspect.signature(build)
    except (TypeError, ValueError):
        return None
    given = {name: value for name, value in params.items() if name not in RESERVED or name in _takes(build)}
    try:
        signature.bind(**given)
    except TypeError as error:
        name = getattr(build, "__qualname__", None) or getattr(build, "__name__", type(build).__name__)
        return f"{name}{signature}: {error}"
    return None


def kind_of(built: Any) -> str:
    """ "keras" or "torch", by what `build` has returned."""
    roots = {base.__module__.partition(".")[0] for base in type(built).__mro__}
    if "keras" in roots and hasattr(built, "compiled"):
        if not built.compiled:
            raise BadCall(
                "build returned a Keras model that is not compiled; end it with model.compile(optimizer, loss)"
            )
        return "keras"
    if isinstance(built, tuple) and len(built) in (3, 4) and hasattr(built[0], "state_dict") and callable(built[1]):
        return "torch"
    raise BadCall(
        f"build returned {type(built).__name__}: expected a compiled Keras 3 model, "
        "or (module, loss, optimizer) for PyTorch, with a learning-rate scheduler as the fourth where there is one"
    )


def add_metrics(model: Any, metrics: Sequence[Any]) -> None:
    """Compile the model again, with metrics besides its own."""
    settings = dict(model._compile_config.config) if model._compile_config is not None else {}
    if isinstance(settings.get("metrics"), dict) or any(isinstance(one, list) for one in settings.get("metrics") or ()):
        raise BadCall("metrics=: this model has metrics by output; add to those of its compile()")
    settings |= {"optimizer": model.optimizer, "loss": model.loss}
    model.compile(**settings | {"metrics": [*(settings.get("metrics") or ()), *metrics]})


def watching(rule: EarlyStopping, names: Sequence[str]) -> EarlyStopping:
    """The rule, where a model has a loss or metric of the name that it watches."""
    if rule.monitor.removeprefix("val_") not in names:
        raise BadCall(
            f"EarlyStopping(monitor={rule.monitor!r}): models have {', '.join(names)}, and with val_ before it"
        )
    return rule


def directed(rule: EarlyStopping, model: Any) -> EarlyStopping:
    """The rule, with the direction of the model's own metric, as in Keras; by the name where it has none."""
    metrics = [metric for group in model.metrics for metric in getattr(group, "metrics", [group])]
    known = {metric.name: getattr(metric, "_direction", None) for metric in metrics}
    found = known.get(rule.monitor.removeprefix("val_"))
    if rule.mode != "auto" or found is None:
        return rule
    return replace(rule, mode="max" if found == "up" else "min")
