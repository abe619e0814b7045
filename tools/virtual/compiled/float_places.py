"""Whether a kernel computes a place in memory by floating point numbers, by Triton's IR.

A float32 has not every whole number beyond 2^24, and a quotient of two whole numbers may come out just below the one that it is: an
index that is right for all places of a small tensor is wrong for a few of a large one.
"""

from __future__ import annotations

import re
from functools import cache

_NAME = re.compile(r"%[\w.$-]+")
_LOC_ALIAS = re.compile(r"^(#loc\d*) = loc\((.*)\)$")
_LOC_OF = re.compile(r"loc\((#loc\d*)\)$")
_LINE = re.compile(r"\":(\d+):\d+")
_CARRIED = re.compile(r"(%[\w.$-]+) = (%[\w.$-]+)")
_MADE_FLOAT = ("arith.sitofp", "arith.uitofp")
_MADE_WHOLE = ("arith.fptosi", "arith.fptoui")
_LOADS = ("tt.load", "tt.atomic", "tt.descriptor_load", "tt.descriptor_gather")
_PLACE = re.compile(r"\s*loc\([^()]*\)$")


@cache
def places_by_floats(ttir: str) -> str | None:
    """The line of such a place, as text, empty where it is unknown; None: there is none.

    Places are what no load has a part in: coordinates that a caller gives as fractions are theirs.
    """
    known = _Known()
    # Twice: what a loop hands on to its next round is known at its end.
    return known.read(ttir) or known.read(ttir)


class _Known:
    """What is known of values, by their names."""

    def __init__(self) -> None:
        self._loaded: set[str] = set()
        self._fractions: set[str] = set()
        self._whole: dict[str, str] = {}
        """Whole numbers that fractions were made into, and the operation that began it."""
        self._regions: list[tuple[str, tuple[str, ...]]] = []
        """What each open region makes, and what a loop carries."""

    def read(self, ttir: str) -> str | None:
        """One pass over the text, up to the first such place."""
        self._regions.clear()
        for text in map(str.strip, ttir.splitlines()):
            if text.startswith("}") and self._regions:
                self._regions.pop()
            name, equals, operation = text.partition(" = ")
            if text.startswith("scf.yield"):
                self._handed_on(text)
            elif equals and name.startswith("%"):
                made = name.partition(":")[0]
                if (where := self._operation(made, operation, text)) is not None:
                    return _line(where, ttir)
            if _PLACE.sub("", text).endswith("{"):
                made = name.partition(":")[0] if equals else ""
                carried = _CARRIED.findall(operation) if operation.startswith("scf.for") else []
                self._regions.append((made, tuple(begun for begun, _ in carried)))
        return None

    def _operation(self, made: str, operation: str, text: str) -> str | None:
        if operation.startswith("scf."):
            # What a loop carries begins as what is given to it.
            for carried, given in _CARRIED.findall(operation):
                self._same(carried, given)
            return None
        operands = _NAME.findall(operation)
        if operation.startswith("tt.addptr"):
            return self._whole.get(operands[1]) if operands[1] not in self._loaded else None
        if operation.startswith(_LOADS):
            self._loaded.add(made)
        elif not operation.startswith("arith.cmp"):
            self._computed(made, operation, operands, text)
        return None

    def _computed(self, made: str, operation: str, operands: list[str], text: str) -> None:
        if any(operand in self._loaded for operand in operands):
            self._loaded.add(made)
        elif operation.startswith(_MADE_FLOAT):
            self._fractions.add(made)
        elif operation.startswith(_MADE_WHOLE):
            if operands[0] in self._fractions:
                self._whole[made] = text
        elif any(operand in self._fractions for operand in operands):
            self._fractions.add(made)
        else:
            begun = [self._whole[operand] for operand in operands if operand in self._whole]
            self._whole |= {made: begun[0]} if begun else {}

    def _handed_on(self, text: str) -> None:
        if not self._regions:
            return
        made, carried = self._regions[-1]
        for at, name in enumerate(_NAME.findall(text.partition(" : ")[0])):
            self._same(made, name)
            if at < len(carried):
                self._same(carried[at], name)

    def _same(self, name: str, other: str) -> None:
        """`name` may hold what `other` holds."""
        for held in (self._loaded, self._fractions):
            held |= {name} if other in held else set()
        if other in self._whole:
            self._whole[name] = self._whole[other]


def _line(text: str, ttir: str) -> str:
    """Of an operation, by the table of places at the module's end."""
    alias = _LOC_OF.search(text)
    lines = map(str.strip, ttir.splitlines())
    places = {m[1]: m[2] for line in lines if (m := _LOC_ALIAS.match(line)) is not None}
    place, seen = alias[1] if alias else "", set[str]()
    while place in places and place not in seen:
        seen.add(place)
        if (known := _LINE.search(places[place])) is not None:
            return known[1]
        inner = re.search(r"#loc\d*", places[place])
        place = inner[0] if inner else ""
    return ""
