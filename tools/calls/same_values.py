"""Whether two nests of lists, dictionaries and values are the same, bit for bit and in the same order."""

from __future__ import annotations

from typing import Any

import torch


def same_values(left: Any, right: Any) -> bool:
    """True when nothing was written, added, removed, exchanged or put in another order; NaN is like NaN."""
    if type(left) is not type(right):
        return False
    if isinstance(left, torch.Tensor):
        return left is right or _same_tensors(left, right)
    if isinstance(left, dict):
        return [*left] == [*right] and all(same_values(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same_values, left, right))
    return bool(left == right or (left != left and right != right))


def _same_tensors(left: torch.Tensor, right: torch.Tensor) -> bool:
    if left.shape != right.shape or left.dtype != right.dtype or left.device != right.device:
        return False
    return same_bytes(left, right)


def same_bytes(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors of one shape and type have the same bits."""
    # A view that is negated or conjugated lazily is what torch reads from it.
    plain = (t.detach().resolve_conj().resolve_neg() for t in (left, right))
    a, b = (t.contiguous().reshape(-1).view(torch.uint8) for t in plain)
    return bool(torch.equal(a, b))
