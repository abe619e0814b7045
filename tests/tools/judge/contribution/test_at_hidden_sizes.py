"""What is asked at the given sizes is asked at a size that the candidate is not told as well."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.evaluation import Evaluation
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge.judge import Judge
from kernelagent.tools.sandbox.spawn import ForkServer

pytestmark = pytest.mark.long

PROBLEM = """\
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 1.5 + 0.25


def get_inputs():
    return [torch.randn(6, 32)]
"""
CANDIDATE = """\
import torch
import triton
import triton.language as tl


@triton.jit
def scaled(x, y, n, ROUNDS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, at < n)
    for k in range(0, ROUNDS):
        value = 0.5 * value + 0.5 * tl.load(x + at, at < n)
    tl.store(y + at, tl.maximum(value, 0.0) * 1.5 + 0.25, at < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        n = x.numel()
        rounds = 0
        {elsewhere}
        scaled[(triton.cdiv(n, 64),)](x, y, n, ROUNDS=rounds, BLOCK=64)
        {instead}
        return y
"""


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory, fork_server: ForkServer) -> Iterator[Judge]:
    path: Path = tmp_path_factory.mktemp("problem") / "scaled.py"
    path.write_text(PROBLEM, encoding="utf-8")
    spec = ProblemSpec(path=str(path))
    opened = Judge(JudgeSettings(spec, device="virtual", dynamic=("0",)), fork_server)
    yield opened
    opened.close()


def judged(judge: Judge, elsewhere: str = "pass", instead: str = "pass") -> Evaluation:
    source = CANDIDATE.format(elsewhere=elsewhere, instead=instead)
    return judge.evaluate(source, "verdict", lambda _: None)


def test_a_kernel_that_computes_every_size_is_accepted_without_a_word_of_hidden_sizes(
    judge: Judge,
) -> None:
    result = judged(judge)
    assert result.verdict == "accepted"
    codes = {item.code for item in result.disclosures}
    assert not codes & {"slower_at_hidden_size", "hidden_size_not_audited", "host_time"}


def test_torch_in_the_place_of_the_kernel_at_other_sizes_is_refused(judge: Judge) -> None:
    result = judged(judge, instead="if len(x) != 6: return torch.relu(x) * 1.5 + 0.25")
    assert result.reason is not None
    assert result.reason.code == "kernel_not_contributing"
    assert "a size that is declared dynamic" in result.reason.message


def test_work_on_the_host_at_other_sizes_is_told(judge: Judge) -> None:
    result = judged(judge, elsewhere="if len(x) != 6: sorted(range(300000), reverse=True)")
    (told,) = [item.message for item in result.disclosures if item.code == "host_time"]
    assert "a size declared dynamic" in told
