"""A step of a program that is a recurrence, read: its operands and the sizes of its result."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from kernelagent.models.compiler.capturing.recurrent import RECURRENCE
from kernelagent.models.compiler.program.program import Step, called, if_any

_ARGUMENTS = 10


@dataclass(frozen=True)
class Call:
    """The arguments of one recurrence; see `capturing.recurrent` for their shapes."""

    out: str
    gates: ast.expr
    back: ast.expr | None
    hidden: ast.expr
    cell: ast.expr | None
    weight: tuple[ast.expr, ...]
    bias: tuple[ast.expr, ...]
    weight_below: tuple[ast.expr, ...]
    bias_below: tuple[ast.expr, ...]
    first: int
    """The first of `hidden` and `cell` that is a chain's."""
    kind: str
    """As in `tools.estimates.recurrent.GATES`."""


def recurrence_of(step: Step) -> Call | None:
    """The recurrence that a step is; None for any other step."""
    found = called(step, RECURRENCE, _ARGUMENTS)
    if found is None:
        return None
    out, arguments = found
    gates, back, hidden, cell, weight, bias, below, bias_below, first, kind = arguments
    return Call(
        out,
        gates,
        if_any(back),
        hidden,
        if_any(cell),
        _parts(weight),
        _parts(bias),
        _parts(below),
        _parts(bias_below),
        int(ast.literal_eval(first)),
        str(ast.literal_eval(kind)),
    )


def _parts(node: ast.expr) -> tuple[ast.expr, ...]:
    assert isinstance(node, ast.List | ast.Tuple)
    return tuple(node.elts)


def result_shape(
    call: Call, gates: Sequence[ast.expr], hidden: Sequence[ast.expr]
) -> tuple[ast.expr, ...]:
    """(chain, step, row, unit): the given states come first, an LSTM's last cells last."""
    _, rows, units = hidden
    return (
        ast.Constant(len(call.weight)),
        _plus(gates[0], 1 if call.cell is None else 2),
        rows,
        units,
    )


def _plus(size: ast.expr, more: int) -> ast.expr:
    if isinstance(size, ast.Constant) and isinstance(size.value, int):
        return ast.Constant(size.value + more)
    return ast.BinOp(size, ast.Add(), ast.Constant(more))
