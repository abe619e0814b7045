"""Calls that cannot be computed in advance: a hash of each output selects the inputs of the next call.

Every call has two draws of inputs. A digest of the previous output decides for each row from which of them
the row is taken, so the inputs are natural, and nobody knows them before that answer is there.
Everything stays on the device; the judge picks the same inputs again from the digests it is told.
Tensors that are no floats are taken from one draw together: lengths, offsets and masks belong together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

_ODD = -0x61C8864680B583EB
"""2**64 over the golden ratio, as a signed number: multiplying by it spreads bits."""
_STEP = 0x2545F4914F6CDD1D


def digest(output: Any) -> torch.Tensor:
    """One int64 on the output's device that depends on every byte of it."""
    total: torch.Tensor | None = None
    for leaf in tree_leaves(output):
        if not isinstance(leaf, torch.Tensor):
            continue
        result = _sum_of_words(leaf)
        total = result if total is None else total * _ODD + result
    if total is None:
        raise ValueError("there is no tensor in the output")
    return total * _ODD


def picked(first: Any, other: Any, state: torch.Tensor) -> Any:
    """The next arguments: each row from `first` or `other` by the bits of `state`.

    Tensors whose shape or dtype differs between the two draws are taken from `first`.
    """
    salt = iter(range(1 << 30))

    def pick(left: Any, right: Any) -> Any:
        if not isinstance(left, torch.Tensor) or not isinstance(right, torch.Tensor):
            return left
        number = next(salt)
        if left.shape != right.shape or left.dtype != right.dtype:
            return left
        if not left.is_floating_point() or left.dim() == 0:
            return torch.where(_bits(state, 1, 0).reshape(()), right, left)
        rows = left.shape if left.dim() == 1 else left.shape[:-1]
        bits = _bits(state, max(1, rows.numel()), number + 1).reshape(rows)
        return torch.where(bits if left.dim() == 1 else bits.unsqueeze(-1), right, left)

    return tree_map(pick, first, other)


def pair_at(sets: Sequence[Any], call: int) -> tuple[Any, Any]:
    """The two draws behind a call."""
    return sets[call % len(sets)], sets[(call + 1) % len(sets)]


def _sum_of_words(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    if flat.numel() % 4:
        return flat.sum(dtype=torch.int64)
    # A slice of something larger may begin between two words.
    words = (flat.clone() if flat.storage_offset() % 4 else flat).view(torch.int32)
    return words.sum(dtype=torch.int64)


def _bits(state: torch.Tensor, count: int, salt: int) -> torch.Tensor:
    places = torch.arange(count, device=state.device, dtype=torch.int64)
    mixed = (state + (places + (salt << 32)) * _STEP) * _ODD
    mixed = (mixed ^ (mixed >> 29)) * _STEP
    return ((mixed >> 40) & 1).to(torch.bool)
