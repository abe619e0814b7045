"""Mean and variance in one reading: Inductor's three helper functions as plain statements."""

from __future__ import annotations

import ast
from collections.abc import Sequence

_REDUCE = "triton_helpers.welford_reduce"
_COMBINE = "triton_helpers.welford_combine"
_WHOLE = "triton_helpers.welford"
FUNCTIONS = (_REDUCE, _COMBINE, _WHOLE)
"""What `spelled_out` knows."""


def spelled_out(
    statement: ast.Assign, function: str, arguments: Sequence[ast.expr]
) -> list[ast.stmt]:
    """Statements that give the three targets: a mean, the squares' sum around it, and a weight."""
    targets = statement.targets[0]
    assert isinstance(targets, ast.Tuple)
    mean, squares, weight = map(ast.unparse, targets.elts)
    given = [f"({ast.unparse(argument)})" for argument in arguments]
    lines = {_REDUCE: _reduce, _COMBINE: _combine, _WHOLE: _whole}[function](
        (mean, squares, weight), given
    )
    return ast.parse("\n".join(lines)).body


def _reduce(targets: tuple[str, str, str], given: Sequence[str]) -> list[str]:
    """One more value; that the first has a weight of 0 before it makes it no special case."""
    mean, squares, weight = targets
    value, old_mean, old_squares, old_weight = given[:4]
    delta = f"{mean}_delta"
    return [
        f"{delta} = {value} - {old_mean}",
        f"{weight} = {old_weight} + 1",
        f"{mean} = {old_mean} + {delta} / {weight}",
        f"{squares} = {old_squares} + {delta} * ({value} - {mean})",
    ]


def _combine(targets: tuple[str, str, str], given: Sequence[str]) -> list[str]:
    mean, squares, weight = targets
    mean_1, squares_1, weight_1, mean_2, squares_2, weight_2 = given
    delta, share = f"{mean}_delta", f"{mean}_share"
    return [
        f"{delta} = tl.where({mean_1} == {mean_2}, 0.0, {mean_2} - {mean_1})",
        f"{weight} = {weight_1} + {weight_2}",
        f"{share} = tl.where({weight} == 0.0, 0.0, {weight_2} / {weight})",
        f"{mean} = {mean_1} + {delta} * {share}",
        f"{squares} = {squares_1} + {squares_2} + {delta} * {delta} * {weight_1} * {share}",
    ]


def _whole(targets: tuple[str, str, str], given: Sequence[str]) -> list[str]:
    """All lanes of a row together, each with its own weight."""
    mean, squares, weight = targets
    means, parts, weights, axis = given
    total, around = f"{mean}_total", f"{mean}_around"
    return [
        f"{weight} = tl.sum({weights}, {axis})",
        f"{total} = tl.sum({means} * {weights}, {axis})",
        # What is split into more parts than it has values leaves some without any.
        f"{mean} = {total} / tl.maximum({weight}, 1.0)",
        f"{around} = {means} - {mean}[:, None]",
        f"{squares} = tl.sum({parts} + {weights} * {around} * {around}, {axis})",
    ]
