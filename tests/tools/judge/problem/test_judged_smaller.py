"""A candidate that takes too long at the executed sizes is judged at smaller ones, and from then on there."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.evaluation import Evaluation
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.sandbox.spawn import ForkServer
from tests.judges import open_judge

pytestmark = pytest.mark.long

PROBLEM = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        for _ in range(24):
            x = torch.sin(x)
        return x


def get_inputs():
    return [torch.randn(256, 32768)]


def get_init_inputs():
    return []
"""
CANDIDATE = """\
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def sines(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    for _ in range(24):
        x = tl.sin(x)
    tl.store(out_ptr + at, x, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        # As slow as a kernel that the interpreter cannot end in time.
        while 4 < x.shape[0] < 256:
            pass
        out = torch.empty_like(x)
        n = x.numel()
        sines[(triton.cdiv(n, 8192),)](x, out, n, BLOCK=8192)
        return out
"""


def verifications(evaluation: Evaluation) -> list[str]:
    return [stage.status for stage in evaluation.stages if stage.name == "verify"]


def test_the_second_judging_of_a_source_begins_where_the_first_one_ended(
    tmp_path: Path, fork_server: ForkServer
) -> None:
    path = tmp_path / "sines.py"
    path.write_text(PROBLEM)
    settings = JudgeSettings(ProblemSpec(path=str(path)), device="virtual", judging_seconds=30)
    # As long as on a quiet machine: with more seconds the first judging would end with a candidate that hangs.
    with open_judge(settings, fork_server, busy=lambda: 1.0) as judge:
        first, second = (judge.evaluate(CANDIDATE, "turn", lambda _: None) for _ in range(2))
    assert first.accepted, first.reason
    assert second.accepted, second.reason
    *cut, last = verifications(first)
    assert cut
    assert set(cut) == {"failed"}
    assert last == "passed"
    assert verifications(second) == ["passed"]
    assert {d.code for d in second.disclosures} >= {"executed_smaller"}
