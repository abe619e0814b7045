"""torch's fused attention as its steps, so that what rounds inside of it is known: scores, weights, and a backward's differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

_ATEN = torch.ops.aten


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    key, value = (_for_each_head(t, query) for t in (key, value))
    scores = _scores(query, key, is_causal, attn_mask, scale)
    sums = scores.logsumexp(-1)
    out = _weights(scores, sums) @ value
    # In memory as the fused kernel has it.
    return out.transpose(1, 2).contiguous().transpose(1, 2), sums


def _attention_backward(
    upstream: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    out: torch.Tensor,
    sums: torch.Tensor,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    every_key, every_value = (_for_each_head(t, query) for t in (key, value))
    weights = _weights(_scores(query, every_key, is_causal, attn_mask, scale), sums)
    products = upstream @ every_value.transpose(-2, -1)
    slopes = weights * (products - (upstream * out).sum(-1, keepdim=True))
    slopes = slopes * _scale(query, scale)
    of_keys = slopes.transpose(-2, -1) @ query
    of_values = weights.transpose(-2, -1) @ upstream
    return slopes @ every_key, _of_shared_heads(of_keys, key), _of_shared_heads(of_values, value)


def _scale(query: torch.Tensor, scale: float | None) -> float:
    return 1 / math.sqrt(query.shape[-1]) if scale is None else scale


def _scores(
    query: torch.Tensor,
    key: torch.Tensor,
    causal: bool,
    mask: torch.Tensor | None,
    scale: float | None,
) -> torch.Tensor:
    scores = query @ key.transpose(-2, -1) * _scale(query, scale)
    if causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~seen, -math.inf)
    if mask is None:
        return scores
    return scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask


def _weights(scores: torch.Tensor, sums: torch.Tensor) -> torch.Tensor:
    """Of the softmax; zero for a row that sees nothing, as the fused kernel has it."""
    weights = (scores - sums.unsqueeze(-1)).exp()
    return weights.masked_fill((scores == -math.inf).all(-1, keepdim=True), 0.0)


def _for_each_head(tensor: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    groups = query.shape[1] // tensor.shape[1]
    return tensor if groups == 1 else tensor.repeat_interleave(groups, 1)


def _of_shared_heads(gradient: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    if gradient.shape[1] == like.shape[1]:
        return gradient
    batch, heads, *rest = gradient.shape
    return gradient.reshape(batch, like.shape[1], heads // like.shape[1], *rest).sum(2)


ATTENTION_STEPS: Mapping[Any, Callable[..., Any]] = {
    _ATEN._scaled_dot_product_flash_attention_for_cpu.default: _attention,
    _ATEN._scaled_dot_product_flash_attention_for_cpu_backward.default: _attention_backward,
}
"""By operation of torch's; without dropout, which no float64 reference has."""
