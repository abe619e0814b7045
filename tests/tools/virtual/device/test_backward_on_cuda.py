"""In a backward tensors are where they were in the forward, whoever asks for the gradients."""

from __future__ import annotations

import pytest
import torch

from kernelagent.tools.virtual.device.fake_cuda import WithoutContents, pretending_cuda

ASKED: list[object] = []


class Noting(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.device = x.device
        return x * 2

    @staticmethod
    def backward(ctx, dy):
        ASKED.append((dy.is_cuda, dy.device == ctx.device))
        return 2 * dy + torch.zeros(dy.shape, device=ctx.device)


WAYS = {
    "backward of a tensor": lambda y, x: y.sum().backward(),
    "torch.autograd.backward": lambda y, x: torch.autograd.backward([y], [torch.ones_like(y)]),
    "torch.autograd.grad": lambda y, x: torch.autograd.grad([y], [x], [torch.ones_like(y)]),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize("contents", [True, False])
def test_a_backward_is_on_the_gpu_too(way, contents):
    ASKED.clear()
    with pretending_cuda("sm_90"):
        if contents:
            x = torch.randn(4, device="cuda", requires_grad=True)
            way(Noting.apply(x), x)
        else:
            with WithoutContents():
                x = torch.randn(4, device="cuda", requires_grad=True)
                way(Noting.apply(x), x)
    assert ASKED == [(True, True)]
