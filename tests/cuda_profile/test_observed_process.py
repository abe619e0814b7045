"""A candidate's real process, asked what it sees of its device, with the CPU as that device."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from kernelagent.problem import ProblemSpec
from kernelagent.tools.judge import device_profile
from kernelagent.tools.judge.candidate_process import CandidateProcess, Limits
from kernelagent.tools.judge.docket import Docket
from kernelagent.tools.judge.observed import graph_time, observe, suppress
from kernelagent.tools.judge.rejection import Rejected
from kernelagent.tools.judge.tracing import traced_forward
from kernelagent.tools.settings import JudgeSettings

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
def docket() -> Iterator[Docket]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.py"
        path.write_text(PROBLEM, encoding="utf-8")
        settings = JudgeSettings(ProblemSpec(path=str(path)), device="virtual", policy="any")
        opened = Docket.open(settings)
        yield opened
        opened.close()


def started(docket: Docket, scratch: Path, source: str = CANDIDATE) -> CandidateProcess:
    process = CandidateProcess(
        docket.warm,
        source=source,
        device="virtual",
        target=docket.device.target,
        scratch=scratch,
        limits=Limits(),
        sandboxed=True,
    )
    process.load()
    docket.construct(process)
    return process


def test_a_forward_is_traced_and_replayed_in_the_sandboxed_process(
    docket: Docket, tmp_path: Path
) -> None:
    arguments = ((torch.randn(64, 256),), {})
    with started(docket, tmp_path) as process:
        suppress(process)
        found = observe(process, arguments, "kernelagent x ", "sm_90")
        us, why_not = graph_time(process, arguments)
        seen = device_profile.look(docket, process)
    assert (found.launches, found.facts, found.no_trace) == ((), {}, None)
    traced = traced_forward(found.events, found.launches, "kernelagent x ")
    assert {"aten::tanh", "aten::add"} <= {kernel.name for kernel in traced.library}
    assert traced.coverage == 0.0
    assert why_not is None
    assert us is not None
    assert us > 1.0
    assert seen.coverage == 0.0
    assert [d.code for d in seen.disclosures] == ["library_share"]


def test_a_forward_that_fails_is_refused_with_its_own_words(docket: Docket, tmp_path: Path) -> None:
    with (
        started(docket, tmp_path, BROKEN) as process,
        pytest.raises(Rejected, match="shapes cannot be multiplied"),
    ):
        graph_time(process, ((torch.randn(64, 256),), {}))
