"""Whether a wrong answer is so far off that every judging would see it."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from kernelagent.tools.calls.complex_numbers import parts_of
from kernelagent.tools.calls.torch_dtypes import widened

_CLEARLY = {torch.float64: 1e-3, torch.float32: 1e-3, torch.float16: 1e-2, torch.bfloat16: 3e-2}
"""Of an element's own size and of the usual size of all: beyond what rounding explains in these types."""
_CLEARLY_OTHERWISE = 0.2
"""In types of 8 bits and fewer."""


def differs(right: Any, other: Any) -> bool:
    """Of two trees; whole numbers and truths have to be the same, floating ones nearly."""
    one, two = tree_leaves(right), tree_leaves(other)
    return len(one) != len(two) or any(map(_differ, one, two))


def _differ(right: Any, other: Any) -> bool:
    if not isinstance(right, torch.Tensor) or not isinstance(other, torch.Tensor):
        return bool(right != other)
    if right.shape != other.shape or right.dtype != other.dtype:
        return True
    if not right.numel() or right.layout != torch.strided:
        return False
    if right.is_complex():
        return any(map(_differ, parts_of(right), parts_of(other)))
    if not right.is_floating_point():
        return not torch.equal(right, other)
    a, b = widened(right.detach()).double(), widened(other.detach()).double()
    finite = a.isfinite()
    faults = torch.where(finite, 0.0, a), torch.where(b.isfinite(), 0.0, b)
    if not torch.equal(*(fault.nan_to_num(nan=1.0) for fault in faults)):
        return True
    a, b = torch.where(finite, a, 0.0), torch.where(finite, b, 0.0)
    # Rows may differ in size by powers of ten.
    usual = a.square().mean(-1, keepdim=True).sqrt() if a.dim() else a.abs()
    clearly = _CLEARLY.get(right.dtype, _CLEARLY_OTHERWISE)
    return bool(((a - b).abs() > clearly * (a.abs() + usual)).any())
