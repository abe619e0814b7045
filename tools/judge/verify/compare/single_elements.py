"""Elements that are far off by themselves, where a region's budget is as wide as its largest element.

Asked only of probes whose values differ in size by many powers of ten.
"""

from __future__ import annotations

import torch

from kernelagent.tools.calls.torch_dtypes import HALVES

_OF_ITSELF = 0.1
_TOLD, _TOLD_IN_HALVES = 1e-3, 0.02
"""Of the right value: from there on what rounding does not explain is told. It is not refused: `1 - 2 / (1 + exp(2 * x))`
is as exact as a tangent near one, and loses a tenth near zero, whatever it is multiplied by."""
_OF_NATURAL = 0.01
_LEAST = 1e-100
_ROUNDINGS = 1000.0
"""How many times what rounding the inputs does; a sum of many terms in another order loses hundreds."""
_ROUNDINGS_OF_HALVES = 32.0
"""The same where the inputs are known to three digits, and sums are in float32 all the same."""


def first_far_off(
    candidate: torch.Tensor,
    eager: torch.Tensor,
    oracle64: torch.Tensor,
    moved: torch.Tensor,
    natural_rms: float,
) -> int | None:
    """Row-major place of the element that is furthest off by its own size; None where none is.

    `moved`: the float64 answer where every input was rounded once more, which says how far each element
    is known. An error counts only if it exceeds a tenth of the right value, a hundredth of the RMS of the output on
    natural inputs, and `_ROUNDINGS` (or `_ROUNDINGS_OF_HALVES`) times how far the right value is known.
    """
    return _furthest(candidate, eager, oracle64, moved, natural_rms, _OF_ITSELF)


def first_off(
    candidate: torch.Tensor,
    eager: torch.Tensor,
    oracle64: torch.Tensor,
    moved: torch.Tensor,
    natural_rms: float,
) -> tuple[int, float] | None:
    """The same of an error that is no reason to refuse, but to be told; and how large it is beside the right value."""
    of_itself = _TOLD_IN_HALVES if eager.dtype in HALVES else _TOLD
    place = _furthest(candidate, eager, oracle64, moved, natural_rms, of_itself)
    if place is None:
        return None
    right = float(oracle64.reshape(-1)[place])
    return place, abs(float(candidate.reshape(-1)[place]) - right) / max(abs(right), _LEAST)


def _furthest(
    candidate: torch.Tensor,
    eager: torch.Tensor,
    oracle64: torch.Tensor,
    moved: torch.Tensor,
    natural_rms: float,
    of_itself: float,
) -> int | None:
    right = oracle64.reshape(-1).to(torch.float64)
    ours, theirs, other = (t.reshape(-1).to(right) for t in (candidate, eager, moved))
    known = (theirs - right).abs().maximum((other - right).abs())
    times = _ROUNDINGS_OF_HALVES if eager.dtype in HALVES else _ROUNDINGS
    # Where the right answer is exactly zero the limit may be, too.
    least = max(_OF_NATURAL * natural_rms, _LEAST)
    limit = (of_itself * right.abs()).maximum(times * known).clamp_min(least)
    over = (ours - right).abs() / limit
    over = torch.where(over.isfinite() & ours.isfinite() & right.isfinite(), over, 0.0)
    if not over.numel() or float(over.max()) <= 1:
        return None
    return int(over.argmax())
