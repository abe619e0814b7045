"""A step that is an attention, read: its operands and how it is to be done."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from kernelagent.models.compiler.capturing.attention import OPERATOR
from kernelagent.models.compiler.program.program import Step, Torch
from kernelagent.models.compiler.templates.convolution.convolved import contiguous


@dataclass(frozen=True)
class Call:
    """The arguments of one attention."""

    out: str
    query: ast.expr
    key: ast.expr
    value: ast.expr
    mask: ast.expr | None
    causal: bool
    scale: ast.expr | None
    """None: one over the square root of the head's size."""
    softmax_of_nothing: bool
    """A row that sees no key is NaN and not zero."""


def attention_of(step: Step) -> Call | None:
    """The attention that a step is; None for any other step."""
    statement = step.statement if isinstance(step, Torch) else None
    if not (isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call)):
        return None
    call = statement.value
    if ast.unparse(call.func) != OPERATOR or len(call.args) != 8 or call.keywords:
        return None
    query, key, value, mask, causal, scale, _, nothing = call.args
    return Call(
        ast.unparse(statement.targets[0]),
        query,
        key,
        value,
        None if ast.unparse(mask) == "None" else mask,
        ast.unparse(causal) == "True",
        None if ast.unparse(scale) == "None" else scale,
        ast.unparse(nothing) == "True",
    )


def result_layout(
    query: Sequence[ast.expr], value: Sequence[ast.expr]
) -> tuple[tuple[ast.expr, ...], tuple[ast.expr, ...]]:
    """Shape and strides of the result: in memory (batch, token, head, dim)."""
    batch, heads, tokens = query[:3]
    outer, by_token, by_head, by_dim = contiguous((batch, tokens, heads, value[3]))
    return (batch, heads, tokens, value[3]), (outer, by_head, by_token, by_dim)
