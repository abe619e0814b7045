"""Which atomics of a kernel put programs in order: those whose returned value decides what is done next.

An atomic that only adds does not order programs. Found in the source: names that hold an atomic's
value, or are computed from one, in the test of a branch or loop or in the mask of an access.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from types import FrameType

from kernelagent.domain.replies.parsing import parse
from kernelagent.tools.virtual.executor.source import FILE_NAME

_DEPTH = 60
_MASK_AT = {"load": 1, "store": 2}
_ATOMICS = "atomic_"
"""What their names begin with."""
_POLLS = "atomic_poll"
"""It waits by itself, whoever looks at what it returns."""


def non_synchronizing_atomics(source: str) -> frozenset[int]:
    """Lines of atomics whose value decides nothing."""
    tree = _tree(source)
    if tree is None:
        return frozenset()
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    returning = _returning(functions)
    deciding: set[int] = set()
    every: set[int] = set()
    for function in functions:
        every |= {line for node in ast.walk(function) for line in _lines(node, frozenset())}
        deciding |= _deciding(function, returning)
    # Atomics in a helper that returns their value never count as idle here: it depends on the caller.
    helpers = {
        line
        for function in functions
        if function.name in returning
        for node in ast.walk(function)
        for line in _lines(node, frozenset())
    }
    return frozenset(every - deciding - helpers)


def dropped_atomics(source: str) -> frozenset[int]:
    """Lines of atomics whose value nobody looks at."""
    tree = _tree(source)
    if tree is None:
        return frozenset()
    dropped = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    lines = {line for node in dropped for line in _lines(node, frozenset())}
    used = {
        line
        for node in ast.walk(tree)
        if not any(node is item for item in dropped)
        for line in _lines(node, frozenset())
    }
    return frozenset(lines - used)


def _tree(source: str) -> ast.Module | None:
    """None where there is no atomic in it, or it is no Python."""
    # Python takes other letters in a name for these.
    if source.isascii() and _ATOMICS not in source:
        return None
    try:
        return parse(source.replace("\r\n", "\n").replace("\r", "\n"))
    except (SyntaxError, ValueError):
        return None


def _returning(functions: list[ast.FunctionDef]) -> frozenset[str]:
    return frozenset(
        function.name
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.Return) and node.value is not None
        if any(_is_atomic(part, frozenset()) for part in ast.walk(node.value))
        or _names(node.value) & _held(function, frozenset()).keys()
    )


def _deciding(function: ast.FunctionDef, returning: frozenset[str]) -> set[int]:
    held = _held(function, returning)
    result = {
        line
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and _called(node) == _POLLS
        for line in _lines(node, frozenset())
    }
    for test in _tests(function):
        result |= {line for part in ast.walk(test) for line in _lines(part, returning)}
        for name in _names(test) & held.keys():
            result |= held[name]
    return result


def _held(function: ast.FunctionDef, returning: frozenset[str]) -> dict[str, set[int]]:
    """Names that depend on atomics, and the lines of those."""
    held: dict[str, set[int]] = {}
    grown = True
    while grown:
        grown = False
        for node in ast.walk(function):
            if not isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.NamedExpr):
                continue
            if node.value is None:
                continue
            lines = {line for part in ast.walk(node.value) for line in _lines(part, returning)}
            for name in _names(node.value) & held.keys():
                lines |= held[name]
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for name in {n for target in targets for n in _names(target)}:
                if lines - held.get(name, set()):
                    held.setdefault(name, set()).update(lines)
                    grown = True
    return held


def _tests(function: ast.FunctionDef) -> Iterator[ast.expr]:
    for node in ast.walk(function):
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            yield node.test
        elif isinstance(node, ast.For):
            yield node.iter
        elif isinstance(node, ast.Call):
            yield from (word.value for word in node.keywords if word.arg == "mask")
            # Addresses computed from an atomic's value, as with a ticket counter.
            if _called(node) in _MASK_AT:
                yield from node.args[:1]
                yield from node.args[_MASK_AT[_called(node)] : _MASK_AT[_called(node)] + 1]


def _lines(node: ast.AST, returning: frozenset[str]) -> list[int]:
    if not _is_atomic(node, returning):
        return []
    assert isinstance(node, ast.Call)
    return list(range(node.lineno, (node.end_lineno or node.lineno) + 1))


def _is_atomic(node: ast.AST, returning: frozenset[str]) -> bool:
    return isinstance(node, ast.Call) and (
        _called(node).startswith(_ATOMICS) or _called(node) in returning
    )


def _called(node: ast.Call) -> str:
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def line_now() -> int | None:
    """The kernel's line that is being interpreted; None where none of the text's is on the stack."""
    return next(iter(lines_now()), None)


def lines_now() -> Iterator[int]:
    """That line, then the one where its function is called, and so on."""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_DEPTH):
        if frame is None:
            return
        if frame.f_code.co_filename.endswith(FILE_NAME):
            yield frame.f_lineno
        frame = frame.f_back
