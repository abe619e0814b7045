"""Whole numbers at which the reference's answer is about to change, found by halving.

A comparison of products or quotients that is computed in too few bits is right on draws, and wrong next to where the
answer changes. Between two draws with unlike answers that place lies somewhere; whole numbers leave no doubt on
which side of it one is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from kernelagent.tools.calls.complex_numbers import is_inexact
from kernelagent.tools.judge.problem.trials.input_domain import Tensors, laid_out_like
from kernelagent.tools.judge.problem.trials.unlike_integers import INTEGERS
from kernelagent.tools.judge.verify.compare.compare import leaves

_MOST_HALVINGS = 64
_FEWEST_ROWS = 16

Answer = Callable[[Tensors], Any]
"""The reference's, with these tensors in the places of their names; the others are as in the first draw."""


def can_be_halved(tensor: torch.Tensor, answer: Any) -> bool:
    """Whether each row of this input may decide a whole number or a truth of its own."""
    if tensor.dtype not in INTEGERS or not tensor.dim() or len(tensor) < _FEWEST_ROWS:
        return False
    found = [leaf for _, leaf in leaves(answer) if isinstance(leaf, torch.Tensor)]
    return bool(found) and all(
        leaf.dim() > 0 and len(leaf) == len(tensor) and not is_inexact(leaf) for leaf in found
    )


def either_side(
    name: str, one: torch.Tensor, others: Iterable[torch.Tensor], answer: Answer
) -> Iterator[torch.Tensor]:
    """Rows of this input just before and just behind a change of the answer, between it and other draws of it.

    A row of which all draws have one answer stays as it is in `one`.
    """
    near = one.detach().long()
    far, kept = near, answer({name: one})
    for other in others:
        same = _of_rows(_same_rows(kept, answer({name: other})), near)
        far = torch.where(same | ~_of_rows(_same_rows(far, near), near), far, other.detach().long())
    for _ in range(_MOST_HALVINGS):
        # Towards the near end, so that neighbours come to an end.
        middle = near + torch.div(far - near, 2, rounding_mode="trunc")
        if torch.equal(middle, near):
            break
        same = _of_rows(_same_rows(kept, answer({name: laid_out_like(middle, one)})), near)
        near, far = torch.where(same, middle, near), torch.where(same, far, middle)
    if not torch.equal(near, far):
        yield laid_out_like(near, one)
        yield laid_out_like(far, one)


def _same_rows(one: Any, other: Any) -> torch.Tensor:
    pairs = [
        (left, right)
        for (_, left), (_, right) in zip(leaves(one), leaves(other), strict=True)
        if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor)
    ]
    rows = [(left == right).reshape(len(left), -1).all(1) for left, right in pairs]
    return torch.stack(rows).all(0)


def _of_rows(flags: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return flags.reshape(-1, *(1,) * (like.dim() - 1)).expand(like.shape)
