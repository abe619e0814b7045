"""Calls of a round begin with the round's weights, whatever the call before left in the module's state."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.calls.surroundings import Deck
from kernelagent.tools.judge.problem.load import load_problem
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.trials.known_trials import known_trial
from kernelagent.tools.judge.problem.trials.rounds import Round
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.process.limits import Limits
from kernelagent.tools.judge.verify.verify import Verifier
from kernelagent.tools.sandbox.spawn import ForkServer

pytestmark = pytest.mark.long

MODULE = """
import torch
from torch import nn


class {name}(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("most", torch.zeros(()))

    def forward(self, x):
        with torch.no_grad():
            self.most.copy_(torch.maximum(self.most, x.amax()))
        return x + self.most


def get_inputs():
    return [torch.rand(4, 8)]


def get_init_inputs():
    return []
"""


def test_a_call_that_changes_nothing_begins_with_the_weights_after_one_that_changed_them(
    tmp_path: Path, fork_server: ForkServer
) -> None:
    file = tmp_path / "problem.py"
    file.write_text(MODULE.format(name="Model"))
    oracle = Oracle(load_problem(ProblemSpec(path=str(file))), "cpu", nullcontext)
    generator = torch.Generator().manual_seed(1)
    below, above = -torch.rand(4, 8), 1 + torch.rand(4, 8)
    small, large = (known_trial(oracle, "default", ((x,), {}), generator) for x in (below, above))
    assert small is not None
    assert large is not None
    assert not small.expected.state64
    assert large.expected.state64
    with CandidateProcess(
        fork_server,
        source=MODULE.format(name="ModelNew"),
        device="virtual",
        target="sm_90",
        scratch=tmp_path,
        limits=Limits(),
        sandboxed=True,
    ) as process:
        process.load()
        process.construct("init", ((), {}), training=False, keeps_random_state=True)
        verifier = Verifier(
            process=process,
            findings=Findings(),
            device="cpu",
            needs_kernel=False,
            tolerance=None,
            check=None,
            oracle=oracle,
            deck=Deck(),
        )
        weights = oracle.given_weights
        calls = (replace(small, probe="natural"), replace(large, probe="edges"))
        for also in ({"feeds_back": True}, {"repeats": True}):
            verifier.run(Round(weights, calls, (), **also))
            verifier.run(Round(weights, calls, (), **also))
