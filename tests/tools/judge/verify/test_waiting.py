"""What the judge does while it waits for a candidate's answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.process.limits import Limits
from kernelagent.tools.judge.verify.rejection import Rejected
from kernelagent.tools.sandbox.spawn import ForkServer

pytestmark = pytest.mark.long

SLOW_S = 0.5
CANDIDATE = f"""
import time
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        time.sleep({SLOW_S})
        if not x.numel():
            raise ValueError("nothing to add to")
        return x + 1
"""
LONG_S = 42
MANY_LAUNCHES = f"""
import time
import torch
import triton
import triton.language as tl


@triton.jit
def add_one(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at, mask=at < n) + 1, mask=at < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.zeros_like(x)
        for _ in range({LONG_S // 3}):
            add_one[(1,)](out, out.numel(), BLOCK=16)
            time.sleep(3)
        while x.numel() > 8:
            time.sleep(3)
        return out
"""


@pytest.fixture
def process(tmp_path: Path, fork_server: ForkServer) -> Iterator[CandidateProcess]:
    with _begun(CANDIDATE, tmp_path, fork_server) as made:
        yield made


@contextmanager
def _begun(source: str, tmp_path: Path, fork_server: ForkServer) -> Iterator[CandidateProcess]:
    with CandidateProcess(
        fork_server,
        source=source,
        device="virtual",
        target="sm_90",
        scratch=tmp_path,
        limits=Limits(),
        sandboxed=True,
    ) as made:
        made.load()
        made.construct("init", ((), {}), training=False, keeps_random_state=True)
        yield made


def test_something_else_is_done_piece_by_piece_until_the_answer_is_there(
    process: CandidateProcess,
) -> None:
    done = []

    def a_piece() -> bool:
        torch.randn(1 << 16)
        done.append(1)
        return True

    answer = process.call(((torch.ones(3),), {}), meanwhile=a_piece)
    assert answer.output.tolist() == [2.0, 2.0, 2.0]
    assert len(done) > 3


def test_where_nothing_is_left_to_do_it_only_waits(process: CandidateProcess) -> None:
    asked = []
    answer = process.call(((torch.ones(1),), {}), meanwhile=lambda: bool(asked.append(1)))
    assert answer.output.tolist() == [2.0]
    assert asked == [1]


def test_a_candidate_that_fails_meanwhile_fails_with_its_own_error(
    process: CandidateProcess,
) -> None:
    with pytest.raises(Rejected, match="nothing to add to"):
        process.call(((torch.ones(0),), {}), meanwhile=lambda: bool(torch.randn(1 << 16).numel()))


def test_a_forward_of_many_launches_is_waited_for_as_long_as_it_launches(
    tmp_path: Path, fork_server: ForkServer
) -> None:
    with _begun(MANY_LAUNCHES, tmp_path, fork_server) as process:
        assert process.call(((torch.ones(3),), {})).output.tolist() == [LONG_S // 3] * 3
        with pytest.raises(Rejected) as stopped:
            process.call(((torch.ones(9),), {}))
    assert stopped.value.reason.code == "timeout"
