"""Assignments of a kernel that could be left out: what their names hold instead.

That is what they held before; of names without a value, one of the operands that the new value is computed of.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kernelagent.tools.source_text import written

Assignment = ast.Assign | ast.AugAssign | ast.AnnAssign
Position = tuple[int, int]
"""Line and column in a kernel's text."""


@dataclass(frozen=True)
class Step:
    """One assignment."""

    text: str
    """As it was written."""
    instead: tuple[tuple[str, ...], ...]
    """What its names may hold in place of what they are given: as many names as there are targets, the best first."""


def steps_of(function: ast.FunctionDef) -> dict[Position, Step]:
    """Those of a kernel's own text."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    found = _of_block(function.body, {argument.arg for argument in named})
    return {(node.lineno, node.col_offset): step for node, step in found}


def _of_block(statements: Iterable[ast.stmt], bound: set[str]) -> Iterator[tuple[Assignment, Step]]:
    """`bound`: names that have a value for sure before the block; those that have one after it are added."""
    for node in statements:
        match node:
            case (
                ast.Assign(targets=[target])
                | ast.AugAssign(target=target)
                | ast.AnnAssign(target=target, value=ast.expr())
            ):
                names = _names(target)
                instead = _instead(node, names, bound)
                if instead:
                    yield node, Step(written(node), instead)
                bound |= set(names)
            case ast.If():
                sides = set(bound), set(bound)
                for block, known in zip((node.body, node.orelse), sides, strict=True):
                    yield from _of_block(block, known)
                bound |= sides[0] & sides[1]
            case ast.For():
                yield from _of_block(node.body, bound | set(_names(node.target)))
            case ast.While():
                yield from _of_block(node.body, set(bound))
            case ast.With():
                yield from _of_block(node.body, bound)


def _instead(
    node: Assignment, names: tuple[str, ...], bound: set[str]
) -> tuple[tuple[str, ...], ...]:
    if names and bound.issuperset(names):
        return (names,)
    if len(names) != 1:
        return ()
    assert node.value is not None
    read = [part.id for part in ast.walk(node.value) if isinstance(part, ast.Name)]
    return tuple((name,) for name in dict.fromkeys(read) if name in bound)


def _names(target: ast.expr) -> tuple[str, ...]:
    """Empty where anything else than names gets a value."""
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    names = tuple(part.id for part in parts if isinstance(part, ast.Name))
    return names if len(names) == len(parts) else ()
