"""Whole verdicts on the virtual device: one small problem, many candidates, each refused for its own reason."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.evaluation import Evaluation
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.corpus.fixture import honest_kernel, problem_path
from kernelagent.tools.judge.judge import Judge
from kernelagent.tools.sandbox.spawn import ForkServer
from tests.judges import open_judge
from tests.lanes import often

PROBLEM = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return torch.relu(x) * self.weight + self.bias


def get_inputs():
    return [torch.rand(6, 200)]


def get_init_inputs():
    return [200]
"""

HONEST = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_affine(x_ptr, w_ptr, b_ptr, out_ptr, n, width, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask)
    w = tl.load(w_ptr + i % width, mask=mask)
    b = tl.load(b_ptr + i % width, mask=mask)
    tl.store(out_ptr + i, tl.maximum(x, 0.0) * w + b, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        relu_affine[(triton.cdiv(n, 256),)](x, self.weight, self.bias, out, n, x.shape[-1], BLOCK=256)
        return out
"""


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory, fork_server: ForkServer) -> Iterator[Judge]:
    path = tmp_path_factory.mktemp("problem") / "affine.py"
    path.write_text(PROBLEM, encoding="utf-8")
    # As much as a candidate that takes all it gets is let have before it is stopped.
    settings = JudgeSettings(ProblemSpec(path=str(path)), device="virtual", memory_limit="6G")
    made = Judge(settings, fork_server)
    yield made
    made.close()


def verdict(judge: Judge, source: str) -> Evaluation:
    return judge.evaluate(source, "verdict", lambda _: None)


def changed(old: str, new: str) -> str:
    assert old in HONEST
    return HONEST.replace(old, new)


def at_top(code: str) -> str:
    return textwrap.dedent(code) + HONEST


def in_forward(code: str) -> str:
    return changed(
        "        n = x.numel()\n", textwrap.indent(code, " " * 8) + "\n        n = x.numel()\n"
    )


def test_an_honest_kernel_is_accepted(judge: Judge) -> None:
    result = verdict(judge, HONEST)
    assert result.accepted, result.reason
    assert result.correctness is not None
    assert result.correctness.trials >= 5
    assert result.kernels[0].name == "relu_affine"
    assert result.faster is None
    assert result.timing is None


@pytest.mark.long
def test_a_wrapper_that_insists_on_cuda_is_accepted_and_estimated(judge: Judge) -> None:
    insisting = changed(
        "        out = torch.empty_like(x)\n",
        "        assert x.is_cuda and x.device.type == 'cuda'\n"
        "        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)\n",
    )
    result = verdict(judge, insisting)
    assert result.accepted, result.reason
    assert result.estimate is not None, result.disclosures


@pytest.mark.long
def test_a_fault_on_integers_that_are_not_yours_is_not_told_of_other_calls(
    fork_server: ForkServer,
) -> None:
    """Its offsets of -100 reach out of bounds; the call with a broken weight comes after, and is right."""
    settings = JudgeSettings(
        ProblemSpec(path=str(problem_path("i_sequences_padded"))), device="virtual"
    )
    with open_judge(settings, fork_server) as judge:
        result = verdict(judge, honest_kernel("i_sequences_padded"))
    assert result.accepted, result.reason
    told = {item.code for item in result.disclosures}
    assert "differs_on_integers" in told
    assert "differs_on_broken_weights" not in told


CASES = {
    "syntax": ("syntax_error", HONEST + "\ndef broken(:\n"),
    "import": ("import_error", at_top("import no_such_module")),
    "no entry point": ("missing_entry_point", changed("class ModelNew", "class Other")),
    "init": ("init_error", changed("super().__init__()", "super().__init__(); 1 / 0")),
    "state name": ("state_mismatch", changed("self.bias = ", "self.shift = self.bias = ")),
    "state shape": ("state_mismatch", changed("torch.ones(width)", "torch.ones(width + 1)")),
    "compile": ("compile_error", changed("tl.maximum(x, 0.0)", "tl.no_such(x)")),
    "runtime": ("runtime_error", in_forward("raise ValueError('no')")),
    "tail": ("wrong_output", changed("triton.cdiv(n, 256)", "n // 256")),
    "identity on positive inputs": ("wrong_output", changed("tl.maximum(x, 0.0)", "x")),
    "ignores the weight": ("insensitive", changed("* w + b", "+ b")),
    "ignores the bias": ("insensitive", changed("* w + b", "* w")),
    "shape": ("wrong_shape", changed("return out", "return out[:3]")),
    "dtype": ("wrong_dtype", changed("return out", "return out.double()")),
    "structure": ("wrong_structure", changed("return out", "return (out,)")),
    "nan": ("nonfinite", changed("return out", "return out * float('nan')")),
    "out of bounds": ("out_of_bounds", changed("tl.load(x_ptr + i, mask=mask)", "tl.load(x_ptr + i)")),
    "pure torch": (
        "no_kernel",
        in_forward("return torch.relu(x) * self.weight + self.bias"),
    ),
    "decoy": (
        "kernel_not_contributing",
        changed("return out", "return torch.relu(x) * self.weight + self.bias"),
    ),
    "writes its input": ("input_mutated", changed("return out", "x.zero_(); return out")),
    "one buffer for all": (
        "output_aliased",
        changed("out = torch.empty_like(x)", "out = self.__dict__.setdefault('kept', torch.empty_like(x))"),
    ),
    "cached result": (
        "stale_output",
        in_forward("if hasattr(self, 'kept'): return self.kept.clone()").replace(
            "return out", "self.kept = out; return out"
        ),
    ),
    "lazy subclass": (
        "tampering",
        changed(
            "return out",
            "return out.as_subclass(type('Lazy', (torch.Tensor,), {}))",
        ),
    ),
    "too much shared memory": (
        "out_of_resources",
        changed("BLOCK=256)", "BLOCK=256, num_warps=64)"),
    ),
    "segfault": ("crash", in_forward("import ctypes; ctypes.string_at(0)")),
    "early success": ("crash", in_forward("import os; os._exit(0)")),
    "exit in import": ("import_error", at_top("import sys\nsys.exit(0)\n")),
    "memory": (
        "out_of_memory",
        in_forward("self.hog = [bytearray(1 << 30) for _ in range(64)]"),
    ),
    "flood": ("output_flood", in_forward("print('x' * (1 << 20)) or [print('x' * (1 << 20)) for _ in range(900)]")),
    "fallback on other shapes": (
        "no_kernel",
        in_forward("if float(x.min()) < 0: return torch.relu(x) * self.weight + self.bias"),
    ),
}  # fmt: skip


ONE_OF_EACH_CODE = {code: name for name, (code, _) in reversed(CASES.items())}
# It takes seconds to fill what it may have, and the sandbox's own tests stop one on every commit.
del ONE_OF_EACH_CODE["out_of_memory"]


@pytest.mark.parametrize("case", often(CASES, ONE_OF_EACH_CODE.values()))
def test_each_fault_is_refused_with_its_own_code(judge: Judge, case: tuple[str, str]) -> None:
    code, source = case
    result = verdict(judge, source)
    assert result.reason is not None, "accepted"
    assert result.reason.code == code, result.reason.message
    assert result.verdict == "rejected"


@pytest.mark.long
def test_a_candidate_that_hangs_costs_only_its_own_time(tmp_path: Path, judge: Judge) -> None:
    from dataclasses import replace

    judge.usual_limits = replace(judge.usual_limits, call_s=2.0)
    try:
        result = verdict(judge, in_forward("while True: pass"))
    finally:
        judge.usual_limits = replace(judge.usual_limits, call_s=120.0)
    assert result.reason is not None
    assert result.reason.code == "timeout"
    assert verdict(judge, HONEST).accepted


@pytest.mark.long
def test_nothing_is_left_behind(judge: Judge) -> None:
    verdict(judge, in_forward("import os; os._exit(0)"))
    assert list(judge.scratch.iterdir()) == []
    own = {int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()}
    warm = judge.context.fork_server
    children = [pid for pid in own if _parent(pid) == warm.pid]
    assert children == []


def _parent(pid: int) -> int | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return None
    return int(text.rpartition(")")[2].split()[1])


@pytest.mark.long
def test_a_diagnosis_names_the_place_and_never_a_seed(judge: Judge) -> None:
    result = verdict(judge, changed("triton.cdiv(n, 256)", "n // 256"))
    assert result.reason is not None
    assert "expected" in result.reason.message
    assert "seed" not in str(result.reason)
    assert os.environ.get("HOME", "/root") not in str(result.reason)
