"""A candidate's real process, asked what it sees of its device, with the CPU as that device."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.timing import device_profile
from kernelagent.tools.judge.timing.observed import graph_time, observe, suppress
from kernelagent.tools.judge.timing.tracing import traced_forward
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.process.limits import Limits
from kernelagent.tools.judge.verify.rejection import Rejected
from kernelagent.tools.sandbox.spawn import ForkServer

pytestmark = pytest.mark.long

PROBLEM = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return torch.tanh(x) + 1.0

def get_inputs():
    return [torch.randn(64, 256)]
"""
CANDIDATE = PROBLEM.replace("class Model(", "class ModelNew(")
BROKEN = CANDIDATE.replace("torch.tanh(x)", "torch.tanh(x[:, :3] @ x)")


@pytest.fixture(scope="module")
def context(fork_server: ForkServer) -> Iterator[JudgeContext]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.py"
        path.write_text(PROBLEM, encoding="utf-8")
        settings = JudgeSettings(ProblemSpec(path=str(path)), device="virtual", policy="any")
        opened = JudgeContext.open(settings, fork_server)
        yield opened
        opened.close()


def started(context: JudgeContext, scratch: Path, source: str = CANDIDATE) -> CandidateProcess:
    process = CandidateProcess(
        context.fork_server,
        source=source,
        device="virtual",
        target=context.device.target,
        scratch=scratch,
        limits=Limits(),
        sandboxed=True,
    )
    process.load()
    context.construct(process)
    return process


def test_a_forward_is_traced_and_replayed_in_the_sandboxed_process(
    context: JudgeContext, tmp_path: Path
) -> None:
    arguments = ((torch.randn(64, 256),), {})
    with started(context, tmp_path) as process:
        suppress(process)
        result = observe(process, arguments, "kernelagent x ", "sm_90")
        us, why_not = graph_time(process, arguments)
        seen = device_profile.look(context, process)
    assert (result.launches, result.facts, result.no_trace) == ((), {}, None)
    traced = traced_forward(result.events, result.launches, "kernelagent x ")
    assert {"aten::tanh", "aten::add"} <= {kernel.name for kernel in traced.library}
    assert traced.coverage == 0.0
    assert why_not is None
    assert us is not None
    assert us > 1.0
    assert seen.coverage == 0.0
    assert [d.code for d in seen.disclosures] == ["library_share"]


def test_a_forward_that_fails_is_refused_with_its_own_words(
    context: JudgeContext, tmp_path: Path
) -> None:
    with (
        started(context, tmp_path, BROKEN) as process,
        pytest.raises(Rejected, match="shapes cannot be multiplied"),
    ):
        graph_time(process, ((torch.randn(64, 256),), {}))
