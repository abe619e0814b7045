"""Modules with a configuration object at sizes of which only smaller ones are executed."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.sandbox.spawn import ForkServer
from tests.judges import open_judge

pytestmark = pytest.mark.long

PROBLEM = """\
import torch
from torch import nn


class Config:
    def __init__(self, width):
        self.width = width


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.gain = nn.Parameter(torch.randn(config.width))

    def forward(self, x):
        return torch.relu(x * self.gain)


def get_init_inputs():
    return [Config(4096)]


def get_inputs():
    return [torch.randn(4, 512, 4096)]
"""
CANDIDATE = """\
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def gained(x_ptr, gain_ptr, out_ptr, n, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    gain = tl.load(gain_ptr + at % WIDTH, mask=at < n, other=0.0)
    tl.store(out_ptr + at, tl.maximum(x * gain, 0.0, tl.PropagateNan.ALL), mask=at < n)


class ModelNew(nn.Module):
    @classmethod
    def from_reference(cls, module):
        new = cls()
        new.gain = module.gain
        return new

    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        gained[(triton.cdiv(n, 1024),)](x, self.gain, out, n, WIDTH=x.shape[-1], BLOCK=1024)
        return out
"""


def test_its_estimate_is_of_the_users_sizes(tmp_path: Path, fork_server: ForkServer) -> None:
    path = tmp_path / "gained.py"
    path.write_text(PROBLEM)
    with open_judge(
        JudgeSettings(ProblemSpec(path=str(path)), device="virtual"),
        fork_server,
    ) as judge:
        result = judge.evaluate(CANDIDATE, "verdict", lambda _: None)
    assert result.accepted, result.reason
    assert {d.code for d in result.disclosures} >= {"executed_smaller"}
    assert result.estimate is not None
    assert result.estimate.shapes == "(x: float32[4, 512, 4096])"
    # Its bytes alone take 14 µs on an H200.
    assert result.estimate.candidate_us > 14
