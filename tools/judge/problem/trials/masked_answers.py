"""Answers that are infinite where a mask hides: of other numbers and weights they may be so there, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from kernelagent.tools.calls.complex_numbers import is_inexact, parts_first
from kernelagent.tools.judge.problem.trials.refusals import REFUSALS
from kernelagent.tools.judge.verify.compare.compare import leaves

Shares = tuple[float, ...]
"""Of each inexact tensor of a result, in order: how much of it is NaN or infinite."""
FINITE: Shares = ()
"""Of results that are finite everywhere, however many tensors they have."""


def shares_nonfinite(result: Any) -> Shares:
    """By tensor: one that overflows is none the less wrong where a mask hides in another."""
    shares = tuple(
        1 - float(leaf.isfinite().to(torch.float32).mean()) if leaf.numel() else 0.0
        for leaf in _inexact(result)
    )
    return shares if any(shares) else FINITE


def is_finite_everywhere(result: Any) -> bool:
    """Whether there is neither NaN nor an infinity in any tensor."""
    return shares_nonfinite(result) == FINITE


def is_as_finite(answer: Any, usual: Shares, beside: Callable[[], Any]) -> bool:
    """Whether an answer is no less finite than those on natural numbers, whose shares are `usual`.

    Each draw of a mask has its own share, so that `beside` may be asked, as for `is_hidden_alone`.
    """
    now = shares_nonfinite(answer)
    if not now or not usual:
        return not now
    as_much = len(now) == len(usual) and all(a <= b for a, b in zip(now, usual, strict=True))
    return as_much or _only_where(answer, beside)


def is_hidden_alone(answer: Any, beside: Callable[[], Any]) -> bool:
    """Whether an answer is finite, but for where `beside` is infinite: the answer to the same masks and natural numbers.

    NaN is no answer: of rows in which all is hidden, kernels make what they like.
    """
    return is_finite_everywhere(answer) or _only_where(answer, beside)


def _only_where(answer: Any, beside: Callable[[], Any]) -> bool:
    try:
        masked = [parts_first(leaf) for leaf in _inexact(beside())]
    except REFUSALS:
        return False
    own = [parts_first(leaf) for leaf in _inexact(answer)]
    return [t.shape for t in own] == [t.shape for t in masked] and all(
        not bool(a.isnan().any() or b.isnan().any()) and bool((a.isfinite() | ~b.isfinite()).all())
        for a, b in zip(own, masked, strict=True)
    )


def with_natural_numbers(
    tensors: Mapping[str, torch.Tensor], natural: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """The masks and whole numbers of `tensors`, and what is no whole number of `natural`."""
    return {name: natural[name] if is_inexact(t) else t for name, t in tensors.items()}


def _inexact(result: Any) -> list[torch.Tensor]:
    return [
        in_full(leaf)
        for _, leaf in leaves(result)
        if isinstance(leaf, torch.Tensor) and is_inexact(leaf)
    ]


def in_full(leaf: torch.Tensor) -> torch.Tensor:
    """Of 8 bits, torch can hardly do anything."""
    return leaf.to(torch.float32) if leaf.element_size() < 2 else leaf
