"""What may be tried: numbers, choices, branches. `tenfold.tune` takes a dict of these, and checks it as a whole."""

from __future__ import annotations

import itertools
import json
import math
import numbers
from collections.abc import Iterator, Mapping, MappingView, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy

from tenfold.errors import BadCall
from tenfold.work.outcome import shorten

if TYPE_CHECKING:
    import optuna

_PLAIN = (type(None), bool, int, float, str)
"""What Optuna keeps as it is; anything else is known to it by a label."""


@dataclass(frozen=True, slots=True)
class Number:
    """From `low` to `high`, both included."""

    low: float
    """The least."""
    high: float
    """The most."""
    whole: bool = False
    """Without fractions."""
    log: bool = False
    """Each factor of ten as likely as the next."""

    def faults(self, name: str) -> list[str]:
        kind = ("logint" if self.log else "integer") if self.whole else ("loguniform" if self.log else "uniform")
        told = f"{name}: {kind}({self.low!r}, {self.high!r})"
        ends = [v for v in (self.low, self.high) if isinstance(v, numbers.Real) and not isinstance(v, bool)]
        if len(ends) < 2 or not all(map(math.isfinite, ends)):
            return [f"{told}: expected two numbers"]
        found = []
        if self.whole and any(value != int(value) for value in ends):
            found.append(f"{told}: expected whole numbers")
        if not self.low < self.high:
            found.append(f"{told}: the first must be below the second")
        if self.log and self.low <= 0:
            found.append(f"{told}: on a logarithmic scale, expected numbers above 0")
        return found

    def suggest(self, trial: optuna.Trial, name: str) -> Any:
        if self.whole:
            return trial.suggest_int(name, int(self.low), int(self.high), log=self.log)
        return trial.suggest_float(name, float(self.low), float(self.high), log=self.log)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several values; a branch is a value that has parameters of its own."""

    options: tuple[Any, ...]
    """The values."""
    branches: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Further values, by name, each with the space that belongs to it."""

    @property
    def values(self) -> list[Any]:
        return [*self.options, *self.branches]

    def faults(self, name: str) -> list[str]:
        found = [] if self.values else [f"{name}: choice(): expected at least one value"]
        labels = _labels(self.values)
        found += [f"{name}: choice: {label} stands there twice" for label in sorted(_twice(map(repr, labels)))]
        found += _faults_inside(name, self.options)
        for branch, space in self.branches.items():
            if not isinstance(space, Mapping):
                found.append(f"{name}: choice({branch}={space!r}): expected a dict of that branch's own parameters")
            else:
                found += _faults(space, f"{name}={branch}: ")
        return found

    def suggest(self, trial: optuna.Trial, name: str) -> Any:
        labels = _labels(self.values)
        label = trial.suggest_categorical(name, labels)
        return self.values[_index(labels, label)]


@dataclass(frozen=True, slots=True)
class Constant:
    """Always the same."""

    value: Any
    """What it is."""

    def faults(self, name: str) -> list[str]:
        return _faults_inside(name, [self.value])


def uniform(low: float, high: float) -> Number:
    """A number from `low` to `high`."""
    return Number(low, high)


def loguniform(low: float, high: float) -> Number:
    """A number from `low` to `high`, each factor of ten as likely as the next: for learning rates."""
    return Number(low, high, log=True)


def integer(low: int, high: int) -> Number:
    """A whole number from `low` to `high`, both included."""
    return Number(low, high, whole=True)


def logint(low: int, high: int) -> Number:
    """A whole number from `low` to `high` on a logarithmic scale: for widths."""
    return Number(low, high, whole=True, log=True)


def choice(*options: Any, **branches: Mapping[str, Any]) -> Choice:
    """One of the options; in `choice(adam={}, sgd={"momentum": uniform(0, 1)})`, one has a parameter of its own."""
    return Choice(options, branches)


def constant(value: Any) -> Constant:
    """A parameter that every trial has."""
    return Constant(value)


