"""Elements that are far off by themselves, where a region's budget is as wide as its largest element.

Asked only of probes whose values differ in size by many powers of ten.
"""

from __future__ import annotations

import torch

from kernelagent.tools.calls.torch_dtypes import HALVES

_OF_ITSELF, _OF_ITSELF_IN_HALVES = 1e-3, 0.02
"""Of the right value. No honest candidate of the corpora needs more where rounding explains no more; a tenth let errors
of some hundredths pass in rows of a kind that only these probes have."""
_OF_SMALL, _SMALL = 0.1, 1e-5
"""A tenth of a right value may be lost where that is less than `_SMALL` of the natural RMS, or of the largest value here:
`1 - 2 / (1 + exp(2 * x))` is as exact as a tangent near one, and no more near zero, whatever it is multiplied by."""
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
    *,
    small_beside: float = 0.0,
) -> int | None:
    """Row-major place of the element that is furthest off by its own size; None where none is.

    `moved`: the float64 answer where every input was rounded once more, which says how far each element
    is known. An error counts only if it exceeds `_OF_ITSELF` of the right value, a hundredth of `natural_rms`, the RMS of
    the output on natural inputs, and `_ROUNDINGS` (or `_ROUNDINGS_OF_HALVES`) times how far the right value is known.
    `small_beside`: the same RMS, beside which some values are small.
    """
    right = oracle64.reshape(-1).to(torch.float64)
    ours, theirs, other = (t.reshape(-1).to(right) for t in (candidate, eager, moved))
    known = (theirs - right).abs().maximum((other - right).abs())
    halves = eager.dtype in HALVES
    times = _ROUNDINGS_OF_HALVES if halves else _ROUNDINGS
    own = (_OF_ITSELF_IN_HALVES if halves else _OF_ITSELF) * right.abs()
    finite = right[right.isfinite()].abs()
    large = max(small_beside, float(finite.max()) if finite.numel() else 0.0)
    own = own.maximum((_OF_SMALL * right.abs()).clamp_max(_SMALL * large))
    # Where the right answer is exactly zero the limit may be, too.
    least = max(_OF_NATURAL * natural_rms, _LEAST)
    limit = own.maximum(times * known).clamp_min(least)
    over = (ours - right).abs() / limit
    over = torch.where(over.isfinite() & ours.isfinite() & right.isfinite(), over, 0.0)
    if not over.numel() or float(over.max()) <= 1:
        return None
    return int(over.argmax())
