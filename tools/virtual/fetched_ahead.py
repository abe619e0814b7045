"""Loads that the compiler moves rounds ahead: in a pipelined loop they come before the stores of the round before.

Which loads, the compiled code tells; whether one fetches what its own loop stored, the executor sees.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelagent.domain.parsing import parse

_COPY = re.compile(r"async(?:_tma)?_copy_global_to_local.*loc\((#loc\d*)\)")
_NAMED = re.compile(r"^(#loc\d*) = loc\((.*)\)$", re.MULTILINE)
_PLACE = re.compile(r'"[^"]*":(\d+):\d+')
_INNER = re.compile(r"#loc\d*")
Ahead = Mapping[int, range]
"""By line of a load that is fetched ahead: the lines of its loop."""


@dataclass(frozen=True)
class Loop:
    """A loop of the source."""

    lines: range
    stores: bool
    """Whether something in it is called `store`."""


def lines_fetched_ahead(ttgir: str) -> frozenset[int]:
    """Lines of the loads that became asynchronous copies."""
    places = dict(_NAMED.findall(ttgir))
    lines = (_line(name, places) for name in _COPY.findall(ttgir))
    return frozenset(line for line in lines if line is not None)


def _line(name: str, places: Mapping[str, str]) -> int | None:
    """Of `loc("name"(#loc3))` and `callsite(#loc3 at #loc4)` what stands innermost."""
    text = places.get(name, "")
    place = _PLACE.search(text)
    if place:
        return int(place[1])
    inner = _INNER.search(text)
    return _line(inner[0], places) if inner and inner[0] != name else None


def loops_of(source: str) -> tuple[Loop, ...]:
    """All loops, the innermost first."""
    try:
        tree = parse(source.replace("\r\n", "\n").replace("\r", "\n"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For | ast.While)]
    found = [Loop(range(n.lineno, (n.end_lineno or n.lineno) + 1), _stores(n)) for n in loops]
    return tuple(sorted(found, key=lambda one: len(one.lines)))


def ahead_of(lines: frozenset[int], loops: Sequence[Loop]) -> Ahead:
    """Of the loads on these lines those whose innermost loop stores something."""
    own = {line: next((one for one in loops if line in one.lines), None) for line in lines}
    return {line: loop.lines for line, loop in own.items() if loop is not None and loop.stores}


def _stores(loop: ast.AST) -> bool:
    calls = (node.func for node in ast.walk(loop) if isinstance(node, ast.Call))
    return any(isinstance(f, ast.Attribute) and f.attr == "store" for f in calls)
