"""Loads that the compiler moves rounds ahead: in a pipelined loop they come before the stores of the round before.

Which loads, the compiled code tells; whether one fetches what its own loop stored, the executor sees.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelagent.domain.replies.parsing import parse
from kernelagent.tools.virtual.compiled.memory_operations import Lines

Ahead = Mapping[int, tuple[range, ...]]
"""By line of a load that is fetched ahead: the lines of the loops in which it is."""


@dataclass(frozen=True)
class Loop:
    """A loop of the source."""

    lines: range


def loops_of(source: str) -> tuple[Loop, ...]:
    """All loops, the innermost first."""
    try:
        tree = parse(source.replace("\r\n", "\n").replace("\r", "\n"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For | ast.While)]
    outcome = [Loop(range(n.lineno, (n.end_lineno or n.lineno) + 1)) for n in loops]
    return tuple(sorted(outcome, key=lambda item: len(item.lines)))


def ahead_of(loads: frozenset[tuple[Lines, int]], loops: Sequence[Loop]) -> Ahead:
    """Of these loads, each with the line of the loop that moves it, those whose loop is in the source."""
    result: dict[int, set[range]] = {}
    for lines, at in loads:
        loop = _loop(lines, at, loops)
        if loop is not None:
            result.setdefault(lines[0], set()).add(loop.lines)
    return {line: tuple(sorted(outcome, key=len)) for line, outcome in result.items()}


def _loop(lines: Lines, at: int, loops: Sequence[Loop]) -> Loop | None:
    """The loop that begins in line `at`, else the innermost around the load or around a call that leads to it."""
    for item in loops:
        if item.lines.start == at:
            return item
    return next((item for line in lines for item in loops if line in item.lines), None)
