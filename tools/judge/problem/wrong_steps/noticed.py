"""Whether a wrong answer is so far off that every judging would see it."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from kernelagent.tools.calls.complex_numbers import parts_of
from kernelagent.tools.calls.torch_dtypes import widened
from kernelagent.tools.judge.problem.reference.copies import same_bits

_CLEARLY = {torch.float64: 1e-3, torch.float32: 1e-3, torch.float16: 1e-2, torch.bfloat16: 3e-2}
"""Of an element's own size and of the usual size of all: beyond what rounding explains in these types."""
_PLAIN = (int, float, complex, str, bytes)
_AT_ONCE = 1 << 22
"""Elements, each of which takes some eight float64 numbers for the while."""
_CLEARLY_OTHERWISE = 0.2
"""In types of 8 bits and fewer."""


def differs(right: Any, other: Any) -> bool:
    """Of two trees; whole numbers and truths have to be the same, floating ones nearly."""
    one, two = tree_leaves(right), tree_leaves(other)
    return len(one) != len(two) or any(map(_differ, one, two))


def _differ(right: Any, other: Any) -> bool:
    if not isinstance(right, torch.Tensor) or not isinstance(other, torch.Tensor):
        # What holds several numbers, as an array does, is judged elsewhere.
        plain = isinstance(right, _PLAIN) and isinstance(other, _PLAIN)
        return plain and right != other and (right == right or other == other)
    if right.shape != other.shape or right.dtype != other.dtype:
        return True
    if not right.numel() or right.layout != torch.strided:
        return False
    if right.is_complex():
        return any(map(_differ, parts_of(right), parts_of(other)))
    if not right.is_floating_point():
        return not same_bits(right, other)
    clearly = _CLEARLY.get(right.dtype, _CLEARLY_OTHERWISE)
    length = right.shape[-1] if right.dim() else 1
    ours, theirs = right.detach().reshape(-1, length), other.detach().reshape(-1, length)
    rows = max(1, _AT_ONCE // length)
    begins = range(0, len(ours), rows)
    return any(_rows_differ(ours[at : at + rows], theirs[at : at + rows], clearly) for at in begins)


def _rows_differ(right: torch.Tensor, other: torch.Tensor, clearly: float) -> bool:
    a, b = widened(right).double(), widened(other).double()
    finite = a.isfinite()
    faults = torch.where(finite, 0.0, a), torch.where(b.isfinite(), 0.0, b)
    if not torch.equal(*(fault.nan_to_num(nan=1.0) for fault in faults)):
        return True
    a, b = torch.where(finite, a, 0.0), torch.where(finite, b, 0.0)
    # Rows may differ in size by powers of ten.
    usual = a.square().mean(-1, keepdim=True).sqrt()
    return bool(((a - b).abs() > clearly * (a.abs() + usual)).any())
