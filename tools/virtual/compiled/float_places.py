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
_FORGETS = ("tt.load", "tt.atomic", "arith.cmp", "tt.descriptor_load")
"""What comes of these is no place computed from a place."""


@cache
def places_by_floats(ttir: str) -> str | None:
    """The line of such a place, as text, empty where it is unknown; None: there is none.

    Places are what no load has a part in: coordinates that a caller gives as fractions are theirs.
    """
    loaded: set[str] = set()
    fractions: set[str] = set()
    whole: dict[str, str] = {}
    for text in map(str.strip, ttir.splitlines()):
        name, equals, operation = text.partition(" = ")
        if not equals or not name.startswith("%"):
            continue
        made = name.partition(":")[0]
        if operation.startswith("scf.for"):
            # What a loop carries begins as what is given to it.
            for carried, given in _CARRIED.findall(operation):
                for known in (loaded, fractions):
                    known |= {carried} if given in known else set()
                if given in whole:
                    whole[carried] = whole[given]
            continue
        operands = _NAME.findall(operation)
        if operation.startswith("tt.addptr"):
            for operand in operands[1:2]:
                if operand in whole:
                    return _line(whole[operand], ttir)
            continue
        if operation.startswith(_FORGETS):
            if not operation.startswith("arith.cmp"):
                loaded.add(made)
            continue
        if any(operand in loaded for operand in operands):
            loaded.add(made)
        elif operation.startswith(_MADE_FLOAT):
            fractions.add(made)
        elif operation.startswith(_MADE_WHOLE) and operands[0] in fractions:
            whole[made] = text
        elif any(operand in fractions for operand in operands):
            fractions.add(made)
        else:
            of = [whole[operand] for operand in operands if operand in whole]
            if of:
                whole[made] = of[0]
    return None


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
