"""Where a number overflows on the way to the reference's answer, or falls below every normal one: none is expected there."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from kernelagent.tools.calls.complex_numbers import is_inexact
from kernelagent.tools.calls.torch_dtypes import RANGE_OF_FLOAT32
from kernelagent.tools.judge.verify.compare import compare

_NEARLY_INFINITE = 1e30
"""Probes with larger float32 or bfloat16 outputs are weakened or dropped: an intermediate may overflow."""
_NEARLY_NOTHING = torch.finfo(torch.float32).tiny
"""So are those with an output that is smaller in every element, and not zero: on the way there parts of a product may be
infinite beside parts that are nothing, in one order of the factors and not in another."""


def has_range_of_float32(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.dtype in (*RANGE_OF_FLOAT32, torch.complex64)


def is_half(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.dtype == torch.float16


def beyond_half(answer: list[Any], eager: Any) -> list[Any]:
    """The float64 answer, infinite where fp16 has overflowed: a right kernel may round at other places on the way."""
    ours = [leaf for _, leaf in compare.leaves(eager) if isinstance(leaf, torch.Tensor)]
    return [
        torch.where(own.isfinite(), leaf, torch.inf) if is_half(own) else leaf
        for own, leaf in zip(ours, answer, strict=True)
    ]


def beyond_float32(answer: Any, names: Collection[str]) -> list[Any]:
    """The float64 answer, infinite where float32 intermediates may well overflow on the way to it."""
    result = dict(compare.leaves(answer))
    return [
        _infinite_where_unsure(leaf) if name in names else leaf
        for name, leaf in result.items()
        if isinstance(leaf, torch.Tensor)
    ]


def _infinite_where_unsure(leaf: torch.Tensor) -> torch.Tensor:
    size = leaf.abs()
    # Of 8 bits torch compares none, and none is so small.
    wide = leaf.element_size() > 1 and size.numel() > 0
    if wide and 0 < float(size.max()) < _NEARLY_NOTHING:
        return torch.full_like(leaf, torch.inf)
    return torch.where(size > _NEARLY_INFINITE, torch.inf, leaf)


def below_overflow(answer: Any) -> Any:
    """The same tree, infinite where an intermediate in float32 may well overflow on the way to it."""
    return tree_map_only(
        torch.Tensor,
        lambda t: _infinite_where_unsure(t) if is_inexact(t) else t,
        answer,
    )
