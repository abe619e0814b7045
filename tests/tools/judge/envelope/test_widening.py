"""Inputs near the given ones: which are proposed, which of them a candidate is admitted on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge.envelope.neighbours import neighbours
from kernelagent.tools.judge.envelope.search import Widened
from kernelagent.tools.judge.judge import Judge
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.sandbox.spawn import ForkServer

PROBLEM = """\
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.randn(32))

    def forward(self, x, other):
        return (x + other) * self.gain


def get_inputs():
    return [torch.randn(6, 32), torch.randn(6, 32)]
"""
CANDIDATE = """\
import torch
import triton
import triton.language as tl


@triton.jit
def scaled_sum(x, other, gain, y, n, W: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(x + at, at < n) + tl.load(other + at, at < n)
    tl.store(y + at, total * tl.load(gain + at % W), at < n)


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.randn(32))

    def forward(self, x, other):
        y = torch.empty_like(x)
        n = {count}
        grid = (triton.cdiv(n, 64),)
        scaled_sum[grid](x, other, self.gain, y, n, W=32, BLOCK=64)
        return y
"""


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory, fork_server: ForkServer) -> Iterator[Judge]:
    path = tmp_path_factory.mktemp("widening") / "toy.py"
    path.write_text(PROBLEM, encoding="utf-8")
    opened = Judge(JudgeSettings(ProblemSpec(path=str(path)), device="virtual"), fork_server)
    yield opened
    opened.close()


def widened(judge: Judge, count: str) -> tuple[list[list[int]], str]:
    """The admitted shapes of the first input, and what is said."""
    source = CANDIDATE.replace("{count}", count)
    evaluation = judge.evaluate(source, "verdict", lambda _: None)
    assert evaluation.accepted, evaluation.reason
    wider = judge.widen(source, evaluation, 120.0)
    sets = wider.envelope["input_sets"]
    assert sets[0] == evaluation.envelope["input_sets"][0]
    assert all(item["args"][0]["dtype"] == "float32" for item in sets[1:])
    return [item["args"][0]["shape"] for item in sets[1:]], wider.disclosures[-1].message


@pytest.mark.long
def test_a_kernel_for_any_number_of_rows_is_admitted_on_the_neighbours_that_were_run(
    judge: Judge,
) -> None:
    shapes, message = widened(judge, "x.numel()")
    assert shapes == [[7, 32], [5, 32], [12, 32], [1, 32], [1, 6, 32]]
    assert "default with x.shape[0] = other.shape[0] = 1, 5, 7, 12" in message
    assert "One of them was drawn and judged in full: default" in message


@pytest.mark.parametrize(
    "at_other_sizes",
    ["y = (x + other) * self.gain", "y = torch.where(y == 3.25 * self.gain, 0.0, y)"],
    ids=["torch computes", "torch has a part"],
)
@pytest.mark.always
@pytest.mark.long
def test_what_only_a_whole_judging_refuses_at_other_sizes_is_admitted_on_none(
    judge: Judge, at_other_sizes: str
) -> None:
    hostile = f"        if x.shape[0] != 6:\n            {at_other_sizes}\n        return y\n"
    source = CANDIDATE.replace("{count}", "x.numel()").replace("        return y\n", hostile)
    evaluation = judge.evaluate(source, "verdict", lambda _: None)
    assert evaluation.accepted, evaluation.reason
    wider = judge.widen(source, evaluation, 120.0)
    assert wider.envelope == evaluation.envelope
    assert "was judged in full and refused" in wider.disclosures[-1].message


@pytest.mark.long
def test_a_kernel_that_drops_the_last_rows_is_not_admitted_on_more_of_them(judge: Judge) -> None:
    shapes, message = widened(judge, "min(x.numel(), 192)")
    assert shapes == [[5, 32], [1, 32], [1, 6, 32]]
    assert "(wrong_output)" in message or "(stale_output)" in message


@pytest.mark.long
def test_the_reference_answers_every_proposed_neighbour(judge: Judge) -> None:
    context: JudgeContext = judge.context
    (source,) = context.sources
    result = [item.source for item in neighbours(source, (), context.oracle, interpreted=True)]
    assert len({item.name for item in result}) == len(result)
    for item in result:
        args, _ = item.draw(3)
        assert all(torch.isfinite(tensor).all() for tensor in args)
        # The width is the parameter's: it is never changed.
        assert {tensor.shape[-1] for tensor in args} == {32}
        assert [tensor.shape for tensor in args] == [tensor.shape for tensor in item.full[0]]


@pytest.mark.long
def test_without_time_nothing_is_admitted_and_that_is_said(judge: Judge) -> None:
    source = CANDIDATE.replace("{count}", "x.numel()")
    evaluation = judge.evaluate(source, "verdict", lambda _: None)
    wider = judge.widen(source, evaluation, 0.0)
    assert wider.envelope == evaluation.envelope
    assert "the time for it ran out" in wider.disclosures[-1].message


def test_sizes_that_were_admitted_are_listed_once_by_number():
    names = ["default with x.shape[0] = 33", "default in float16", "default with x.shape[0] = 7"]
    widened = Widened(admitted=[{"name": name} for name in names])
    assert widened.said() == (
        "neighbouring inputs verified and admitted: default with x.shape[0] = 7, 33; default in float16"
    )
