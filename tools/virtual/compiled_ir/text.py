"""Triton IR as records: functions of blocks of operations, each with its operands and types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from kernelagent.tools.virtual.compiled_ir.types import Type


@dataclass
class Operation:
    """One operation."""

    name: str
    results: tuple[str, ...]
    operands: tuple[str, ...]
    body: str
    """The text between its name and its types, attributes in braces left out."""
    attributes: str
    """What stands in braces."""
    operand_types: tuple[Type, ...]
    result_types: tuple[Type, ...]
    location: str
    """The name of its place in the source."""
    regions: list[list[Block]] = field(default_factory=list)
    targets: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Blocks that it goes to, and what it hands on to each."""
    only_reduced: bool = False
    """Whether nothing but reductions takes its result."""


@dataclass
class Block:
    """Operations one after another."""

    label: str
    arguments: tuple[tuple[str, Type], ...]
    operations: list[Operation] = field(default_factory=list)


@dataclass
class Function:
    """A function of the module."""

    name: str
    arguments: tuple[tuple[str, Type], ...]
    blocks: list[Block]


@dataclass
class Module:
    """What a text says."""

    functions: dict[str, Function]
    entry: Function
    places: dict[str, str]
    """What the names of places stand for."""

    def line(self, place: str) -> tuple[str, int] | None:
        """File and line of an operation's place: the innermost of a call's."""
        for _ in range(32):
            found = re.search(r'"([^"]*)":(\d+):', place)
            if found:
                return found[1], int(found[2])
            names = re.findall(r"#loc\d*", place)
            if not names:
                return None
            place = self.places.get(names[0], "")
        return None

    def callers(self, place: str) -> Iterator[tuple[str, int]]:
        """Files and lines of a place, from the innermost call outwards."""
        for _ in range(32):
            names = re.findall(r"#loc\d*", place)
            found = re.search(r'"([^"]*)":(\d+):', place)
            if found:
                yield found[1], int(found[2])
                return
            if not names:
                return
            if "callsite" in place and len(names) > 1:
                inner = self.line(names[0])
                if inner is not None:
                    yield inner
                place = self.places.get(names[1], "")
            else:
                place = self.places.get(names[0], "")


def attribute(text: str, name: str) -> str | None:
    """The value of an attribute in braces, as text."""
    found = re.search(rf"\b{re.escape(name)} = (array<i32(?:: [^>]*)?>|\"[^\"]*\"|[^,}}]+)", text)
    return found[1].strip() if found else None


def numbers(text: str | None) -> tuple[int, ...]:
    """Of `array<i32: 1, 0>` those behind its colon, else all."""
    if text is None:
        return ()
    return tuple(int(one) for one in re.findall(r"-?\d+", text.partition(":")[2] or text))
