"""Numbers that Inductor's host code computes from sizes: what they are at given sizes."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from typing import Any

from kernelagent.models.compiler.capturing.capture import PolicyCannot
from kernelagent.models.compiler.program.program import Program, Size

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.Div: lambda a, b: a / b,
    ast.Pow: lambda a, b: a**b,
    ast.RShift: lambda a, b: a >> b,
    ast.LShift: lambda a, b: a << b,
}
_CALLS: dict[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "int": int,
    "float": float,
    "math.ceil": math.ceil,
    "math.floor": math.floor,
    "math.trunc": math.trunc,
}


def number(node: ast.expr, values: Mapping[str, int], what: str) -> int:
    """The value at these sizes; raises `PolicyCannot` for what is no arithmetic of sizes."""
    return int(_evaluated(node, values, what))


def _evaluated(node: ast.expr, values: Mapping[str, int], what: str) -> Any:
    match node:
        case ast.Constant(value=int() | float()):
            return node.value
        case ast.Name() if node.id in values:
            return values[node.id]
        case ast.UnaryOp(op=ast.USub()):
            return -_evaluated(node.operand, values, what)
        case ast.BinOp() if type(node.op) in _BINARY:
            sides = (_evaluated(side, values, what) for side in (node.left, node.right))
            return _BINARY[type(node.op)](*sides)
        case ast.Call() if ast.unparse(node.func) in _CALLS:
            given = [_evaluated(argument, values, what) for argument in node.args]
            return _CALLS[ast.unparse(node.func)](*given)
    raise PolicyCannot(what, f"its compiled form has a size of `{ast.unparse(node)[:80]}`")


def sizes_of(program: Program, symbols: Mapping[str, int], what: str) -> dict[str, int]:
    """Every named size of the program, where its symbols have these values."""
    values = dict(symbols)
    for step in program.steps:
        if isinstance(step, Size) and step.name not in values:
            values[step.name] = number(step.value, values, what)
    return values
