"""Which branches of a kernel's text a launch does not take, as far as what is compiled in decides it.

What a name holds there is nothing that the launch computes with: a length that is loaded where sequences are packed is
a plain argument where they are not.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Constants = Mapping[str, Any]
"""What is compiled in, by the names of parameters."""
PLAIN = (bool, int, float, str, type(None))
"""Types of which Python's answer is Triton's."""
_UNKNOWN = object()
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def asked(function: ast.FunctionDef) -> frozenset[str]:
    """The names that the conditions of branches consist of."""
    tests = (node.test for node in ast.walk(function) if isinstance(node, ast.If))
    return frozenset(
        part.id for test in tests for part in ast.walk(test) if isinstance(part, ast.Name)
    )


def taken(function: ast.FunctionDef, constants: Constants) -> Iterator[ast.AST]:
    """Every node of a function but those in branches that these constants decide against."""
    given = {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    }
    known = {name: value for name, value in constants.items() if name not in given}
    waiting: list[ast.AST] = [function]
    while waiting:
        node = waiting.pop()
        yield node
        left_out: list[ast.stmt] = []
        if isinstance(node, ast.If):
            value = _decided(node.test, known)
            if value is not _UNKNOWN:
                left_out = node.orelse if value else node.body
        waiting += [child for child in ast.iter_child_nodes(node) if child not in left_out]


def _decided(test: ast.expr, known: Constants) -> Any:
    """What a condition is, `_UNKNOWN` where it takes more than the constants to say."""
    match test:
        case ast.Constant(value=value):
            return value if isinstance(value, PLAIN) else _UNKNOWN
        case ast.Name(id=name):
            return known.get(name, _UNKNOWN)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = _decided(operand, known)
            return inner if inner is _UNKNOWN else not inner
        case ast.BoolOp(op=joined, values=parts):
            whole: Any = _UNKNOWN
            for part in parts:
                whole = _decided(part, known)
                if whole is _UNKNOWN or bool(whole) == isinstance(joined, ast.Or):
                    break
            return whole
        case ast.Compare(left=left, ops=[comparison], comparators=[right]):
            sides = _decided(left, known), _decided(right, known)
            compared = _COMPARISONS.get(type(comparison))
            if compared is None or _UNKNOWN in sides:
                return _UNKNOWN
            try:
                return compared(*sides)
            except TypeError:
                return _UNKNOWN
    return _UNKNOWN
