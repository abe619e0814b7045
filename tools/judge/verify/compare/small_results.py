"""Results far below the largest, whose errors no budget of a whole tensor sees: how far are they off? And the sign of zeros.

A probability of a millionth beside one of a half is as nothing to a comparison of sums of squares, and everything to the
logarithm that is taken of it. What is found is told, never a refusal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from kernelagent.tools.calls.complex_numbers import is_inexact, parts_first
from kernelagent.tools.calls.torch_dtypes import widened
from kernelagent.tools.judge.verify.compare.compare import leaves


@dataclass(frozen=True)
class _Off:
    """So far off an element is told."""

    known: float
    """Of an element's size: where the reference itself is as near to the float64 answer, the element is determined."""
    lost: float
    """Of an element's size."""
    share: float
    """Of the determined elements; fewer may have come near zero by cancellation."""
    said: str


_LOST = _Off(1 / 16, 0.5, 0.01, "half")
_FAR = _Off(1e-4, 0.05, 0.02, "a twentieth")
"""Where the reference knows four digits of an element, fewer than two of them right are none of rounding's."""
_FEWEST = 8
_SHARE = 0.01
"""Of the zeros whose sign is known."""


def lost_results(answer: Any, eager: Any, right: Any) -> str | None:
    """A sentence where results are off by more than half of themselves, or a twentieth of what the reference knows well.

    None: none are, or nothing can be said.
    """
    rows = zip(leaves(answer), leaves(eager), leaves(right), strict=True)
    for (name, ours), (_, usual), (_, exact) in rows:
        if not _floating(ours, usual, exact):
            continue
        ours, usual, exact = (parts_first(t) for t in (ours, usual, exact))
        for limit in (_LOST, _FAR):
            message = _lost(name, ours, usual, exact, limit)
            if message is not None:
                return message
    return None


def zeros_of_other_sign(answer: Any, eager: Any, right: Any) -> str | None:
    """A sentence where zeros have another sign than the reference's own, which its type does not decide; None as above."""
    rows = zip(leaves(answer), leaves(eager), leaves(right), strict=True)
    for (name, ours), (_, usual), (_, exact) in rows:
        if not _floating(ours, usual, exact) or ours.shape != exact.shape:
            continue
        # A complex product's parts are differences of products, whose zeros have either sign by the order alone.
        if usual.is_complex():
            continue
        wide, signs = widened(usual), widened(usual).signbit()
        known = (wide == 0) & (exact == 0) & (signs == exact.signbit())
        other = known & (widened(ours) == 0) & (widened(ours).signbit() != signs)
        count, of = int(other.sum()), int(known.sum())
        if count >= max(_FEWEST, _SHARE * of):
            return f"{100 * count / of:.0f}% of the zeros in {name}"
    return None


def _floating(*tensors: object) -> bool:
    return all(isinstance(t, torch.Tensor) and is_inexact(t) for t in tensors)


def _lost(
    name: str, ours: torch.Tensor, usual: torch.Tensor, exact: torch.Tensor, limit: _Off
) -> str | None:
    if ours.shape != exact.shape or not exact.numel():
        return None
    wide, size = exact.double(), exact.double().abs()
    # Smaller ones a GPU may flush.
    normal = max(torch.finfo(usual.dtype).tiny, torch.finfo(torch.float32).tiny)
    known = (size >= normal) & size.isfinite()
    known &= (widened(usual).double() - wide).abs() <= limit.known * size
    lost = known & ~((widened(ours).double() - wide).abs() <= limit.lost * size)
    count, of = int(lost.sum()), int(known.sum())
    if count < max(_FEWEST, limit.share * of):
        return None
    first = int(lost.reshape(-1).nonzero()[0])
    got, expected = float(widened(ours).reshape(-1)[first]), float(wide.reshape(-1)[first])
    return (
        f"{100 * count / of:.0f}% of {name}'s elements are off by more than {limit.said} of their size, such as {got:.3g} in the "
        f"place of {expected:.3g}"
    )
