"""The numbers written in a source: what a branch of a candidate may ask its inputs, weights and sizes for.

Read from the syntax tree, of kernels too; expressions of constants are computed, nothing is run.
"""

from __future__ import annotations

import ast
import math
import operator
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kernelagent.domain.replies.parsing import parse
from kernelagent.tools.judge.problem.trials.size_conditions import SizeCondition, size_conditions

_MOST = 48
"""Numbers that are looked at: the values of a probe have to find room in its tensors."""
_LARGEST_POWER = 1024
_FEWEST_BITS = 1 << 23
"""Smaller integers are denormal as the bits of a float32."""
Number = int | float
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
}
_NAMED = {"pi": math.pi, "e": math.e, "tau": math.tau}


@dataclass(frozen=True)
class Literals:
    """What stands in a candidate's source, and beside it in the reference's."""

    values: tuple[float, ...] = ()
    """Finite and distinct, those of the candidate alone first; without sign, zero is left out."""
    integers: tuple[int, ...] = ()
    """Of the candidate alone, from 2 on."""
    remainders: tuple[tuple[int, int], ...] = ()
    """Divisor and remainder that the candidate compares with each other."""
    conditions: tuple[SizeCondition, ...] = ()
    """What the candidate may ask of sizes."""


NONE = Literals()


def literals_of(candidate: str, reference: str = "") -> Literals:
    """The numbers of both sources; a source that does not parse has none."""
    own, others = _numbers(candidate), _numbers(reference)
    alone = [number for number in own if number not in others]
    both = [number for number in own if number in others]
    ordered = dict.fromkeys(float(abs(n)) for n in (*alone, *both, *others) if _is_usable(n))
    integers = (abs(n) for n in alone if isinstance(n, int) and abs(n) > 1)
    return Literals(
        values=tuple(ordered)[:_MOST],
        integers=tuple(dict.fromkeys(integers)),
        remainders=tuple(dict.fromkeys(_remainders(candidate))),
        conditions=_conditions(candidate),
    )


def _is_usable(number: Number) -> bool:
    return number != 0 and math.isfinite(number)


@lru_cache(maxsize=8)
def _numbers(source: str) -> tuple[Number, ...]:
    result: dict[Number, None] = {}
    tree, values = _values(source)
    # The whole of an expression before its parts.
    for value in (values[node] for node in ast.walk(tree) if node in values):
        result[value] = None
        if isinstance(value, int) and _FEWEST_BITS <= value < 1 << 32:
            result[struct.unpack("<f", struct.pack("<I", value))[0]] = None
    # As a float a number of bits may be NaN, which equals nothing and would be kept twice.
    return tuple(n for n in result if isinstance(n, int) or math.isfinite(n))


def _remainders(source: str) -> Iterator[tuple[int, int]]:
    tree, values = _values(source)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare) or len(node.comparators) != 1:
            continue
        for divided, other in ((node.left, node.comparators[0]), (node.comparators[0], node.left)):
            if isinstance(divided, ast.BinOp) and isinstance(divided.op, ast.Mod):
                by, left = values.get(divided.right), values.get(other)
                if isinstance(by, int) and isinstance(left, int) and 0 <= left < by and by > 1:
                    yield by, left


@lru_cache(maxsize=8)
def _conditions(source: str) -> tuple[SizeCondition, ...]:
    try:
        return size_conditions(_parsed(source))
    except (RecursionError, MemoryError):
        # Deeper than Python itself can walk: as of what cannot be read, nothing is known of it.
        return ()


@lru_cache(maxsize=8)
def _values(source: str) -> tuple[ast.AST, dict[ast.AST, Number]]:
    """The tree, and the number of each of its expressions of constants."""
    tree, values = _parsed(source), dict[ast.AST, Number]()
    # Parts before what they are parts of, each once: expressions may be thousands deep.
    for node in reversed(list(ast.walk(tree))):
        try:
            value = _computed(node, values)
        except (ArithmeticError, ValueError, TypeError):
            continue
        # Longer integers are tables and bytes, and no double holds them.
        if (isinstance(value, int) and value.bit_length() < _LARGEST_POWER) or (
            isinstance(value, float) and math.isfinite(value)
        ):
            values[node] = value
    return tree, values


def _parsed(source: str) -> ast.AST:
    try:
        return parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # Deeper than Python itself can read: nothing of it will run.
        return ast.Module([], [])


def _computed(node: ast.AST, values: Mapping[ast.AST, Number]) -> Number | None:
    match node:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
            inner = values.get(operand)
            return -inner if inner is not None and isinstance(sign, ast.USub) else inner
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _combined(_BINARY[type(op)], values.get(left), values.get(right))
        case ast.Attribute(attr=name) if name in _NAMED:
            return _NAMED[name]
        case ast.Call(func=function, args=arguments, keywords=[]):
            return _called(function, arguments, values)
    return None


def _combined(
    op: Callable[[Any, Any], Number], left: Number | None, right: Number | None
) -> Number | None:
    if left is None or right is None:
        return None
    if op in (operator.pow, operator.lshift) and abs(right) > _LARGEST_POWER:
        return None
    if op is operator.pow and abs(left) > _LARGEST_POWER:
        left = float(left)
    value = op(left, right)
    return value if isinstance(value, int | float) else None


def _called(
    function: ast.expr, arguments: list[ast.expr], values: Mapping[ast.AST, Number]
) -> Number | None:
    """`float("1e5")`, `float.fromhex("0x1p-3")`, `int("ff", 16)`, `tl.constexpr(3)`, `math.sqrt(2.0)`."""
    name = function.attr if isinstance(function, ast.Attribute) else ""
    name = function.id if isinstance(function, ast.Name) else name
    texts = [a.value for a in arguments if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    if name == "fromhex" and texts:
        return float.fromhex(texts[0])
    if name == "float" and texts:
        return float(texts[0])
    if name == "int" and texts:
        base = values.get(arguments[1]) if len(arguments) == 2 else 10
        return int(texts[0], base) if isinstance(base, int) else None
    if len(arguments) != 1 or name not in ("float", "int", "constexpr", "sqrt", "exp", "log"):
        return None
    value = values.get(arguments[0])
    if value is None or name in ("float", "constexpr"):
        return value
    of: Callable[[Number], Number] = int if name == "int" else getattr(math, name)
    return of(value)
