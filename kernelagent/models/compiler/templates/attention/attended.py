"""Steps that are an attention, or a part of one's backward, read: their operands and how they are to be done."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from kernelagent.models.compiler.capturing.attention import OPERATOR
from kernelagent.models.compiler.capturing.attention_gradients import (
    KEY_VALUE_GRADIENTS,
    QUERY_GRADIENT,
    WITH_ROWS,
)
from kernelagent.models.compiler.program.program import Step, Torch, called, if_any
from kernelagent.models.compiler.templates.convolution.convolved import contiguous

Shape = Sequence[ast.expr]


@dataclass(frozen=True)
class Call:
    """The arguments of one attention."""

    out: str
    """Where there are two results the pair of them."""
    query: ast.expr
    key: ast.expr
    value: ast.expr
    mask: ast.expr | None
    causal: bool
    scale: ast.expr | None
    """None: one over the square root of the head's size."""
    softmax_of_nothing: bool
    """A row that sees no key is NaN and not zero."""
    results: int = 1


@dataclass(frozen=True)
class TakenPart:
    """Of `name = of[number]`."""

    name: str
    of: str
    number: int


@dataclass(frozen=True)
class GradientCall:
    """The arguments of one part of an attention's backward; see `capturing.attention_gradients` for their shapes."""

    attention: Call
    """Its `out` is that of the gradient, or the pair of the key's and the value's."""
    upstream: ast.expr
    rows: ast.expr
    delta: ast.expr
    of_query: bool


def attention_of(step: Step) -> Call | None:
    """The attention that a step is; None for any other step."""
    found = called(step, OPERATOR, 8)
    if found is not None:
        out, (query, key, value, mask, causal, scale, _, nothing) = found
        return _call(out, (query, key, value, mask), (causal, scale), nothing=_is_true(nothing))
    found = called(step, WITH_ROWS, 6)
    if found is None:
        return None
    out, (query, key, value, mask, causal, scale) = found
    return _call(out, (query, key, value, mask), (causal, scale), results=2)


def gradient_of(step: Step) -> GradientCall | None:
    """The part of a backward that a step is; None for any other step."""
    for operator in (QUERY_GRADIENT, KEY_VALUE_GRADIENTS):
        found = called(step, operator, 9)
        if found is not None:
            out, (upstream, query, key, value, mask, rows, delta, causal, scale) = found
            of_query = operator == QUERY_GRADIENT
            results = 1 if of_query else 2
            call = _call(out, (query, key, value, mask), (causal, scale), results=results)
            return GradientCall(call, upstream, rows, delta, of_query)
    return None


def part_of(step: Step) -> TakenPart | None:
    """What `made = pair[1]` takes; None for any other step."""
    statement = step.statement if isinstance(step, Torch) else None
    if not (isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Subscript)):
        return None
    pair, place = statement.value.value, statement.value.slice
    if not (isinstance(pair, ast.Name) and isinstance(place, ast.Constant)):
        return None
    return TakenPart(ast.unparse(statement.targets[0]), pair.id, int(str(place.value)))


def result_layout(query: Shape, value: Shape) -> tuple[tuple[ast.expr, ...], tuple[ast.expr, ...]]:
    """Shape and strides of the result: in memory (batch, token, head, dim)."""
    batch, heads, tokens = query[:3]
    outer, by_token, by_head, by_dim = contiguous((batch, tokens, heads, value[3]))
    return (batch, heads, tokens, value[3]), (outer, by_head, by_token, by_dim)


def _call(
    out: str,
    given: tuple[ast.expr, ast.expr, ast.expr, ast.expr],
    how: tuple[ast.expr, ast.expr],
    *,
    nothing: bool = False,
    results: int = 1,
) -> Call:
    query, key, value, mask = given
    causal, scale = how
    return Call(
        out, query, key, value, if_any(mask), _is_true(causal), if_any(scale), nothing, results
    )


def _is_true(node: ast.expr) -> bool:
    return ast.unparse(node) == "True"
