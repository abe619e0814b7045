"""Attention as one step that torch does itself, where a module is traced on a CPU.

Otherwise the trace would contain torch's CPU-only attention kernel, which does not exist on a GPU.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

OPERATOR = "torch.ops.kernelagent.attention.default"
"""How Inductor spells the step."""
_SCHEMA = (
    "(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, bool is_causal, float? scale, "
    "bool enable_gqa, bool softmax_of_nothing) -> Tensor"
)
_LONGEST_HEAD = 256
_LEFT_OUT = {"attn_mask": "None", "is_causal": "False", "scale": "None", "enable_gqa": "False"}


# `softmax_of_nothing`: a row that sees no key is NaN, as a softmax has it, and not zero.
@torch.library.custom_op("kernelagent::attention", mutates_args=(), schema=_SCHEMA)
def _attention(
    query: Any, key: Any, value: Any, mask: Any, causal: Any, scale: Any, gqa: Any, nan: Any
) -> Any:
    out = scaled_dot_product_attention(
        query, key, value, mask, 0.0, causal, scale=scale, enable_gqa=gqa
    )
    return laid_out(out)


@_attention.register_fake
def _(
    query: Any, key: Any, value: Any, mask: Any, causal: Any, scale: Any, gqa: Any, nan: Any
) -> Any:
    return laid_out(query.new_empty((*query.shape[:-1], value.shape[-1])))


def laid_out(out: torch.Tensor) -> torch.Tensor:
    """Memory order (batch, token, head, dim): what torch's fused kernels return and the next layer reads."""
    return out.transpose(1, 2).contiguous().transpose(1, 2)


def _instead_of_the_cpus(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> Any:
    if dropout_p:
        return NotImplemented
    if not fits_a_tile(query, value):
        return _written_out(query, key, value, attn_mask, is_causal, scale)
    # Grouped-query attention: key and value heads are passed without being repeated.
    shared = key.shape[1] != query.shape[1]
    out = _attention(query, key, value, attn_mask, is_causal, scale, shared, False)
    # What only a backward pass reads.
    return out, query.new_empty(query.shape[:-1], dtype=torch.float32)


def fits_a_tile(query: torch.Tensor, value: torch.Tensor) -> bool:
    """Whether heads are short enough that one program holds a tile of queries and what it adds up."""
    return max(query.shape[-1], value.shape[-1]) <= _LONGEST_HEAD


def _written_out(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    causal: bool,
    scale: float | None,
) -> Any:
    """As products and a softmax, which have kernels for any length."""
    if key.shape[1] != query.shape[1]:
        groups = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    scores = query @ key.transpose(-2, -1)
    # A tensor, as the length of a head may be a variable.
    length = torch.full((), query.shape[-1], dtype=torch.float32, device=query.device)
    scores = scores * (length.rsqrt() if scale is None else scale)
    if causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device).tril()
        scores = scores.masked_fill(~seen, -math.inf)
    if mask is not None:
        scores = scores + mask
    weights = torch.softmax(scores, -1)
    if mask is not None:
        nothing = (scores == -math.inf).all(-1, keepdim=True)
        weights = torch.where(nothing, 0.0, weights)
    return weights @ value, query.new_empty(query.shape[:-1], dtype=torch.float32)


WHOLE: dict[Any, Callable[..., Any]] = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default: _instead_of_the_cpus
}
"""What tracing puts in the place of torch's CPU kernel."""


@contextmanager
def layers_unfused() -> Iterator[None]:
    """Disables the fused fast path of torch's transformer layers, so that they are traced normally."""
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)


def spelled_out(call: ast.Call) -> ast.expr:
    """The call as candidate source, with the traced memory layout, which needs no copy on a GPU."""
    tensors, rest = call.args[:3], call.args[3:7]
    words = [ast.unparse(tensor) for tensor in tensors]
    for (name, left_out), value in zip(_LEFT_OUT.items(), rest, strict=True):
        text = ast.unparse(value)
        if text != left_out:
            words.append(f"{name}={text}")
    text = f"torch.nn.functional.scaled_dot_product_attention({', '.join(words)})"
    laid_out = f"{text}.transpose(1, 2).contiguous().transpose(1, 2)"
    return ast.parse(laid_out, mode="eval").body
