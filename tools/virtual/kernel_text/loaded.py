"""Which names in a kernel's text hold what was loaded, or what was computed of it.

Read from the text and from what is compiled in, without its order: a name that anywhere in the function is given such
a value counts.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from triton.runtime import JITFunction

from kernelagent.tools.source_text import written
from kernelagent.tools.virtual.kernel_text.branches import Constants, taken

LOADS = frozenset({"load", "load_tensor_descriptor"})
_DEEPEST = 4
"""Functions that call each other, which are followed."""
_SHOWN = 60
Given = dict[int, tuple[JITFunction[Any], frozenset[str]]]
"""By the identity of a function of the text's own: it, and its parameters that are called with data."""


def functions_that_load(scope: Mapping[str, Any]) -> frozenset[str]:
    """The functions that read memory, by their names in a kernel: the language's, and of the text's own."""
    return frozenset(
        name
        for name, value in scope.items()
        if (_reads(value) if is_own(value) else _loads(str(getattr(value, "__name__", ""))))
    )


def _loads(name: str) -> bool:
    return name in LOADS or name.startswith("atomic_")


def _reads(value: Any, left: int = _DEEPEST) -> bool:
    words = set(re.findall(r"\w+", value.src))
    if any(map(_loads, words)):
        return True
    around = value.fn.__globals__
    inner = (around[word] for word in words & around.keys() if word != value.__name__)
    return left > 0 and any(is_own(other) and _reads(other, left - 1) for other in inner)


def is_own(value: Any) -> bool:
    """Whether it is a kernel's function that is not of Triton's."""
    return isinstance(value, JITFunction) and not str(value.__module__).startswith("triton.")


def names_with_data(
    bound: list[tuple[set[str], ast.expr]], known: frozenset[str]
) -> frozenset[str]:
    """Variables that hold what was loaded, or what was computed of it, anywhere in the function; those known, too."""
    loaded = set(known)
    grown = True
    while grown:
        grown = False
        for names, value in bound:
            if not names <= loaded and has_data(value, loaded):
                loaded |= names
                grown = True
    return frozenset(loaded)


def given_to_functions(
    function: ast.FunctionDef, scope: Mapping[str, Any], loaded: frozenset[str]
) -> Given:
    """The functions that a kernel calls, with the parameters that it gives data."""
    result: Given = {}
    for node in ast.walk(function):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            continue
        called = scope.get(node.func.id)
        if is_own(called):
            before = result.get(id(called), (called, frozenset[str]()))[1]
            result[id(called)] = called, before | _given(called, node, loaded)
    return result


def _given(called: Any, node: ast.Call, loaded: frozenset[str]) -> frozenset[str]:
    names = list(called.arg_names)
    starred = [part for part in node.args if isinstance(part, ast.Starred)]
    unnamed = [part for part in node.keywords if part.arg is None]
    if any(has_data(part, loaded) for part in (*starred, *unnamed)):
        return frozenset(names)
    placed = zip(names, node.args, strict=False)
    named = ((part.arg, part.value) for part in node.keywords if part.arg is not None)
    return frozenset(name for name, value in (*placed, *named) if has_data(value, loaded))


def bindings(
    function: ast.FunctionDef, constants: Constants = MappingProxyType({})
) -> Iterator[tuple[set[str], ast.expr]]:
    """What is given to which names, anywhere in the function but in branches that the constants decide against."""
    for node in taken(function, constants):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                for part, value in _pairs(target, node.value):
                    yield _names_in(part), value
        elif isinstance(node, ast.AugAssign):
            yield _names_in(node.target), ast.BinOp(node.target, node.op, node.value)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr):
            if node.value is not None:
                yield _names_in(node.target), node.value
        elif isinstance(node, ast.For):
            yield _names_in(node.target), node.iter


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What `a, b = c, d` gives to what."""
    row = ast.Tuple | ast.List
    if isinstance(target, row) and isinstance(value, row) and len(target.elts) == len(value.elts):
        for part, inner in zip(target.elts, value.elts, strict=True):
            yield from _pairs(part, inner)
    else:
        yield target, value


def _names_in(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def has_data(node: ast.AST, loaded: set[str] | frozenset[str]) -> bool:
    """Whether something that was loaded is in an expression; `loaded`: names that hold it."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and part.id in loaded:
            return True
        if isinstance(part, ast.Call) and _loads(name_of(part.func)):
            return True
    return False


def name_of(called: ast.expr) -> str:
    """The last name of what is called."""
    if isinstance(called, ast.Attribute):
        return called.attr
    return called.id if isinstance(called, ast.Name) else ""


def shown(node: ast.expr) -> str:
    """The text of an expression, as a reader is told it."""
    text = written(node)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


class Shown:
    """The texts by which the choices of one function are known: what is written twice on a line has its column, too."""

    def __init__(self) -> None:
        self._columns: dict[tuple[int, str], int] = {}

    def __call__(self, node: ast.expr) -> str:
        text, column = shown(node), node.col_offset
        first = self._columns.setdefault((node.lineno, text), column)
        return text if column == first else f"{text} (column {column + 1})"
