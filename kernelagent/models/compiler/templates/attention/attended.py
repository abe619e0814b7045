"""A step that is an attention, read: its operands and how it is to be done."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from kernelagent.models.compiler.capturing.attention import OPERATOR
from kernelagent.models.compiler.program.program import Step, called
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
    found = called(step, OPERATOR, 8)
    if found is None:
        return None
    out, arguments = found
    query, key, value, mask, causal, scale, _, nothing = arguments
    return Call(
        out,
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
