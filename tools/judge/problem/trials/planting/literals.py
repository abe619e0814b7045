"""The numbers written in a source: what a branch of a candidate may ask its inputs, weights and sizes for.

Read from the syntax tree, of kernels too; expressions of constants are computed, nothing is run.
"""

from __future__ import annotations

import ast
import math
import operator
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from kernelagent.domain.replies.parsing import parse
from kernelagent.tools.judge.problem.trials.planting.torch_defaults import defaults_in
from kernelagent.tools.judge.problem.trials.size_conditions import SizeCondition, size_conditions

_MOST = 48
"""Numbers that are looked at: the values of a probe have to find room in its tensors."""
_LARGEST_POWER = 1024
_FEWEST_BITS = 1 << 23
"""Smaller integers are denormal as the bits of a float32."""
_UNITS_OFF = 3
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
_OF_ONE: Mapping[str, Callable[[float], Number]] = {
    "int": int,
    "abs": abs,
    "floor": math.floor,
    "ceil": math.ceil,
    "sqrt": math.sqrt,
    "sqrt_rn": math.sqrt,
    "rsqrt": lambda value: 1 / math.sqrt(value),
    "cbrt": math.cbrt,
    "exp": math.exp,
    "exp2": math.exp2,
    "expm1": math.expm1,
    "log": math.log,
    "log2": math.log2,
    "log10": math.log10,
    "log1p": math.log1p,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "tanh": math.tanh,
    "erf": math.erf,
    "sigmoid": lambda value: 1 / (1 + math.exp(-value)),
}
"""Functions of Python, torch and Triton, in kernels as well, by their last names."""
_ROUNDED = _OF_ONE.keys() - {"int", "abs", "floor", "ceil"}
_OF_NUMBERS = ("float", "constexpr", "to_tensor", "tensor", "scalar_tensor")
"""Functions that make the same number of one."""
_FILLED = ("full", "full_like")
"""Functions whose second argument stands in all of what they make."""
_ROUNDS = 8
"""Names that stand for numbers are followed through so many others."""
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

    @property
    def whole(self) -> tuple[int, ...]:
        """The values that are whole numbers."""
        return tuple(int(value) for value in self.values if value.is_integer())


NONE = Literals()


def literals_of(candidate: str, reference: str = "") -> Literals:
    """The numbers of both sources; a source that does not parse has none."""
    own, others = _numbers(candidate), _numbers(reference)
    alone = [number for number in own if number not in others]
    both = [number for number in own if number in others]
    every = (*alone, *both, *others, *defaults_in(_parsed(reference)))
    ordered = dict.fromkeys(float(abs(n)) for n in every if _is_usable(n))
    integers = (abs(n) for n in alone if isinstance(n, int) and abs(n) > 1)
    return Literals(
        values=tuple(ordered)[:_MOST],
        integers=tuple(dict.fromkeys(integers)),
        remainders=tuple(dict.fromkeys(_remainders(candidate))),
        conditions=conditions_of(candidate),
    )


def _is_usable(number: Number) -> bool:
    return number != 0 and math.isfinite(number)


@lru_cache(maxsize=8)
def _numbers(source: str) -> tuple[Number, ...]:
    result: dict[Number, None] = {}
    tree, values = _values(source)
    # The whole of an expression before its parts.
    for node in (node for node in ast.walk(tree) if node in values):
        value = values[node]
        result[value] = None
        if isinstance(node, ast.Call) and _name_of(node.func) in _ROUNDED:
            result |= dict.fromkeys(_beside(value))
        if isinstance(value, int) and _FEWEST_BITS <= value < 1 << 32:
            result[struct.unpack("<f", struct.pack("<I", value))[0]] = None
    # As a float a number of bits may be NaN, which equals nothing and would be kept twice.
    return tuple(n for n in result if isinstance(n, int) or math.isfinite(n))


