"""Attention that is trained, as three steps with kernels of ours: the forward, and two of its backward.

No scores are kept: of each row of the softmax the backward reads the highest score and one over the sum of the
exponentials (Dao et al., arXiv:2205.14135, keep the logarithm of both, which loses the sum beside a score as low as
masks are made of).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

from kernelagent.models.compiler.capturing.attention import fits_a_tile, laid_out

WITH_ROWS = "torch.ops.kernelagent.attention_with_rows.default"
QUERY_GRADIENT = "torch.ops.kernelagent.attention_query_gradient.default"
KEY_VALUE_GRADIENTS = "torch.ops.kernelagent.attention_key_value_gradients.default"
"""How Inductor spells the steps."""
_GIVEN = "Tensor query, Tensor key, Tensor value, Tensor? attn_mask"
_HOW = "bool is_causal, float? scale"
_SAVED = f"Tensor upstream, {_GIVEN}, Tensor rows, Tensor delta, {_HOW}"


# `rows` is (batch, head, query, 2): the highest score in the kernel's own units, and one over the sum.
@torch.library.custom_op(
    "kernelagent::attention_with_rows",
    mutates_args=(),
    schema=f"({_GIVEN}, {_HOW}) -> (Tensor, Tensor rows)",
)
def _with_rows(*given: Any) -> Any:
    raise NotImplementedError(_ONLY_WRITTEN)


# `delta` is (batch, head, query): the sum of each row of the result times its upstream gradient.
@torch.library.custom_op(
    "kernelagent::attention_query_gradient", mutates_args=(), schema=f"({_SAVED}) -> Tensor"
)
def _query_gradient(*given: Any) -> Any:
    raise NotImplementedError(_ONLY_WRITTEN)


@torch.library.custom_op(
    "kernelagent::attention_key_value_gradients",
    mutates_args=(),
    schema=f"({_SAVED}) -> (Tensor, Tensor)",
)
def _key_value_gradients(*given: Any) -> Any:
    raise NotImplementedError(_ONLY_WRITTEN)


_ONLY_WRITTEN = "a graph with it is only ever written as source"


@_with_rows.register_fake
def _(query: Any, key: Any, value: Any, *_: Any) -> Any:
    rows = query.new_empty((*query.shape[:-1], 2), dtype=torch.float32)
    return laid_out(query.new_empty((*query.shape[:-1], value.shape[-1]))), rows


@_query_gradient.register_fake
def _(upstream: Any, query: Any, *_: Any) -> Any:
    return laid_out(query.new_empty(query.shape))


@_key_value_gradients.register_fake
def _(upstream: Any, query: Any, key: Any, value: Any, *_: Any) -> Any:
    return laid_out(key.new_empty(key.shape)), laid_out(value.new_empty(value.shape))


def _forward(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> Any:
    return torch.ops.kernelagent.attention_with_rows(query, key, value, attn_mask, is_causal, scale)


def _backward(
    upstream: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    out: torch.Tensor,
    rows: torch.Tensor,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> Any:
    delta = (upstream.float() * out.float()).sum(-1)
    given = (upstream, query, key, value, attn_mask, rows, delta, is_causal, scale)
    own = torch.ops.kernelagent
    return own.attention_query_gradient(*given), *own.attention_key_value_gradients(*given)


TRAINED: dict[Any, Callable[..., Any]] = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default: _forward,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default: _backward,
}
"""What tracing puts in the place of torch's CPU kernels."""


class FusedWhereItFits(TorchFunctionMode):
    """Attention is traced as the steps above where they have kernels; elsewhere as products and a softmax.

    `fused`: whether any is.
    """

    def __init__(self, *, fused: bool) -> None:
        super().__init__()
        self._fused = fused

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = dict(kwargs or {})
        if func is not scaled_dot_product_attention:
            return func(*args, **given)
        query, _, value, *_ = (*args, *(given[n] for n in ("query", "key", "value") if n in given))
        first = SDPBackend.MATH
        if self._fused and _has_kernels(query, value):
            first = SDPBackend.FLASH_ATTENTION
        with sdpa_kernel([first, SDPBackend.MATH]):
            return func(*args, **given)


def _has_kernels(query: torch.Tensor, value: torch.Tensor) -> bool:
    return query.dim() == 4 and query.dtype != torch.float64 and fits_a_tile(query, value)
