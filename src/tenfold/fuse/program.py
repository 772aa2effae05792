"""Whether two models are the same program, told from the program itself, and the same program with other numbers.

A traced training step is a list of operations (a jaxpr). Two models may be trained as one when theirs are equal but for
numbers: a dropout rate, a momentum, a weight decay stand in it as literals. Those become inputs, one value for each
model. Nothing is assumed about layers or optimizers: whatever Python did with a parameter before the trace shows.

Literals inside of loops and branches stay where they are: models that differ there are different programs.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy

READING = 1  # of programs: one more when keys or numbers come out otherwise, so that older notes are not taken
_INLINED = ("jit", "pjit")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class Program:
    """A traced function."""

    key: bytes
    """Equal for equal programs."""
    numbers: tuple[Any, ...]
    """The literals and constants in it that may differ between models of one program."""
    closed: Any
    """The jaxpr."""
    out_tree: Any
    """How its results are nested."""
    operations: frozenset[str]
    """Names of the operations in it."""
    nbytes: int
    """Bytes of everything that it computes: more than it ever holds at once."""


def trace(function: Callable[..., Any], *arguments: Any) -> Program:
    """What `function` does with arguments of these shapes."""
    import jax

    closed, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
    reader = _Reader()
    reader.read(closed.jaxpr, liftable=True)
    numbers = [*reader.numbers, *(numpy.asarray(value) for value in closed.consts)]
    for value in closed.consts:
        reader.say(f"const {numpy.shape(value)} {numpy.asarray(value).dtype}")
    out_tree = jax.tree.structure(shapes)
    reader.say(str(out_tree))
    return Program(reader.digest(), tuple(numbers), closed, out_tree, frozenset(reader.operations), reader.nbytes)


def replay(program: Program) -> Callable[..., Any]:
    """The function again, with its numbers as the first argument."""
    import jax

    def function(numbers: Any, *arguments: Any) -> Any:
        jaxpr = program.closed.jaxpr
        literals = iter(numbers)
        flat = jax.tree.leaves(arguments)
        held = len(numbers) - len(jaxpr.constvars)
        out = _evaluate(jaxpr, list(numbers[held:]), flat, literals)
        return jax.tree.unflatten(program.out_tree, out)

    return function


class _Reader:
    """Writes a jaxpr down in one way only, leaving out the numbers that may differ."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self.numbers: list[Any] = []
        self.operations: set[str] = set()
        self.nbytes = 0

    def say(self, text: str) -> None:
        self._hash.update(text.encode())
        self._hash.update(b"\n")

    def digest(self) -> bytes:
        return self._hash.digest()

    def read(self, jaxpr: Any, *, liftable: bool) -> None:
        names: dict[Any, int] = {}

        def name(variable: Any) -> str:
            return f"{names.setdefault(variable, len(names))}:{variable.aval.str_short()}"

        def atom(value: Any) -> str:
            if not _is_literal(value):
                return name(value)
            if liftable and _may_differ(value):
                self.numbers.append(numpy.asarray(value.val, value.aval.dtype))
                return f"number {value.aval.str_short()}"
            return f"{value.val!r} {value.aval.str_short()}"

        self.say(" ".join(map(name, (*jaxpr.constvars, *jaxpr.invars))))
        for equation in jaxpr.eqns:
            operation = equation.primitive.name
            self.operations.add(operation)
            self.nbytes += sum(_nbytes(variable.aval) for variable in equation.outvars)
            self.say(f"{operation} {' '.join(map(atom, equation.invars))} -> {' '.join(map(name, equation.outvars))}")
            for key in sorted(equation.params):
                self._read_param(key, equation.params[key], liftable=liftable and operation in _INLINED)
        self.say(" ".join(map(atom, jaxpr.outvars)))

    def _read_param(self, key: str, value: Any, *, liftable: bool) -> None:
        self.say(key)
        for inner in value if isinstance(value, list | tuple) else (value,):
            if hasattr(inner, "eqns"):  # a jaxpr, or a closed one with constants
                for constant in getattr(inner, "consts", ()):
                    self.say(f"{numpy.asarray(constant).tobytes().hex()}")
                self.read(getattr(inner, "jaxpr", inner), liftable=liftable and not getattr(inner, "consts", ()))
            elif callable(inner):
                self.say(getattr(inner, "__qualname__", type(inner).__qualname__))
            else:
                self.say(_ADDRESS.sub("", repr(inner)))


def _nbytes(aval: Any) -> int:
    return int(numpy.prod(getattr(aval, "shape", ()), dtype=numpy.int64)) * getattr(
        getattr(aval, "dtype", None), "itemsize", 0
    )


def _is_literal(value: Any) -> bool:
    return hasattr(value, "val")


def _may_differ(literal: Any) -> bool:
    return literal.aval.shape == () and numpy.issubdtype(literal.aval.dtype, numpy.floating)


def _evaluate(jaxpr: Any, consts: list[Any], arguments: list[Any], numbers: Iterator[Any]) -> list[Any]:
    """Run the operations, taking the next of `numbers` for each literal that may differ, in the order of `_Reader`."""
    held: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *arguments), strict=True))

    def atom(value: Any) -> Any:
        if not _is_literal(value):
            return held[value]
        return next(numbers) if _may_differ(value) else value.val

    for equation in jaxpr.eqns:
        inputs = [atom(value) for value in equation.invars]
        inner = equation.params.get("jaxpr")
        if equation.primitive.name in _INLINED and inner is not None and not getattr(inner, "consts", ()):
            outputs = _evaluate(getattr(inner, "jaxpr", inner), [], inputs, numbers)
        else:
            found = equation.primitive.get_bind_params(equation.params)
            functions, params = found if isinstance(found, tuple) else ((), found)  # JAX before 0.10 gives both
            outputs = equation.primitive.bind(*functions, *inputs, **params)
            outputs = outputs if equation.primitive.multiple_results else [outputs]
        held.update(zip(equation.outvars, outputs, strict=True))
    return [atom(value) for value in jaxpr.outvars]
