"""Attention that is trained, as CUDA has it: one operation forwards and one backwards, with torch's own gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from kernelagent.tools.virtual.cost.eager import EagerRow, EagerTraffic

CALLS: Mapping[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"is_causal": True},
    "with a mask": {"attn_mask": torch.ones(40, 40).tril() > 0},
}


def trained(device: str, **how: Any) -> tuple[list[EagerRow], list[torch.Tensor]]:
    torch.manual_seed(0)
    tensors = [torch.randn(2, 3, 40, 16, device=device, requires_grad=True) for _ in range(3)]
    how = {n: v.to(device) if isinstance(v, torch.Tensor) else v for n, v in how.items()}
    with EagerTraffic(None, reserved=True) as traffic, torch.enable_grad():
        out = scaled_dot_product_attention(*tensors, **how)
        upstream = torch.ones_like(out)
        found = torch.autograd.grad(out.sin(), tensors, upstream)
    return traffic.rows, list(found)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_forward_and_backward_are_an_operation_each(call: str, device: str) -> None:
    rows, _ = trained(device, **CALLS[call])
    names = [row.name for row in rows]
    assert names.count("scaled_dot_product_attention") == 1
    assert names[-1] == "scaled_dot_product_attention_backward"
    assert not {"bmm", "_softmax", "_softmax_backward_data"} & set(names)


def test_a_backward_has_five_products_where_a_forward_has_two() -> None:
    rows, _ = trained("meta", is_causal=True)
    by_name = {row.name: row for row in rows}
    forward = by_name["scaled_dot_product_attention"]
    backward = by_name["scaled_dot_product_attention_backward"]
    assert backward.dot_flops == 2.5 * forward.dot_flops == 2.5 * 2 * (6 * 40 * 40 // 2) * 32
    assert backward.loaded_bytes > forward.loaded_bytes
    assert backward.operation is not None
    assert backward.operation.kind == "attention"


@pytest.mark.parametrize("call", CALLS)
def test_gradients_are_torchs_own(call: str) -> None:
    _, found = trained("cpu", **CALLS[call])
    torch.manual_seed(0)
    tensors = [torch.randn(2, 3, 40, 16, requires_grad=True) for _ in range(3)]
    out = scaled_dot_product_attention(*tensors, **CALLS[call])
    for got, want in zip(found, torch.autograd.grad(out.sin().sum(), tensors), strict=True):
        torch.testing.assert_close(got, want)


def test_a_mask_that_is_trained_is_counted_as_it_is_done_here() -> None:
    mask = torch.randn(40, 40, requires_grad=True)
    tensors = [torch.randn(2, 3, 40, 16, requires_grad=True) for _ in range(3)]
    with EagerTraffic(None, reserved=True) as traffic, torch.enable_grad():
        out = scaled_dot_product_attention(*tensors, attn_mask=mask)
        torch.autograd.grad(out.sum(), [*tensors, mask])
    names = [row.name for row in traffic.rows]
    assert "scaled_dot_product_attention" in names
    assert "scaled_dot_product_attention_backward" not in names
