"""What a compiled kernel keeps in shared memory for long, as its TTGIR says: blocks that are loaded ahead, operands of products."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass

from kernelagent.tools.virtual.compiled.memory_operations import places_of

_ALLOCATED = re.compile(
    r"ttg\.local_alloc\b.*!ttg\.memdesc<((?:\d+x)+)([a-z]+)(\d+)[A-Z0-9]*, .* loc\((#loc\d*)\)$"
)
_TYPES = {"f": "float", "bf": "bfloat", "i": "int"}
_SHOWN = 3


@dataclass(frozen=True)
class SharedBuffer:
    """One allocation; changes of layout and sums have room of their own, which is in none."""

    shape: tuple[int, ...]
    """Of loads ahead the first number says how many rounds are held at once."""
    element: str
    bytes: int
    line: int | None
    """Of the candidate's source."""

    def in_words(self) -> str:
        size = "x".join(map(str, self.shape))
        where = "" if self.line is None else f", line {self.line}"
        return f"{self.element}[{size}] ({self.bytes} bytes{where})"


def shared_buffers(ttgir: str, file: str) -> tuple[SharedBuffer, ...]:
    """Largest first; `file`: how the name of the kernel's file ends."""
    lines_at = places_of(ttgir, file)
    buffers: list[SharedBuffer] = []
    for text in ttgir.splitlines():
        match = _ALLOCATED.search(text.strip())
        if match is None:
            continue
        shape = tuple(int(size) for size in match[1].split("x") if size)
        bits, lines = int(match[3]), lines_at(match[4])
        kind = _TYPES.get(match[2], match[2])
        size = math.prod(shape) * bits // 8
        buffers.append(SharedBuffer(shape, f"{kind}{bits}", size, lines[0] if lines else None))
    return tuple(sorted(buffers, key=lambda buffer: -buffer.bytes))


def largest_of(buffers: tuple[SharedBuffer, ...]) -> str:
    """The largest in words, equal ones once; empty where there are none."""
    counted = Counter(buffer.in_words() for buffer in buffers)
    shown = [
        text if count == 1 else f"{count} times {text}"
        for text, count in list(counted.items())[:_SHOWN]
    ]
    rest = sum(list(counted.values())[_SHOWN:])
    return ", ".join([*shown, *([f"{rest} smaller ones"] if rest else [])])
