"""What is right at the executed sizes alone is refused by a sample of programs at the user's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.evaluation import Evaluation
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge.judge import Judge
from kernelagent.tools.sandbox.spawn import ForkServer
from tests.judges import open_judge

pytestmark = pytest.mark.long

PROBLEM = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


def get_inputs():
    return [torch.randn(70000, 128)]


def get_init_inputs():
    return [128]
"""
HONEST = """\
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def norm(x_ptr, w_ptr, out_ptr, n_rows, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=0.0)
    scale = tl.rsqrt(tl.sum(x * x, axis=0) / n + 1e-6)
    w = tl.load(w_ptr + cols, mask=cols < n, other=0.0)
    tl.store(out_ptr + row * n + cols, x * scale * w, mask=cols < n)


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        rows, n = x.shape
        norm[(rows,)](x, self.weight, out, rows, n, BLOCK=triton.next_power_of_2(n))
        return out
"""
LOWER = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.tril(x)


def get_inputs():
    return [torch.randn(4096, 4096)]


def get_init_inputs():
    return []
"""
ONLY_LOWER = """\
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def lower(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    for start in range(0, row + 1, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + cols, mask=cols <= row, other=0.0)
        tl.store(out_ptr + row * n + cols, x, mask=cols <= row)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.zeros_like(x)
        lower[(x.shape[0],)](x, out, x.shape[1], BLOCK=256)
        return out
"""
SCALED = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(x)


def get_inputs():
    return [torch.randn(20000, 128)]


def get_init_inputs():
    return []
"""
TRAINED = """\
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def silu(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x * tl.sigmoid(x), mask=at < n)


@triton.jit
def silu_backward(x_ptr, up_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    up = tl.load(up_ptr + at, mask=at < n)
    gate = tl.sigmoid(x)
    tl.store(out_ptr + at, up * gate * (1 + x * (1 - gate)), mask=at < n)


class Silu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        ctx.save_for_backward(x)
        out = torch.empty_like(x)
        silu[(triton.cdiv(x.numel(), 128),)](x, out, x.numel(), BLOCK=128)
        return out

    @staticmethod
    def backward(ctx, up):
        (x,) = ctx.saved_tensors
        up = up.contiguous()
        out = torch.empty_like(x)
        silu_backward[(triton.cdiv(x.numel(), 128),)](x, up, out, x.numel(), BLOCK=128)
        return out


class ModelNew(nn.Module):
    def forward(self, x):
        return Silu.apply(x)
"""
SIZE = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x.square().sum().sqrt()


def get_inputs():
    return [torch.randn(4096, 2048)]


def get_init_inputs():
    return []
"""
BY_TICKET = """\
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def size(x_ptr, parts_ptr, ticket_ptr, out_ptr, n, programs, summed, BLOCK: tl.constexpr, MANY: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=0.0)
    tl.store(parts_ptr + row, tl.sum(x * x, axis=0))
    tl.debug_barrier()
    if tl.atomic_add(ticket_ptr, 1, sem="acq_rel") == programs - 1:
        part = tl.arange(0, MANY)
        every = tl.load(parts_ptr + part, mask=part < summed, other=0.0, cache_modifier=".cg")
        tl.store(out_ptr, tl.sqrt_rn(tl.sum(every, axis=0)))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        programs, n = x.shape
        parts, out = x.new_empty(programs), x.new_empty(())
        ticket = torch.zeros(1, dtype=torch.int32, device=x.device)
        many = triton.next_power_of_2(programs)
        size[(programs,)](
            x, parts, ticket, out, n, programs, SUMMED, BLOCK=triton.next_power_of_2(n), MANY=many
        )
        return out
"""
LAUNCHES_TWICE = {
    "[(rows,)](x": "[(min(rows, 65535),)](x",
    "        return out": "        nothing[(1,)](out)\n        return out",
    "class ModelNew": "@triton.jit\ndef nothing(x_ptr):\n    tl.store(x_ptr, tl.load(x_ptr))\n\n\nclass ModelNew",
}
"""A second launch, so that a sample of programs tells nothing, and a first that is cut off."""
WRONG = {
    "a grid that is cut off near its end": (
        "norm[(rows,)]",
        "norm[(min(rows, 66500),)]",
        "wrong_output",
    ),
    "a grid that no GPU takes": ("norm[(rows,)]", "norm[(1, rows)]", "out_of_resources"),
    "another formula for many rows": (
        "    w = tl.load",
        "    if n_rows > 9000:\n        scale = 1.0\n    w = tl.load",
        "wrong_output",
    ),
}
"""What is written in the place of what, and how it is refused."""


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory, fork_server: ForkServer) -> Iterator[Judge]:
    path = tmp_path_factory.mktemp("rows") / "rows.py"
    path.write_text(PROBLEM)
    with open_judge(
        JudgeSettings(ProblemSpec(path=str(path)), device="virtual"), fork_server
    ) as opened:
        yield opened


def judged(judge: Judge, source: str) -> Evaluation:
    return judge.evaluate(source, "verdict", lambda _: None)


def test_what_a_sample_of_programs_stores_there_is_told(judge: Judge) -> None:
    evaluation = judged(judge, HONEST)
    assert evaluation.accepted, evaluation.reason
    assert "sampled_at_your_sizes" in {each.code for each in evaluation.disclosures}


def test_what_is_zero_without_a_kernel_need_not_be_stored(
    tmp_path: Path, fork_server: ForkServer
) -> None:
    path = tmp_path / "lower.py"
    path.write_text(LOWER)
    with open_judge(
        JudgeSettings(ProblemSpec(path=str(path)), device="virtual"), fork_server
    ) as opened:
        evaluation = judged(opened, ONLY_LOWER)
    assert evaluation.accepted, evaluation.reason
    assert "sampled_at_your_sizes" in {each.code for each in evaluation.disclosures}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_there_alone_is_refused(judge: Judge, name: str) -> None:
    old, new, code = WRONG[name]
    assert old in HONEST
    source = HONEST.replace(old, new)
    if "(1, rows)" in new:
        source = source.replace("tl.program_id(0)", "tl.program_id(1)")
    evaluation = judged(judge, source)
    assert evaluation.reason is not None
    assert evaluation.reason.code == code
    assert any(words in evaluation.reason.message for words in ("your sizes", "user's own sizes"))


@pytest.mark.parametrize("rows", ["rows", "min(rows, 65535)"])
def test_of_several_launches_one_call_is_made_at_sizes_there_is_time_for(
    judge: Judge, rows: str
) -> None:
    source = HONEST
    for old, new in LAUNCHES_TWICE.items():
        assert old in source
        source = source.replace(old, new)
    require_compared(judged(judge, source.replace("min(rows, 65535)", rows)), right=rows == "rows")


def judged_of_many_rows(tmp_path: Path, fork_server: ForkServer, old: str, new: str) -> Evaluation:
    """Of 700,000 rows, more than there is time for; several launches, with this line written for that one."""
    path = tmp_path / "more_rows.py"
    path.write_text(PROBLEM.replace("70000", "700000"))
    source = HONEST
    for before, after in LAUNCHES_TWICE.items():
        source = source.replace(before, after.replace("min(rows, 65535)", "rows"))
    assert old in source
    with open_judge(
        JudgeSettings(ProblemSpec(path=str(path)), device="virtual"), fork_server
    ) as opened:
        return judged(opened, source.replace(old, new, 1))


def test_who_does_not_take_sizes_between_the_executed_and_the_given_is_accepted_and_told_of(
    tmp_path: Path, fork_server: ForkServer
) -> None:
    taken = "        rows, n = x.shape\n"
    raises = (
        f"{taken}        if 9000 < rows < 700000:\n            raise ValueError('other rows')\n"
    )
    evaluation = judged_of_many_rows(tmp_path, fork_server, taken, raises)
    assert evaluation.accepted, evaluation.reason
    told = {each.code: each.message for each in evaluation.disclosures}
    assert "compared_at_larger_sizes" not in told
    assert "instead of 700000: the forward raised ValueError" in told["not_compared_at_your_sizes"]


def test_a_kernels_fault_at_sizes_in_between_is_no_refusal_of_its_own(
    tmp_path: Path, fork_server: ForkServer
) -> None:
    line = "    cols = tl.arange(0, BLOCK)\n"
    # False from so many rows on, but for the user's own number of them.
    hint = f"    tl.assume((n_rows < 9000) | (n_rows == 700000))\n{line}"
    evaluation = judged_of_many_rows(tmp_path, fork_server, line, hint)
    assert evaluation.reason is not None
    assert evaluation.reason.code == "runtime_error"
    assert "your sizes" in evaluation.reason.message


@pytest.mark.parametrize("programs", ["triton.cdiv(n, 128)", "min(triton.cdiv(n, 128), 18000)"])
def test_a_training_step_is_taken_there_as_well(
    tmp_path: Path, fork_server: ForkServer, programs: str
) -> None:
    path = tmp_path / "scaled.py"
    path.write_text(SCALED)
    settings = JudgeSettings(ProblemSpec(path=str(path)), device="virtual", mode="train")
    grid = "silu_backward[(triton.cdiv(x.numel(), 128),)]"
    assert grid in TRAINED
    with open_judge(settings, fork_server) as opened:
        evaluation = judged(
            opened, TRAINED.replace(grid, f"n = x.numel()\n        silu_backward[({programs},)]")
        )
        require_compared(evaluation, right="min" not in programs)


def test_what_shows_there_alone_is_told(judge: Judge) -> None:
    source = HONEST
    for old, new in LAUNCHES_TWICE.items():
        source = source.replace(old, new.replace("min(rows, 65535)", "rows"))
    assert "nothing[(1,)](out)" in source
    source = source.replace("nothing[(1,)](out)", "nothing[(1 + (rows > 9000),)](out, rows)")
    source = source.replace(
        "def nothing(x_ptr):\n    tl.store(x_ptr, tl.load(x_ptr))",
        "def nothing(x_ptr, n_rows):\n    if n_rows > 9000:\n        tl.atomic_add(x_ptr, 0.0)\n    else:\n"
        "        tl.store(x_ptr, tl.load(x_ptr))",
    )
    evaluation = judged(judge, source)
    require_compared(evaluation, right=True)
    (told,) = [each.message for each in evaluation.disclosures if each.code == "nondeterministic"]
    assert "your sizes" in told


@pytest.mark.parametrize("summed", ["programs", "min(programs, 512)"])
def test_where_programs_take_tickets_one_call_of_all_of_them_is_made(
    tmp_path: Path, fork_server: ForkServer, summed: str
) -> None:
    path = tmp_path / "size.py"
    path.write_text(SIZE)
    with open_judge(
        JudgeSettings(ProblemSpec(path=str(path)), device="virtual"), fork_server
    ) as opened:
        evaluation = judged(opened, BY_TICKET.replace("SUMMED", summed))
        require_compared(evaluation, right="min" not in summed)


LOGITS = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x * 0.125, -1)


def get_inputs():
    return [torch.randn(20000, 256)]


def get_init_inputs():
    return []
"""
LATER_ROWS = """\
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def softmax(x_ptr, out_ptr, rows, n, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    for row in range(tl.program_id(0), rows, 4096):
        x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=float("-inf")) * 0.125
        e = tl.exp(x - LARGEST)
        tl.store(out_ptr + row * n + cols, e / tl.sum(e, axis=0), mask=cols < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        rows, n = x.shape
        softmax[(min(rows, 4096),)](x, out, rows, n, BLOCK=triton.next_power_of_2(n))
        return out
"""


@pytest.mark.parametrize("in_all", [True, False])
def test_inputs_of_other_kinds_are_tried_there_as_well(
    tmp_path: Path, fork_server: ForkServer, *, in_all: bool
) -> None:
    path = tmp_path / "logits.py"
    path.write_text(LOGITS)
    # Without it logits beyond 88 overflow, which no natural draw has.
    largest = "tl.max(x, axis=0)" + ("" if in_all else " * (row < 4096)")
    with open_judge(
        JudgeSettings(ProblemSpec(path=str(path)), device="virtual"), fork_server
    ) as opened:
        evaluation = judged(opened, LATER_ROWS.replace("LARGEST", largest))
    if in_all:
        assert evaluation.accepted, evaluation.reason
        assert any("mixed_rows" in each.message for each in evaluation.disclosures)
        return
    assert evaluation.reason is not None
    assert evaluation.reason.code in ("wrong_output", "nonfinite")
    assert "rows of many kinds" in evaluation.reason.message


def test_other_weights_are_tried_there_as_well(judge: Judge) -> None:
    # The given ones are all 1.
    loaded = "w = tl.load(w_ptr + cols, mask=cols < n, other=0.0)"
    assert loaded in HONEST
    forgotten = HONEST.replace(loaded, f"{loaded}\n    w = tl.where(n_rows > 9000, 1.0, w)")
    evaluation = judged(judge, forgotten)
    require_compared(evaluation, right=False)
    assert evaluation.reason is not None
    assert "weights" in evaluation.reason.message


@pytest.mark.parametrize("everywhere", [True, False])
def test_a_training_step_meets_inputs_of_other_kinds_there(
    tmp_path: Path, fork_server: ForkServer, *, everywhere: bool
) -> None:
    path = tmp_path / "scaled.py"
    path.write_text(SCALED)
    settings = JudgeSettings(ProblemSpec(path=str(path)), device="virtual", mode="train")
    source = TRAINED
    if not everywhere:
        gate = "gate = tl.sigmoid(x)"
        assert gate in source
        # Wrong for numbers that no natural draw has, in rows alone that are not executed otherwise.
        wrong = "tl.where((at < 1500000) | (x < 7), gate, 0.5)"
        source = source.replace(gate, f"{gate}\n    gate = {wrong}")
    with open_judge(settings, fork_server) as opened:
        evaluation = judged(opened, source)
    if everywhere:
        require_compared(evaluation, right=True)
        assert any("rowaffine" in each.message for each in evaluation.disclosures)
        return
    assert evaluation.reason is not None
    assert evaluation.reason.code in ("wrong_output", "nonfinite", "wrong_gradient")
    assert "at your sizes" in evaluation.reason.message


def require_compared(evaluation: Evaluation, *, right: bool) -> None:
    if right:
        assert evaluation.accepted, evaluation.reason
        assert "compared_at_larger_sizes" in {each.code for each in evaluation.disclosures}
        return
    assert evaluation.reason is not None
    assert evaluation.reason.code == "wrong_output"
    assert "your sizes" in evaluation.reason.message
