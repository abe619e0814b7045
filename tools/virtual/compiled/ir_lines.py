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
MADE_FLOAT, MADE_WHOLE = ("arith.sitofp", "arith.uitofp"), ("arith.fptosi", "arith.fptoui")
"""What makes floats of whole numbers, and whole numbers of floats."""


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
    within: tuple[IrLine, ...]
    """The lines that opened the loops and branches it stands in, or closes, the innermost last."""

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

    @property
    def given_by(self) -> list[tuple[str, str]]:
        """Names that may hold from here on what is handed on: of what the region makes, and of what its next round begins with."""
        names = self.handed_on
        if not names or not self.within:
            return []
        region = self.within[-1]
        several = [f"{region.made}#{at}" for at in range(len(names))]
        made = [region.made] if len(names) == 1 else several
        return [*zip(made, names, strict=True), *zip(region.carried, names, strict=False)]


def ir_lines(ttir: str) -> Iterator[IrLine]:
    """All lines of a module, in their order."""
    within: tuple[IrLine, ...] = ()
    for written in ttir.splitlines():
        text = written.strip()
        location = _LOCATION.search(text)
        text = text if location is None else text[: location.start()]
        name, equals, operation = text.partition(" = ")
        makes = bool(equals) and name.startswith("%")
        made = name.partition(":")[0] if makes else ""
        where = "" if location is None else location[1] or ""
        line = IrLine(text, made, operation if makes else text, where, within)
        yield line
        if line.opens:
            within = (*within, line)
        elif line.closes:
            within = within[:-1]