def _beside(value: Number) -> Iterator[float]:
    """Of a function's result in float32: a GPU's approximation may be some units in the last place off."""
    nearest = np.float32(value)
    for towards in (np.float32(np.inf), np.float32(-np.inf)):
        number = nearest
        for _ in range(_UNITS_OFF):
            number = np.nextafter(number, towards)
            yield float(number)


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
def conditions_of(source: str) -> tuple[SizeCondition, ...]:
    """What a text asks of sizes; nothing where it cannot be read."""
    try:
        return size_conditions(_parsed(source))
    except (RecursionError, MemoryError):
        # Deeper than Python itself can walk: as of what cannot be read, nothing is known of it.
        return ()


@lru_cache(maxsize=8)
def _values(source: str) -> tuple[ast.AST, dict[ast.AST, Number]]:
    """The tree, and the number of each of its expressions of constants."""
    tree, values = _parsed(source), dict[ast.AST, Number]()
    every = list(ast.walk(tree))
    every.reverse()
    known: dict[str, Number] = {}
    for _ in range(_ROUNDS):
        values = _values_with(every, known)
        named = dict(_named(every, values))
        if named.keys() == known.keys():
            break
        known = named
    return tree, values


def _named(
    every: Sequence[ast.AST], values: Mapping[ast.AST, Number]
) -> Iterator[tuple[str, Number]]:
    """Names that one assignment of the whole source binds, to a number."""
    bound: dict[str, list[ast.expr | None]] = {}
    for node in every:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                bound.setdefault(name, []).append(value)
            case ast.AnnAssign(target=ast.Name(id=name), value=value):
                bound.setdefault(name, []).append(value)
            case ast.arg(arg=name):
                bound.setdefault(name, []).append(None)
    stored = Counter(
        n.id for n in every if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    )
    for name, given in bound.items():
        if len(given) == 1 and stored[name] == 1 and given[0] is not None and given[0] in values:
            yield name, values[given[0]]


def _values_with(every: Sequence[ast.AST], known: Mapping[str, Number]) -> dict[ast.AST, Number]:
    """`every`: of the tree, parts before what they are parts of; `known`: what names stand for."""
    values: dict[ast.AST, Number] = {}
    # Each once: expressions may be thousands deep.
    for node in every:
        try:
            value = _computed(node, values, known)
        except (ArithmeticError, ValueError, TypeError):
            continue
        # Longer integers are tables and bytes, and no double holds them.
        if (isinstance(value, int) and value.bit_length() < _LARGEST_POWER) or (
            isinstance(value, float) and math.isfinite(value)
        ):
            values[node] = value
    return values


def _parsed(source: str) -> ast.AST:
    try:
        return parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # Deeper than Python itself can read: nothing of it will run.
        return ast.Module([], [])


def _computed(
    node: ast.AST, values: Mapping[ast.AST, Number], known: Mapping[str, Number]
) -> Number | None:
    match node:
        case ast.Name(id=name, ctx=ast.Load()):
            return known.get(name)
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
        case ast.Call(func=function, args=arguments):
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


def _name_of(function: ast.expr) -> str:
    """The last of a dotted name; empty where it has none."""
    match function:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def _called(
    function: ast.expr, arguments: list[ast.expr], values: Mapping[ast.AST, Number]
) -> Number | None:
    """`float("1e5")`, `float.fromhex("0x1p-3")`, `int("ff", 16)`, `tl.constexpr(3)`, `math.sqrt(2.0)`, `tl.full((), 3.0, t)`."""
    name = _name_of(function)
    texts = [a.value for a in arguments if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    if name == "fromhex" and texts:
        return float.fromhex(texts[0])
    if name == "float" and texts:
        return float(texts[0])
    if name == "int" and texts:
        base = values.get(arguments[1]) if len(arguments) == 2 else 10
        return int(texts[0], base) if isinstance(base, int) else None
    if name in _FILLED:
        return values.get(arguments[1]) if len(arguments) > 1 else None
    value = values.get(arguments[0]) if arguments else None
    if isinstance(function, ast.Attribute) and value is None:
        # A method, as of `x.to(tl.float32)` and `x.exp()`.
        value = values.get(function.value) if name == "to" or not arguments else None
        if name == "to":
            return value
    if value is None or name in _OF_NUMBERS:
        return value if name in _OF_NUMBERS else None
    return _OF_ONE[name](value) if name in _OF_ONE else None
