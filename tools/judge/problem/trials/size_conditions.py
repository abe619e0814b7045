"""What a text asks of sizes: its conditions on whole numbers, found and evaluated for every size without running it.

`rows * 7 % 61 == 13` holds for one size in sixty-one, and no number of the text is such a size. Names that are bound
once in a function stand for what they are bound to; what is left open, such as `x.shape[0]`, is taken for the size.
"""

from __future__ import annotations

import ast
import random
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelagent.tools.source_text import written

_MOST_CONDITIONS = 512
_MOST_OPEN = 3
"""Names that may be left open in one condition."""
_MOST_NODES = 400
"""Of the tree of a condition; names that are bound to names can make any number of them."""
_DEEPEST = 12
_MOST_COMBINATIONS = 4
"""Sizes of the other dimensions that a condition is tried with."""
_MOST_SIZES = 1 << 13
_Values = npt.NDArray[Any]
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
    ast.BitAnd: np.bitwise_and,
    ast.BitOr: np.bitwise_or,
    ast.BitXor: np.bitwise_xor,
    ast.LShift: np.left_shift,
    ast.RShift: np.right_shift,
}
_COMPARED: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
}
_CALLED: Mapping[str, Callable[..., Any]] = {
    "abs": np.abs,
    "min": np.minimum,
    "minimum": np.minimum,
    "max": np.maximum,
    "maximum": np.maximum,
    "gcd": np.gcd,
    "int": np.asarray,
    "bool": lambda value: np.asarray(value) != 0,
    "isqrt": lambda value: np.sqrt(value).astype(np.int64),
    "cdiv": lambda value, by: -np.floor_divide(-np.asarray(value), by),
    "next_power_of_2": lambda value: np.exp2(np.ceil(np.log2(value))).astype(np.int64),
}
_SIZES_OF_TENSORS = ("size", "numel", "dim")


class _Unknown(Exception):
    """What no size decides."""


@dataclass(frozen=True)
class SizeCondition:
    """A condition of a text, with what is bound to its names in their places."""

    text: str
    open: tuple[str, ...]
    """What stands for sizes in it, as `rows` or `x.shape[0]`."""

    def holds(self, sizes: Mapping[str, _Values]) -> _Values | None:
        """For which of the sizes; None where something else decides it."""
        try:
            with np.errstate(all="ignore"):
                value = _value(ast.parse(self.text, mode="eval").body, sizes)
        except (_Unknown, TypeError, ValueError, OverflowError, ZeroDivisionError):
            return None
        held: _Values = np.asarray(value) != 0
        return held


@dataclass(frozen=True)
class Beside:
    """What else is known of the tensors that have the size."""

    sizes: tuple[int, ...] = ()
    """Of all dimensions."""
    elements: tuple[int, ...] = ()
    """How many elements there are for each index of it."""


def size_conditions(tree: ast.AST) -> tuple[SizeCondition, ...]:
    """Of functions and kernels alike, each once."""
    found: dict[str, SizeCondition] = {}
    for function, bound in _scopes(tree):
        for node in _conditions(function):
            try:
                whole = _Bound(bound).within(node)
            except _Unknown:
                continue
            names = tuple(dict.fromkeys(_open(whole)))
            condition = SizeCondition(written(whole), names)
            probe = {name: np.arange(1, 3, dtype=np.int64) for name in names}
            if 0 < len(names) <= _MOST_OPEN and condition.holds(probe) is not None:
                found.setdefault(condition.text, condition)
            if len(found) == _MOST_CONDITIONS:
                return tuple(found.values())
    return tuple(found.values())


def sizes_that_decide(
    conditions: Sequence[SizeCondition],
    most: int,
    tried: Collection[int],
    beside: Beside,
    chance: random.Random,
    count: int,
) -> list[int]:
    """So many sizes up to `most` that decide conditions as none of those tried does; few that decide many."""
    sizes = np.arange(1, min(most, _MOST_SIZES) + 1, dtype=np.int64)
    known = np.isin(sizes, list(tried))
    undecided = [
        members
        for condition in conditions
        for held in _ways(condition, sizes, beside)
        for members in (held, ~held)
        if members.any() and not (members & known).any()
    ]
    chosen: list[int] = []
    while undecided and len(chosen) < count:
        decides = np.sum(undecided, axis=0)
        best = int(chance.choice(np.flatnonzero(decides == decides.max()).tolist()))
        chosen.append(int(sizes[best]))
        undecided = [members for members in undecided if not members[best]]
    return chosen


