"""Plain numbers among the arguments, such as `k=3`, by their place."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.utils._pytree import keystr, tree_flatten_with_path, tree_unflatten

from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.trials.one_trial import pair

Number = int | float | bool
_FACTOR_LIKE = 0.25


def numbers_in(arguments: Arguments) -> dict[str, Number]:
    """All of a nest of arguments, for example `arguments[0][1]`."""
    leaves, _ = tree_flatten_with_path(arguments)
    return {
        f"arguments{keystr(path)}": leaf
        for path, leaf in leaves
        if isinstance(leaf, int | float) and not isinstance(leaf, torch.Tensor)
    }


def with_number(arguments: Arguments, name: str, number: Number) -> Arguments:
    """The same nest with this number at this place."""
    leaves, form = tree_flatten_with_path(arguments)
    changed = [number if f"arguments{keystr(path)}" == name else leaf for path, leaf in leaves]
    return pair(tree_unflatten(changed, form))


def others_near(number: Number) -> Iterator[Number]:
    """So near that a module may take them, and on the side on which a loop that goes by it rather ends sooner."""
    if isinstance(number, bool):
        yield not number
    elif isinstance(number, int):
        yield from (number + 1, number + 2)
    elif not number:
        yield 1.0
    else:
        # A factor below one becomes smaller, a tolerance larger.
        yield 0.75 * number if _FACTOR_LIKE < abs(number) < 1 else 1.25 * number
