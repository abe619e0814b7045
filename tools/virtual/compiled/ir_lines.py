"""Triton IR line by line, for what is seen in its text alone: names, operations, and where regions begin and end.

`compiled_ir` reads the same text to execute it, and raises for what it does not know; what is asked here holds for any.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_NAME = re.compile(r"%[\w.$-]+(?:#\d+)?")
_LOCATION = re.compile(r"\s*loc\((#loc\d*)?[^()]*\)$")
_GIVEN = re.compile(r"(%[\w.$-]+) = (%[\w.$-]+(?:#\d+)?)")
_LOOP = re.compile(r"(?:scf\.for .*iter_args|scf\.while )\((.*)")
_LOOPS = ("scf.for", "scf.while")


@dataclass(frozen=True)
class IrLine:
    """One line, without the place that it comes from."""

    text: str
    made: str
    """The name of what it makes, without the number of a part; empty where it makes nothing."""
    operation: str
    """What makes it; all of a line that makes nothing."""
    location: str
    """The name of the place that it comes from; empty where it has none."""

    @property
    def operands(self) -> list[str]:
        return _NAME.findall(self.operation)

    @property
    def closes(self) -> bool:
        """Whether a loop or a branch ends here, with all its sides."""
        return self.text.startswith("}") and not self.text.endswith("{")

    @property
    def opens(self) -> bool:
        return self.text.endswith("{") and not self.text.startswith("}")

    @property
    def is_loop(self) -> bool:
        return self.operation.startswith(_LOOPS)

    @property
    def carried(self) -> dict[str, str]:
        """What a loop carries from round to round, and what each begins as."""
        given = _LOOP.search(self.text)
        return dict(_GIVEN.findall(given[1])) if given is not None else {}

    @property
    def handed_on(self) -> list[str]:
        """What a region gives to what it belongs to, or to its next round; empty where nothing is."""
        if not self.text.startswith("scf.yield"):
            return []
        return _NAME.findall(self.text.partition(" : ")[0])


def parts(made: str, count: int) -> list[str]:
    """The names of what a region makes: of several by their numbers."""
    return [made] if count == 1 else [f"{made}#{at}" for at in range(count)]


def ir_lines(ttir: str) -> Iterator[IrLine]:
    """All lines of a module, in their order."""
    for line in ttir.splitlines():
        text = line.strip()
        location = _LOCATION.search(text)
        text = text if location is None else text[: location.start()]
        name, equals, operation = text.partition(" = ")
        makes = bool(equals) and name.startswith("%")
        made = name.partition(":")[0] if makes else ""
        where = "" if location is None else location[1] or ""
        yield IrLine(text, made, operation if makes else text, where)
