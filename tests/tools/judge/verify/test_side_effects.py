"""What is told of the state that calls write to, beyond whether it is right afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from kernelagent.domain.evaluation import Evaluation
from kernelagent.tools.sandbox.spawn import ForkServer
from tests.judges import verdict_on

pytestmark = pytest.mark.long


class Decaying(nn.Module):
    """Keeps a state as large as its input, and one that is smaller."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("h", torch.zeros(4, 16))
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.h.mul_(0.5).add_(x)
        self.count += 1.0
        return self.h * 2.0


HEAD = """
import torch
import triton
import triton.language as tl
from torch import nn
"""
DECAYING = """

@triton.jit
def step(x_ptr, h_ptr, out_ptr, count_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    h = tl.load(h_ptr + i, mask=i < n) * 0.5 + tl.load(x_ptr + i, mask=i < n)
    tl.store(h_ptr + i, h, mask=i < n)
    tl.store(out_ptr + i, h * 2.0, mask=i < n)
    tl.store(count_ptr, tl.load(count_ptr) + 1.0)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("h", torch.zeros(4, 16))
        self.register_buffer("count", torch.zeros(1))

    @classmethod
    def from_reference(cls, module):
        return cls()

    def forward(self, x):
        out = torch.empty_like(x)
        step[(1,)](x, self.h, out, self.count, x.numel(), BLOCK=64)
        return out
"""
IN_TWO = """

@triton.jit
def first(x_ptr, s_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(s_ptr + i, tl.sigmoid(tl.load(x_ptr + i, mask=i < n)), mask=i < n)


@triton.jit
def second(x_ptr, s_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x, s = tl.load(x_ptr + i, mask=i < n), tl.load(s_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x * s, mask=i < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("between", torch.empty(4, 16), persistent=False)

    @classmethod
    def from_reference(cls, module):
        return cls()

    def forward(self, x):
        out = torch.empty_like(x)
        first[(1,)](x, self.between, x.numel(), BLOCK=64)
        second[(1,)](x, self.between, out, x.numel(), BLOCK=64)
        return out
"""


def told(verdict: Evaluation, code: str) -> str:
    assert verdict.accepted, verdict.reason
    (message,) = (d.message for d in verdict.disclosures if d.code == code)
    return message


def test_state_that_would_fit_an_input_is_told_not_to_have_been_given(
    tmp_path: Path, fork_server: ForkServer
) -> None:
    verdict = verdict_on(
        HEAD + DECAYING, Decaying(), [torch.randn(4, 16)], tmp_path / "bundle", fork_server
    )
    assert told(verdict, "state_as_input").startswith("a call writes to h, which would fit")


def test_kernels_that_hand_over_in_a_buffer_of_the_module_are_told_to_meet_other_calls(
    tmp_path: Path, fork_server: ForkServer
) -> None:
    verdict = verdict_on(
        HEAD + IN_TWO, nn.SiLU(), [torch.randn(4, 16)], tmp_path / "bundle", fork_server
    )
    message = told(verdict, "weights_written")
    assert "writes to between of the module, which your module has not" in message
    assert message.endswith("calls at the same time get each other's numbers")


class Lowest(nn.Module):
    """Keeps the least mean square so far: a call that is no better leaves it as it was."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("best", torch.full((), 1e30))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        loss = x.square().mean()
        self.best.copy_(torch.where(loss < self.best * 0.999, loss, self.best))
        return loss * 2.0


LOWEST = """

@triton.jit
def step(x_ptr, best_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    loss = tl.sum(x * x, axis=0) / n
    best = tl.load(best_ptr)
    tl.store(best_ptr, tl.where(loss < best * 0.999, loss, best))
    tl.store(out_ptr, loss * 2.0)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("best", torch.full((), 1e30))

    @classmethod
    def from_reference(cls, module):
        return cls()

    def forward(self, x):
        out = torch.empty((), device=x.device)
        step[(1,)](x, self.best, out, x.numel(), BLOCK=512)
        return out
"""


def test_what_a_call_before_left_in_its_last_bits_may_stay_as_it_is(
    tmp_path: Path, fork_server: ForkServer
) -> None:
    for turn in range(3):
        verdict = verdict_on(
            HEAD + LOWEST, Lowest(), [torch.randn(8, 64)], tmp_path / f"bundle{turn}", fork_server
        )
        assert verdict.accepted, verdict.reason
