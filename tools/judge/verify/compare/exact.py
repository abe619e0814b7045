"""Outputs that are compared exactly: integers, booleans, indices; with ties where the reference leaves them open."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

IndexRule = Callable[[str, torch.Tensor, torch.Tensor], torch.Tensor]
"""`(output name, candidate, expected) -> bool per element`: an index that differs and is still valid."""


@dataclass(frozen=True)
class Difference:
    """Where an exact output is wrong."""

    message: str
    detail: dict[str, Any]
    rms: float
    largest: float


def exact_difference(
    name: str,
    got: torch.Tensor,
    eager: torch.Tensor,
    oracle: torch.Tensor,
    index_ok: IndexRule | None = None,
) -> Difference | None:
    """None when every element is right; all tensors have one shape, `got` and `eager` one dtype.

    Where rounding decides between eager and the oracle (a near tie), either value is right.
    """
    wrong = (got != eager) & (got != oracle.to(eager.dtype))
    if index_ok is not None and bool(wrong.any()):
        wrong &= ~index_ok(name, got, eager)
    count = int(wrong.sum())
    if not count:
        return None
    at = [int(position) for position in wrong.nonzero()[0]]
    value, want = got[tuple(at)].item(), eager[tuple(at)].item()
    distance = (got[wrong].to(torch.float64) - eager[wrong].to(torch.float64)).abs()
    message = (
        f"{name} differs in {count} of {got.numel()} elements, first at {at}: got {value}, "
        f"expected {want}"
    )
    return Difference(
        message=message,
        detail={
            "output": name,
            "index": at,
            "got": value,
            "expected": want,
            "share_wrong": count / got.numel(),
        },
        rms=math.sqrt(float(distance.square().sum()) / got.numel()),
        largest=float(distance.amax()),
    )


def same_gathered_values(values: Mapping[str, torch.Tensor], dim: int) -> IndexRule:
    """Accept any index along `dim` whose gathered value equals that of the expected index.

    For references that leave ties open (topk, sort, max with ties); `values` holds, by output
    name, the tensor that is indexed. An index out of range is never valid.
    """

    def rule(name: str, candidate: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
        source = values.get(name)
        if source is None:
            return torch.zeros_like(candidate, dtype=torch.bool)
        reduced = source.dim() == candidate.dim() + 1
        got, want = (
            (index.unsqueeze(dim) if reduced else index).to(torch.int64)
            for index in (candidate, expected)
        )
        inside = (got >= 0) & (got < source.shape[dim])
        result = source.gather(dim, torch.where(inside, got, 0))
        wanted = source.gather(dim, want)
        valid = inside & ((result == wanted) | (result.isnan() & wanted.isnan()))
        return valid.squeeze(dim) if reduced else valid

    return rule
