"""The largest value of each row and the sum of exponentials below it in one reading: Inductor's helpers as statements.

Source: "Online normalizer calculation for softmax" (1805.02867): a sum is scaled whenever the maximum rises.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

_COMBINE = "triton_helpers.online_softmax_combine"
_COMBINE_SUMS = "triton_helpers.online_softmax_combine_with_sum"
_REDUCE = "triton_helpers.online_softmax_reduce"
FUNCTIONS = (_COMBINE, _COMBINE_SUMS, _REDUCE)
"""What `spelled_out` knows."""
_NOTHING = 'float("-inf")'


def spelled_out(
    statement: ast.Assign, function: str, arguments: Sequence[ast.expr]
) -> list[ast.stmt]:
    """Statements that give the two targets: the maximum, and the sum of exponentials relative to it."""
    targets = statement.targets[0]
    assert isinstance(targets, ast.Tuple)
    largest, total = map(ast.unparse, targets.elts)
    given = [f"({ast.unparse(argument)})" for argument in arguments]
    if function == _REDUCE:
        values, sums, axis = given[:3]
        lines = _reduced(largest, total, values, sums, axis)
    else:
        old, old_sum, value = given[:3]
        # A value that comes alone is the sum of one exponential, its own.
        value_sum = given[3] if function == _COMBINE_SUMS else ""
        lines = _combined(largest, total, (old, old_sum), (value, value_sum))
    return ast.parse("\n".join(lines)).body


def _combined(
    largest: str, total: str, first: tuple[str, str], second: tuple[str, str]
) -> list[str]:
    """Of a maximum and a sum each; below a maximum of -inf every difference would be NaN."""
    (old, old_sum), (value, value_sum) = first, second
    scales = [
        f"tl.where({largest} == {_NOTHING}, 1.0, tl.exp({item} - {largest}))"
        for item in (old, value)
    ]
    added = f"{value_sum} * {scales[1]}" if value_sum else scales[1]
    return [
        f"{largest} = triton_helpers.maximum({old}, {value})",
        f"{total} = {old_sum} * {scales[0]} + {added}",
    ]


def _reduced(largest: str, total: str, values: str, sums: str, axis: str) -> list[str]:
    """All lanes of a row together."""
    below = f"tl.where({largest}[:, None] == {_NOTHING}, 0.0, {values} - {largest}[:, None])"
    return [
        f"{largest} = triton_helpers.max2({values}, {axis})",
        f"{total} = tl.sum({sums} * tl.exp({below}), {axis})",
    ]