class Space:
    """A checked space."""

    def __init__(self, given: Any) -> None:
        if not isinstance(given, Mapping) or not given:
            raise BadCall(f"space={shorten(given)}: expected a dict such as {{'lr': tenfold.loguniform(1e-4, 1e-1)}}")
        faults = _faults(given, "") or [
            f"{name}: stands there twice, and one trial could have both; give one of them another name"
            for name in sorted(_clashes(given))
        ]
        if faults:
            raise BadCall(f"space: {'; '.join(faults)}")
        self.given = {name: _member(value) for name, value in given.items()}
        self.names = _names(self.given)
        """Of all levels; one that two branches have is there twice."""

    @property
    def is_grid(self) -> bool:
        """Whether it has so few points that they can be counted."""
        return all(not isinstance(member, Number) for member in _members(self.given))

    def suggest(self, trial: optuna.Trial) -> dict[str, Any]:
        """Parameters for a trial of Optuna's."""
        return self._suggest(self.given, trial, "")

    def grid(self) -> list[dict[str, Any]]:
        """Every point, as parameters."""
        return [params for params, _ in _grid(self.given, self._name, "")]

    def labels(self) -> list[dict[str, Any]]:
        """The same points, as Optuna knows them."""
        return [labels for _, labels in _grid(self.given, self._name, "")]

    def known(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """A trial's parameters, as Optuna knows them."""
        return self._known(self.given, params, "")

    def _known(self, members: Mapping[str, Any], params: Mapping[str, Any], where: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, member in members.items():
            value = params[name]
            if not isinstance(member, Constant):
                found[self._name(where, name)] = _labels([value])[0] if isinstance(member, Choice) else value
            found |= self._known(_branch(member, value), params, f"{where}{name}.{value}.")
        return found

    def numbers(self, params: Mapping[str, Any]) -> dict[str, Number]:
        """Those of a trial's parameters that are numbers, and from what they come."""
        return {name: member for name, member in self._chosen(params) if isinstance(member, Number)}

    def choices(self, params: Mapping[str, Any]) -> dict[str, Choice]:
        """Those that are choices without branches."""
        found = [(name, member) for name, member in self._chosen(params) if isinstance(member, Choice)]
        return {name: member for name, member in found if not member.branches}

    def _chosen(self, params: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        levels = [self.given]
        for level in levels:
            for name, member in level.items():
                yield name, member
                levels.append(_branch(member, params[name]))

    def _suggest(self, members: Mapping[str, Any], trial: optuna.Trial, where: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, member in members.items():
            if isinstance(member, Constant):
                found[name] = member.value
                continue
            found[name] = member.suggest(trial, self._name(where, name))
            found |= self._suggest(_branch(member, found[name]), trial, f"{where}{name}.{found[name]}.")
        return found

    def _name(self, where: str, name: str) -> str:
        """What Optuna calls it: by its branch, where two branches have one of the same name."""
        return f"{where}{name}" if self.names.count(name) > 1 else name

    def to_json(self) -> str:
        """To be kept with a run; values that JSON does not know are kept as their labels."""
        return json.dumps(_plain(self.given))

    @classmethod
    def from_json(cls, text: str) -> Space:
        """The same space, in which trials are known to Optuna by the same names and labels."""
        return cls(_members_of(json.loads(text)))

    def __repr__(self) -> str:
        return f"Space({self.given})"


def checked(given: Any, faults: list[str]) -> Space | None:
    """The space, or what is wrong with it among the faults of a call."""
    try:
        return Space(given)
    except BadCall as error:
        faults.append(str(error))
        return None


def _member(value: Any) -> Any:
    if isinstance(value, Number | Choice | Constant):
        return value
    if isinstance(value, numpy.ndarray) and value.ndim == 1:
        value = value.tolist()
    return Choice(tuple(value)) if isinstance(value, list | tuple | range) else Constant(value)


def _branch(member: Any, value: Any) -> dict[str, Any]:
    """The space that belongs to a value that was chosen; mostly empty."""
    if not isinstance(member, Choice) or not isinstance(value, str):
        return {}
    return {name: _member(inner) for name, inner in member.branches.get(value, {}).items()}


def _plain(space: Mapping[str, Any]) -> dict[str, Any]:
    """In a way that JSON can hold."""
    found: dict[str, Any] = {}
    for name, value in space.items():
        member = _member(value)
        if isinstance(member, Number):
            ends = [int(end) if member.whole else float(end) for end in (member.low, member.high)]
            found[name] = {"number": [*ends, member.whole, member.log]}
        elif isinstance(member, Choice):
            branches = {branch: _plain(inner) for branch, inner in member.branches.items()}
            found[name] = {"choice": _labels(member.options), "branches": branches}
        else:
            found[name] = {"constant": _labels([member.value])[0]}
    return found


def _members_of(kept: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, one in kept.items():
        if "number" in one:
            found[name] = Number(*one["number"])
        elif "choice" in one:
            branches = {branch: _members_of(inner) for branch, inner in one["branches"].items()}
            found[name] = Choice(tuple(one["choice"]), branches)
        else:
            found[name] = Constant(one["constant"])
    return found


def _faults(space: Mapping[Any, Any], where: str) -> list[str]:
    found = []
    for name, value in space.items():
        if not isinstance(name, str) or not name:
            found.append(f"{where}{name!r}: expected a name")
        elif _is_distribution(value):
            found.append(f"{where}{name}: {shorten(value)}: expected one of tenfold's, such as tenfold.uniform(0, 1)")
        elif isinstance(value, tuple) and _are_ends(value):
            low, high = value
            found.append(
                f"{where}{name}: {value!r}: expected tenfold.uniform({low!r}, {high!r}) or the like for all between, "
                f"[{low!r}, {high!r}] for one of the two"
            )
        elif isinstance(value, Set | Iterator | MappingView):
            found.append(f"{where}{name}: {shorten(value)}: expected a list, which has an order and can be read again")
        else:
            found += _member(value).faults(f"{where}{name}")
    return found


def _faults_inside(name: str, values: Any) -> list[str]:
    """Nothing is drawn from what is not a parameter itself: it would reach the task as it stands."""
    found = []
    for value in values:
        if isinstance(value, Number | Choice | Constant):
            found.append(f"{name}: {shorten(value)} is within another value; give it a name of its own in the space")
        elif any(value is maker for maker in (uniform, loguniform, integer, logint, choice, constant)):
            found.append(f"{name}: {value.__name__}: expected what it makes, such as tenfold.uniform(0, 1)")
        elif isinstance(value, Mapping | list | tuple):
            found += _faults_inside(name, value.values() if isinstance(value, Mapping) else value)
    return found


def _are_ends(value: tuple[Any, ...]) -> bool:
    """Two numbers, which other libraries take for a range: as a choice, nothing between them would be tried."""
    are_numbers = all(isinstance(one, numbers.Real) and not isinstance(one, bool) for one in value)
    return len(value) == 2 and are_numbers and value[0] < value[1]


def _is_distribution(value: Any) -> bool:
    """Of SciPy's or Optuna's, which would be taken for a value that every trial has."""
    return hasattr(value, "rvs") or any(kind.__module__ == "optuna.distributions" for kind in type(value).__mro__)


def _members(space: Mapping[str, Any]) -> list[Any]:
    """Of all levels."""
    found = [_member(value) for value in space.values()]
    inner = [branch for member in found if isinstance(member, Choice) for branch in member.branches.values()]
    return [*found, *(member for branch in inner for member in _members(branch))]


def _names(space: Mapping[str, Any]) -> list[str]:
    inner = [b for value in space.values() if isinstance(m := _member(value), Choice) for b in m.branches.values()]
    return [*space, *(name for branch in inner for name in _names(branch))]


def _clashes(space: Mapping[str, Any]) -> set[str]:
    """Names that one trial could have twice: at one level and in a branch below it, or in branches of two choices."""
    choices = [list(m.branches.values()) for value in space.values() if isinstance(m := _member(value), Choice)]
    below = [name for own in choices for name in {name for branch in own for name in _names(branch)}]
    inner = [_clashes(branch) for own in choices for branch in own]
    return _twice([*space, *below]).union(*inner)


def _grid(space: Mapping[str, Any], call: Any, where: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """(parameters, labels) of every point."""
    axes: list[list[tuple[dict[str, Any], dict[str, Any]]]] = []
    for name, value in space.items():
        member = _member(value)
        if isinstance(member, Constant):
            axes.append([({name: member.value}, {})])
            continue
        labels, axis = _labels(member.values), []
        for option, label in zip(member.values, labels, strict=True):
            own = ({name: option}, {call(where, name): label})
            inner = _grid(_branch(member, option), call, f"{where}{name}.{option}.")
            axis += [(own[0] | params, own[1] | names) for params, names in inner]
        axes.append(axis)
    return [
        (
            {k: v for params, _ in point for k, v in params.items()},
            {k: v for _, names in point for k, v in names.items()},
        )
        for point in itertools.product(*axes)
    ]


def _labels(values: Sequence[Any]) -> list[Any]:
    return [_label(value) for value in values]


def _label(value: Any) -> Any:
    plain = value.item() if isinstance(value, numpy.generic) else value
    return plain if isinstance(plain, _PLAIN) and plain == plain else shorten(plain, 80)  # a NaN is found by no label


def _index(labels: Sequence[Any], label: Any) -> int:
    """True and 1 are equal, and not the same choice."""
    return next(place for place, one in enumerate(labels) if type(one) is type(label) and one == label)


def _twice(values: Any) -> set[str]:
    found = list(values)
    return {value for value in found if found.count(value) > 1}
