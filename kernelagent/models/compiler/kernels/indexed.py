"""The place of a row's largest or smallest value: Inductor's helper functions as plain statements.

A NaN is both the largest and the smallest, as in torch, and of equal values the first counts.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

_NEXT = {"triton_helpers.maximum_with_index": ">", "triton_helpers.minimum_with_index": "<"}
_WHOLE = {"triton_helpers.max_with_index": "tl.max", "triton_helpers.min_with_index": "tl.min"}
_NO_PLACE = 2**31 - 1
"""Beyond any place in a row; a number for places of 32 bits too."""
FUNCTIONS = (*_NEXT, *_WHOLE)
"""What `spelled_out` knows."""


def spelled_out(
    statement: ast.Assign, function: str, arguments: Sequence[ast.expr]
) -> list[ast.stmt]:
    """Statements that give the two targets: a value and its place."""
    targets = statement.targets[0]
    assert isinstance(targets, ast.Tuple)
    value, place = map(ast.unparse, targets.elts)
    given = [ast.unparse(argument) for argument in arguments]
    lines = (
        _next(value, place, _NEXT[function], given)
        if function in _NEXT
        else _whole(value, place, _WHOLE[function], given)
    )
    return ast.parse("\n".join(lines)).body


def _next(value: str, place: str, beats: str, given: Sequence[str]) -> list[str]:
    """Merges the next block of a row into each lane's best value and its index so far.

    Of equal values the smaller index wins: later blocks have larger indices, but the placeholder of a lane that has
    none yet is larger than any.
    """
    best, best_place, new, new_place = given
    keeps = f"{value}_keeps"
    return [
        f"{keeps} = ({best} {beats} {new}) | ({best} != {best}) "
        f"| (({best} == {new}) & ({best_place} < {new_place}))",
        f"{value} = tl.where({keeps}, {best}, {new})",
        f"{place} = tl.where({keeps}, {best_place}, {new_place})",
    ]


def _whole(value: str, place: str, reduction: str, given: Sequence[str]) -> list[str]:
    """The lanes of a row together: the least place among those that hold the best."""
    values, places, axis = given
    row, unordered = f"{value}_row", f"{value}_nan"
    return [
        f"{row} = {reduction}({values}, {axis})[:, None]",
        f"{unordered} = tl.max(({values} != {values}).to(tl.int32), {axis})[:, None] > 0",
        f"{place} = tl.min(tl.where(tl.where({unordered}, {values} != {values}, "
        f"{values} == {row}), {places}, {_NO_PLACE}), {axis})",
        f"{value} = tl.sum(tl.where({places} == {place}[:, None], {values}, 0), {axis})",
    ]
