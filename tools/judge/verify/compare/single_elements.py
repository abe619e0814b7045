"""Elements that are far off by themselves, where a region's budget is as wide as its largest element.

Asked only of probes whose values differ in size by many powers of ten.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from kernelagent.tools.calls.torch_dtypes import HALVES
from kernelagent.tools.judge.verify.compare.within_budget.slices import dimensions

_OF_ITSELF = 0.1
_TOLD, _TOLD_IN_HALVES = 1e-3, 0.02
"""Of the right value: from there on what rounding does not explain is told. It is not refused: `1 - 2 / (1 + exp(2 * x))`
is as exact as a tangent near one, and loses a tenth near zero, whatever it is multiplied by."""
_OF_NATURAL = 0.01
_LEAST_OF_NATURAL = 1e-5
"""A value in float32 that is as large as the whole output errs by a hundredth of that."""
_LEAST = 1e-100
_ROUNDINGS = 1000.0
"""How many times what rounding the inputs does; a sum of many terms in another order loses hundreds."""
ROUNDINGS_OF_HALVES = 32.0
"""The same where the inputs are known to three digits, and sums are in float32 all the same."""
_STEPS = 16.0
"""How many times what rounding every step moved an element by, at most, in a few draws."""
TOLD_OF_HALVES = 4.0
"""The same of inputs in 16 bits, which all have exactly, for what is told: a kernel rounds what it makes of them a few times."""


def roundings_of(dtype: torch.dtype) -> float:
    """By how many roundings an element of this type may be off before it is refused."""
    return ROUNDINGS_OF_HALVES if dtype in HALVES else _ROUNDINGS


def at_an_index(
    values: torch.Tensor, reduced: Callable[[torch.Tensor, list[int]], torch.Tensor]
) -> torch.Tensor:
    """For each element the least of what all elements at one of its indices come to; of few elements all are taken."""
    result = reduced(values, list(range(values.dim())))
    for dim in dimensions(values.shape):
        others = [other for other in range(values.dim()) if other != dim]
        shape = [-1 if other == dim else 1 for other in range(values.dim())]
        result = torch.minimum(result, reduced(values, others).reshape(shape))
    return result.expand(values.shape)


@dataclass(frozen=True)
class FarOff:
    """Elements that are refused each by itself."""

    place: int
    """Row-major place of the one furthest beyond its limit."""
    elements: torch.Tensor
    """Which they are, in the output's shape."""


def far_off(
    candidate: torch.Tensor,
    eager: torch.Tensor,
    oracle64: torch.Tensor,
    moved: torch.Tensor,
    natural_rms: float,
    steps: torch.Tensor | None = None,
) -> FarOff | None:
    """The elements that are off by their own size; None where none is.

    `moved`: the float64 answer where every input was rounded once more, which says how far each element
    is known. An error counts only if it exceeds a tenth of the right value, a hundredth of the RMS of the output on
    natural inputs, and `roundings_of` its type times how far the right value is known. `steps`: by how much rounding each
    operation's result moved each element; where a weight is exactly one, what eager subtracts from itself is
    exactly zero, and no rounding of inputs shows that a kernel with another order has a rounding there.
    """
    least = torch.tensor(_OF_NATURAL * natural_rms, dtype=torch.float64)
    if steps is not None:
        # Beyond the range of float32 nothing is known.
        known_steps = torch.where(steps < torch.finfo(steps.dtype).max, steps, 0.0)
        least = least.maximum(_STEPS * known_steps.to(least))
    over = _over(candidate, eager, oracle64, moved, least, _OF_ITSELF)
    place = _furthest(over)
    return None if place is None else FarOff(place, (over > 1).reshape(oracle64.shape))


def first_off(
    candidate: torch.Tensor,
    eager: torch.Tensor,
    oracle64: torch.Tensor,
    moved: torch.Tensor,
    natural_rms: float,
    natural64: torch.Tensor | None = None,
) -> int | None:
    """The same of an error that is no reason to refuse, but to be told.

    `natural64`: the answer on natural inputs, of the same shape. A hundredth is then of the natural values that share a
    row or a column with the element: one large weight makes the others' no smaller.
    """
    of_itself = _TOLD_IN_HALVES if eager.dtype in HALVES else _TOLD
    least = torch.tensor(_OF_NATURAL * natural_rms, dtype=torch.float64)
    if natural64 is not None and natural64.dim():
        usual = at_an_index(natural64.to(torch.float64).nan_to_num(0.0, 0.0, 0.0), _rms)
        least = (_OF_NATURAL * usual).clamp_min(_LEAST_OF_NATURAL * natural_rms).minimum(least)
    return _furthest(_over(candidate, eager, oracle64, moved, least, of_itself))


def _rms(values: torch.Tensor, dims: list[int]) -> torch.Tensor:
    return values.square().mean(dims).sqrt()


def _over(
    candidate: torch.Tensor,
    eager: torch.Tensor,
    oracle64: torch.Tensor,
    moved: torch.Tensor,
    least: torch.Tensor,
    of_itself: float,
) -> torch.Tensor:
    """Each element's error over its limit, in one dimension."""
    right = oracle64.reshape(-1).to(torch.float64)
    ours, theirs, other = (t.reshape(-1).to(right) for t in (candidate, eager, moved))
    known = (theirs - right).abs().maximum((other - right).abs())
    # Where the right answer is exactly zero the limit may be, too.
    least = least.to(right).clamp_min(_LEAST).expand(oracle64.shape).reshape(-1)
    limit = (of_itself * right.abs()).maximum(roundings_of(eager.dtype) * known).maximum(least)
    over = (ours - right).abs() / limit
    return torch.where(over.isfinite() & ours.isfinite() & right.isfinite(), over, 0.0)


def _furthest(over: torch.Tensor) -> int | None:
    if not over.numel() or float(over.max()) <= 1:
        return None
    return int(over.argmax())
