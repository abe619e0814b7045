"""The emitted file is put on the user's module and called, as a user does it, before it is written."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.evaluation import Evaluation
from kernelagent.domain.problem import Mode, ProblemSpec
from kernelagent.dropin.emit import emit_module
from kernelagent.tools.judge.problem.bundle import save_bundle
from kernelagent.tools.sandbox.spawn import ForkServer
from tests.dropin.emitted import CERTIFICATE
from tests.judges import open_judge

pytestmark = pytest.mark.long

PROBLEM = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.rand(16) + 0.5)
        self.last = None

    def forward(self, x):
        y = x * self.scale
        AFTER
        return y


def get_inputs():
    return [torch.randn(ROWS, 16)]
"""
KERNEL = """
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scaled(x_ptr, s_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(y_ptr + i, x * tl.load(s_ptr + i % 16, mask=i < n), mask=i < n)


def scale(x, s):
    y = torch.empty_like(x)
    scaled[(triton.cdiv(x.numel(), 128),)](x, s, y, x.numel(), BLOCK=128)
    return y


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, s):
        ctx.save_for_backward(s)
        return scale(x, s)

    @staticmethod
    def backward(ctx, g):
        return scale(g.contiguous(), *ctx.saved_tensors), None


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.rand(16) + 0.5)
        self.last = None

    def forward(self, x):
        y = Scale.apply(x, self.scale)
        AFTER
        return y
"""
NORM = """
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def norm(x_ptr, w_ptr, b_ptr, y_ptr, eps, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + tl.program_id(0) * N + i)
    centred = x - tl.sum(x, axis=0) / N
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / N + eps)
    y = centred * scale * tl.load(w_ptr + i) + tl.load(b_ptr + i)
    tl.store(y_ptr + tl.program_id(0) * N + i, y)


class ModelNew(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))
        self.bias = nn.Parameter(torch.empty(width))
        nn.init.ones_(self.weight)
        self.eps = eps

    @classmethod
    def from_reference(cls, module):
        return cls(module.weight.numel(), module.eps)

    def forward(self, x):
        y = torch.empty_like(x)
        norm[(x.shape[0],)](x, self.weight, self.bias, y, self.eps, N=16)
        return y
"""
FINDER = """
import sys
import torch
from torch import nn


class Finder:
    def find_spec(self, name, path=None, target=None):
        return None


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.rand(16) + 0.5)
        self.last = None
        sys.meta_path.append(Finder())

    def forward(self, x):
        return x * self.scale


def get_inputs():
    return [torch.randn(8, 16)]
"""
REBINDS = "self.scale = 0.9 * self.scale + 0.1 * x.detach().abs().mean(0)"
LEAVES = "self.last = y.detach() * 2.0"


def judged(
    folder: Path,
    fork_server: ForkServer,
    after: str = "pass",
    *,
    mode: Mode = "eval",
    change: tuple[str, str] = ("", ""),
    rows: int = 8,
    problem: str = PROBLEM,
) -> tuple[Evaluation, Evaluation]:
    """The verdict on the candidate, and on the emitted file; `change`: of the file's text."""
    path = folder / "problem.py"
    text = problem.replace("AFTER", after).replace("ROWS", str(rows))
    path.write_text(text, encoding="utf-8")
    settings = JudgeSettings(ProblemSpec(path=str(path)), device="virtual", policy="any", mode=mode)
    with open_judge(settings, fork_server) as judge:
        source = KERNEL.replace("AFTER", after)
        verdict = judge.evaluate(source, "verdict", lambda _: None)
        assert verdict.accepted, verdict.reason
        file = emit_module(Candidate(source), judge.facts, verdict, CERTIFICATE)
        return verdict, judge.try_emitted(file.replace(*change) if change[0] else file, verdict, 60)


def test_a_file_that_goes_as_its_candidate_keeps_its_verdict(
    tmp_path: Path, fork_server: ForkServer
) -> None:
    verdict, tried = judged(tmp_path, fork_server)
    assert tried == verdict


def test_a_live_module_is_put_together_again_where_the_file_is_tried(
    tmp_path: Path, fork_server: ForkServer
) -> None:
    save_bundle(tmp_path / "bundle", torch.nn.LayerNorm(16), (torch.randn(8, 16),))
    settings = JudgeSettings(ProblemSpec(bundle=str(tmp_path / "bundle")), device="virtual")
    with open_judge(settings, fork_server) as judge:
        verdict = judge.evaluate(NORM, "verdict", lambda _: None)
        assert verdict.accepted, verdict.reason
        file = emit_module(Candidate(NORM), judge.facts, verdict, CERTIFICATE)
        assert judge.try_emitted(file, verdict, 60) == verdict


def test_one_for_inputs_that_are_executed_smaller_is_tried_as_well(
    tmp_path: Path, fork_server: ForkServer
) -> None:
    verdict, tried = judged(tmp_path, fork_server, rows=1 << 22)
    assert "executed_smaller" in [d.code for d in verdict.disclosures]
    assert tried == verdict


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            (
                "return guard.fast(*call[0], **call[1])",
                "return guard.fast(*call[0], **call[1]) * 2",
            ),
            "2 times right",
        ),
        (("fast = _construct(module)", 'raise ValueError("no")'), "ValueError"),
    ],
    ids=["another answer", "not put on"],
)
def test_a_file_that_goes_otherwise_is_refused(
    change: tuple[str, str], words: str, tmp_path: Path, fork_server: ForkServer
) -> None:
    _, tried = judged(tmp_path, fork_server, change=change)
    assert tried.reason is not None
    assert "put on your module as the emitted file puts it there" in tried.reason.message
    assert words in tried.reason.message


def test_a_file_whose_kernels_never_run_is_told(tmp_path: Path, fork_server: ForkServer) -> None:
    change = ("value.data_ptr() % 16, 0", "value.data_ptr() % 16, 1")
    _, tried = judged(tmp_path, fork_server, change=change)
    (told,) = (d.message for d in tried.disclosures if d.code == "original_answers")
    assert "your own forward answers input set default (alignment" in told


def test_what_a_backward_saved_stays_where_a_buffer_is_bound_anew(
    tmp_path: Path, fork_server: ForkServer
) -> None:
    verdict, tried = judged(tmp_path, fork_server, REBINDS, mode="train")
    assert verdict.envelope["binds"]
    assert tried.accepted, tried.reason


def test_what_a_call_leaves_in_an_attribute_reaches_the_users_module(
    tmp_path: Path, fork_server: ForkServer
) -> None:
    verdict, tried = judged(tmp_path, fork_server, LEAVES)
    assert verdict.envelope["leaves"] == ["last"]
    assert tried == verdict


def test_what_the_users_module_puts_into_the_import_system_is_not_the_candidates_doing(
    tmp_path: Path, fork_server: ForkServer
) -> None:
    verdict, tried = judged(tmp_path, fork_server, problem=FINDER)
    assert tried == verdict


def test_a_file_that_puts_a_finder_of_its_own_there_is_not_tried(
    tmp_path: Path, fork_server: ForkServer
) -> None:
    change = (
        "fast = _construct(module)",
        "fast = _construct(module); _sys.meta_path.append(type('F', (), {'find_spec': print})())",
    )
    _, tried = judged(tmp_path, fork_server, change=change)
    (told,) = (d.message for d in tried.disclosures if d.code == "emitted_not_tried")
    assert "leaves the import system changed" in told
