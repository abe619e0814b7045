"""torch's fused attention taken apart has the same answers and gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode

from kernelagent.tools.judge.problem.reference.attention_inside import ATTENTION_STEPS


class _TakenApart(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.met: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        steps = ATTENTION_STEPS.get(func)
        if steps is None:
            return func(*args, **(kwargs or {}))
        self.met.append(str(func))
        return steps(*args, **(kwargs or {}))


CALLS: Mapping[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"is_causal": True},
    "scaled": {"scale": 0.3},
    "a mask that is added": {"attn_mask": torch.randn(9, 12, dtype=torch.float64)},
    "a mask that hides a row": {"attn_mask": torch.ones(9, 12).tril(-1) > 0},
    "grouped heads": {"enable_gqa": True},
}


def _tensors(heads: int) -> list[torch.Tensor]:
    torch.manual_seed(0)
    shapes = ((2, 4, 9, 8), (2, heads, 12, 8), (2, heads, 12, 8))
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


@pytest.mark.parametrize("call", CALLS)
def test_its_steps_answer_as_it_does(call: str) -> None:
    tensors = _tensors(2 if call == "grouped heads" else 4)
    results = []
    mode = _TakenApart()
    for apart in (False, True):
        with mode if apart else torch.enable_grad():
            out = scaled_dot_product_attention(*tensors, **CALLS[call])
            upstream = torch.sin(torch.arange(out.numel()).double()).view(out.shape)
            results.append((out, *torch.autograd.grad(out, tensors, upstream)))
    assert len(mode.met) == 2
    for whole, parts in zip(*results, strict=True):
        torch.testing.assert_close(parts, whole, equal_nan=True)