def _ways(condition: SizeCondition, sizes: _Values, beside: Beside) -> Iterator[_Values]:
    """Each of its open names once as the size, or as a number of elements; the others as sizes that are known."""
    for name, times in product(condition.open, dict.fromkeys([1, *beside.elements])):
        others = [other for other in condition.open if other != name]
        choices = product(dict.fromkeys(beside.sizes), repeat=len(others))
        for values in islice(choices, _MOST_COMBINATIONS):
            known = dict(zip(others, (np.full_like(sizes, v) for v in values), strict=True))
            held = condition.holds({name: times * sizes, **known})
            if held is not None:
                yield np.broadcast_to(held, sizes.shape)


def _scopes(tree: ast.AST) -> Iterator[tuple[ast.AST, dict[str, ast.expr]]]:
    """Functions, each with what its names are bound to; names of the module stand in all of them."""
    module = _bound_once(tree, ())
    yield tree, module
    for node in ast.walk(tree):
        if isinstance(node, _Function):
            given = {arg.arg for arg in ast.walk(node.args) if isinstance(arg, ast.arg)}
            inner = _bound_once(node, given)
            yield node, {n: v for n, v in module.items() if n not in given} | inner


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """Those of a function, without those of functions in it."""
    waiting = deque(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.popleft()
        yield node
        if not isinstance(node, _Function):
            waiting += ast.iter_child_nodes(node)


def _bound_once(scope: ast.AST, given: Collection[str]) -> dict[str, ast.expr]:
    values: dict[str, list[ast.expr | None]] = {name: [None] for name in given}
    for node in _own_nodes(scope):
        match node:
            case ast.Assign(targets=[target], value=value):
                pairs = _pairs(target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                pairs = _pairs(target, value)
            case ast.NamedExpr(target=target, value=value):
                pairs = _pairs(target, value)
            case ast.Assign(targets=targets):
                pairs = [(name, None) for target in targets for name in _names(target)]
            case (
                ast.AugAssign(target=target)
                | ast.For(target=target)
                | ast.comprehension(target=target)
            ):
                # Twice: another value is bound already, or will be.
                pairs = [(name, None) for name in _names(target) for _ in range(2)]
            case _:
                continue
        for name, bound in pairs:
            values.setdefault(name, []).append(bound)
    return {name: one[0] for name, one in values.items() if len(one) == 1 and one[0] is not None}


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[str, ast.expr | None]]:
    if isinstance(target, ast.Name):
        return [(target.id, value)]
    match target, value:
        case ast.Tuple(elts=ours), ast.Tuple(elts=theirs) if len(ours) == len(theirs):
            both = zip(ours, theirs, strict=True)
            return [pair for one, of in both for pair in _pairs(one, of)]
    return [(name, None) for name in _names(target)]


def _names(target: ast.AST) -> list[str]:
    return [node.id for node in ast.walk(target) if isinstance(node, ast.Name)]


def _conditions(scope: ast.AST) -> Iterator[ast.expr]:
    """Comparisons, what else decides a branch, and where arithmetic does as a branch would."""
    for node in _own_nodes(scope):
        match node:
            case ast.Compare():
                yield node
            case ast.Match(subject=subject, cases=cases):
                for case in cases:
                    yield from (_is(subject, value) for value in _matched(case.pattern))
            case ast.Call(func=ast.Attribute(value=table, attr="get"), args=[key, *_]):
                yield ast.Compare(key, [ast.In()], [table])
            case ast.Subscript(value=ast.Dict() | ast.Name() as table, slice=key) if _is_one(key):
                yield ast.Compare(key, [ast.In()], [table])
            case ast.Call(func=ast.Name(id="abs"), args=[inside]):
                yield _is(inside, ast.Constant(0))
            case ast.Call(func=ast.Name(id="min" | "max"), args=[left, right]):
                yield ast.Compare(left, [ast.Lt()], [right])
            case ast.BinOp(op=ast.Mod()):
                yield _is(node, ast.Constant(0))
            case ast.BinOp(left=left, op=ast.FloorDiv()) if _has_remainder(left):
                yield _is(node, ast.Constant(0))
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                yield test
            case ast.BoolOp(values=values):
                yield from values
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield operand


def _is(left: ast.expr, right: ast.expr) -> ast.expr:
    return ast.Compare(left, [ast.Eq()], [right])


def _matched(pattern: ast.pattern) -> Iterator[ast.expr]:
    match pattern:
        case ast.MatchValue(value=value):
            yield value
        case ast.MatchOr(patterns=several):
            for one in several:
                yield from _matched(one)


def _is_one(key: ast.expr) -> bool:
    return not any(isinstance(part, ast.Slice) for part in ast.walk(key))


def _has_remainder(node: ast.expr) -> bool:
    return any(
        isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod) for part in ast.walk(node)
    )


