"""Calls beyond the verdict's own have processor time, which a busy machine does not take away."""

from __future__ import annotations

import secrets
from functools import partial
from pathlib import Path

import pytest
import torch

from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.verify.beyond.allowance import Allowance, Spans
from kernelagent.tools.judge.verify.beyond.infinities import Infinities
from kernelagent.tools.judge.verify.beyond.searched_rows import SearchedRows
from kernelagent.tools.judge.verify.beyond.unlike_inputs import UnlikeInputs
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.process.limits import limits_for
from kernelagent.tools.sandbox.limits import tree_seconds
from kernelagent.tools.sandbox.spawn import ForkServer


class Machine:
    """A clock, and how much of its time was worked."""

    def __init__(self) -> None:
        self.now = self.worked = 0.0

    def passes(self, seconds: float, worked: float) -> None:
        self.now += seconds
        self.worked += worked

    def allowance(self) -> Allowance:
        return Allowance(4.0, 20.0, clock=lambda: self.now, worked=lambda: self.worked)


def test_waiting_for_a_busy_machine_spends_nothing() -> None:
    machine = Machine()
    allowance = machine.allowance()
    machine.passes(10.0, 1.0)
    assert not allowance.spent
    machine.passes(5.0, 3.5)
    assert allowance.spent


def test_by_the_clock_it_ends_as_well() -> None:
    machine = Machine()
    allowance = machine.allowance()
    machine.passes(21.0, 0.0)
    assert allowance.spent


def test_work_on_many_cores_within_the_time_spends_nothing() -> None:
    machine = Machine()
    allowance = machine.allowance()
    machine.passes(3.0, 30.0)
    assert not allowance.spent


def test_processor_time_grows_with_what_is_computed() -> None:
    began = tree_seconds()
    count = 0
    while tree_seconds() - began < 0.02 and count < 1000:
        count += 1
        sum(range(100_000))
    assert tree_seconds() - began >= 0.02


def test_a_turn_has_a_part_of_the_time() -> None:
    spans = Spans(seconds=4.0, in_a_turn=1.0, longest=20.0)
    turn, verdict = (spans.allowance(sample=sample, by_work=False) for sample in (True, False))
    assert (turn.seconds, verdict.seconds) == (1.0, 4.0)
    assert (turn.sample, verdict.sample) == (True, False)


@pytest.mark.long
@pytest.mark.parametrize(
    ("sample", "told"),
    [
        (False, {"infinite_runs_not_tried", "rows_not_searched", "properties_not_tried"}),
        (True, set()),
    ],
)
def test_of_a_sample_nothing_is_told_that_was_not_reached(
    sample: bool, told: set[str], tmp_path: Path, fork_server: ForkServer
) -> None:
    problem = tmp_path / "problem.py"
    problem.write_text(PROBLEM)
    settings = JudgeSettings(ProblemSpec(path=str(problem)), device="virtual")
    context = JudgeContext.open(settings, fork_server)
    start = partial(CandidateProcess, fork_server, source="", device="virtual", target="sm_90")
    limits = limits_for(settings, "virtual")
    findings, spent = Findings(), Allowance(-1.0, -1.0, sample=sample)
    try:
        with start(scratch=tmp_path / secrets.token_hex(4), limits=limits, sandboxed=False) as none:
            for kind in (Infinities, SearchedRows, UnlikeInputs):
                kind(context, none, findings, torch.Generator(), spent).about_all()
    finally:
        context.close()
    assert set(findings.disclosures) == told


PROBLEM = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1)


def get_inputs():
    return [torch.randn(16, 64)]


def get_init_inputs():
    return []
"""
