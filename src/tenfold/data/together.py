"""Sources side by side: images and their labels. A sample has one of each, as a tuple or a dict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tenfold.data import stamps
from tenfold.data.source import Part, Rows, Source
from tenfold.errors import BadCall


class Together(Source):
    """Several sources of equal length, read at the same places."""

    def __init__(self, members: tuple[Source, ...] | Mapping[str, Source], name: str = "source") -> None:
        self._members: tuple[Source, ...] | dict[str, Source] = (
            dict(members) if isinstance(members, Mapping) else members
        )
        self._check(name)

    def _check(self, name: str) -> None:
        lengths = {f"[{key!r}]": member.length for key, member in self._named()}
        if not lengths:
            raise BadCall(f"{name}: no arrays in it; expected at least one")
        streams = [key for key, length in lengths.items() if length is None]
        if streams:
            raise BadCall(
                f"{name}{streams[0]}: a stream has no length and cannot be read beside others; "
                "let it give tuples itself, such as zip(x, y)"
            )
        if len(set(lengths.values())) > 1:
            told = ", ".join(f"{name}{key} has {length} samples" for key, length in lengths.items())
            raise BadCall(f"{told}; expected equally many in each")

    def _named(self) -> list[tuple[Any, Source]]:
        return list(self._members.items() if isinstance(self._members, dict) else enumerate(self._members))

    @property
    def length(self) -> int | None:
        return self._named()[0][1].length

    @property
    def sample_bytes(self) -> int:
        return sum(member.sample_bytes for _, member in self._named())

    def read(self, start: int, stop: int) -> Rows:
        return self._nested({key: member.read(start, stop) for key, member in self._named()})

    def view(self, start: int, stop: int) -> Rows:
        return self._nested({key: member.view(start, stop) for key, member in self._named()})

    def _nested(self, found: dict[Any, Rows]) -> Rows:
        return found if isinstance(self._members, dict) else tuple(found.values())

    def stamp(self, start: int, stop: int) -> str:
        found = [(key, member.stamp(start, stop)) for key, member in self._named()]
        return stamps.of_texts(type(self._members).__name__, *found)

    def parts(self) -> Iterator[Part]:
        """Cut as the largest of them, if that one cuts in a way of its own: by its files, or by what is decoded."""
        lead = max((member for _, member in self._named()), key=lambda member: member.sample_bytes)
        if type(lead).parts is Source.parts:
            yield from super().parts()
            return
        for part in lead.parts():
            known = part.key is not None
            yield Part(part.start, part.stop, self.stamp(part.start, part.stop) if known else None)

    def describe(self) -> str:
        return f"{self.length} samples of " + ", ".join(f"{key}: {member.describe()}" for key, member in self._named())