class _Bound(ast.NodeTransformer):
    """Puts what names are bound to in their places, as far as that stays small."""

    def __init__(self, bound: Mapping[str, ast.expr]) -> None:
        self._bound, self._depth, self._nodes = bound, 0, 0

    def within(self, node: ast.expr) -> ast.expr:
        """A copy; raises `_Unknown` where it grows too large."""
        self._nodes += sum(1 for _ in islice(ast.walk(node), _MOST_NODES + 1))
        if self._nodes > _MOST_NODES:
            raise _Unknown
        result = self.visit(deepcopy(node))
        assert isinstance(result, ast.expr)
        return result

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.expr:
        """What it gives; the name there is no value."""
        result: ast.expr = self.visit(node.value)
        return result

    def visit_Name(self, node: ast.Name) -> ast.expr:
        value = self._bound.get(node.id) if isinstance(node.ctx, ast.Load) else None
        if value is None or self._depth == _DEEPEST or _is_size(value):
            return node
        self._depth += 1
        result = self.within(value)
        self._depth -= 1
        return result


def _is_size(node: ast.AST) -> bool:
    """`x.shape[0]`, `x.size(0)`, `x.numel()`, `len(x)`."""
    match node:
        case ast.Subscript(value=ast.Attribute(attr="shape")):
            return True
        case ast.Call(func=ast.Attribute(attr=name)) if name in _SIZES_OF_TENSORS:
            return True
        case ast.Call(func=ast.Name(id="len")):
            return True
    return False


def _open(node: ast.AST) -> Iterator[str]:
    """The names that are left, and what else is a size."""
    if _is_size(node) or isinstance(node, ast.Name | ast.Attribute):
        yield written(node)
        return
    children = node.args if isinstance(node, ast.Call) else ast.iter_child_nodes(node)
    for child in children:
        yield from _open(child)


def _value(node: ast.AST, sizes: Mapping[str, _Values]) -> Any:
    match node:
        case ast.Constant(value=bool() | int() | float() as value):
            return value
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_value(left, sizes), _value(right, sizes))
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int() as power)):
            if not 0 <= power <= 4:
                raise _Unknown
            return np.power(_value(left, sizes), power)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return np.negative(_value(operand, sizes))
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand, sizes)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return np.asarray(_value(operand, sizes)) == 0
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            return _compared([left, *comparators], ops, sizes)
        case ast.BoolOp(op=op, values=values):
            truths = [np.asarray(_value(operand, sizes)) != 0 for operand in values]
            joined = np.logical_and if isinstance(op, ast.And) else np.logical_or
            result = truths[0]
            for truth in truths[1:]:
                result = joined(result, truth)
            return result
        case ast.IfExp(test=test, body=body, orelse=other):
            held = np.asarray(_value(test, sizes)) != 0
            return np.where(held, _value(body, sizes), _value(other, sizes))
        case ast.Subscript(
            value=ast.Call(func=ast.Name(id="divmod"), args=[left, right]),
            slice=ast.Constant(value=0 | 1 as part),
        ):
            of = np.mod if part else np.floor_divide
            return of(_value(left, sizes), _value(right, sizes))
        case ast.Call(func=function, args=arguments, keywords=[]) if not _is_size(node):
            return _called(function, arguments, sizes)
    given = sizes.get(written(node))
    if given is None:
        raise _Unknown
    return given


def _compared(operands: list[ast.expr], ops: list[ast.cmpop], sizes: Mapping[str, _Values]) -> Any:
    result: Any = True
    for left, op, right in zip(operands, ops, operands[1:], strict=False):
        if isinstance(op, ast.In | ast.NotIn):
            any_of = np.isin(_value(left, sizes), [_value(item, {}) for item in _items(right)])
            held: Any = any_of if isinstance(op, ast.In) else ~any_of
        elif type(op) in _COMPARED:
            held = _COMPARED[type(op)](_value(left, sizes), _value(right, sizes))
        else:
            raise _Unknown
        result = np.logical_and(result, held)
    return result


def _items(node: ast.expr) -> list[ast.expr]:
    """Of a container that is written out."""
    match node:
        case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items):
            return items
        case ast.Dict(keys=keys):
            return [key for key in keys if key is not None]
    raise _Unknown


def _called(function: ast.expr, arguments: list[ast.expr], sizes: Mapping[str, _Values]) -> Any:
    name = function.attr if isinstance(function, ast.Attribute) else ""
    name = function.id if isinstance(function, ast.Name) else name
    if name not in _CALLED:
        raise _Unknown
    values = [_value(argument, sizes) for argument in arguments]
    if name in ("min", "max") and len(values) > 2:
        return np.asarray(np.min(values, axis=0) if name == "min" else np.max(values, axis=0))
    return _CALLED[name](*values)
