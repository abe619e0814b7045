"""What `kernelagent import` takes for the candidate."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelagent.cli.main import main
from kernelagent.domain.certificate import certificate_in
from kernelagent.domain.errors import UsageError
from kernelagent.loop.emitted.imported import source_in

OURS = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    pass\n"
THEIRS = OURS.replace("ModelNew", "FastNorm")


def file(folder: Path, text: str) -> Path:
    path = folder / "kernels.py"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_with_the_class_is_taken_as_it_is(tmp_path: Path) -> None:
    assert source_in(file(tmp_path, OURS), None) == OURS


def test_a_class_of_another_name_is_given_ours(tmp_path: Path) -> None:
    source = source_in(file(tmp_path, THEIRS), "FastNorm")
    assert source.startswith(THEIRS.rstrip())
    assert source.endswith("class ModelNew(FastNorm):\n    pass\n")


def test_without_the_class_the_option_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--class"):
        source_in(file(tmp_path, THEIRS), None)


def test_a_file_that_needs_its_package_is_refused_with_the_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="line 1: what it imports from its own package"):
        source_in(file(tmp_path, f"from .ops import norm\n{OURS}"), None)


def test_a_build_is_read_before_the_source_beside_it(tmp_path: Path) -> None:
    for name, text in (("build/torch-cuda", OURS), ("torch-ext/norm", f"{OURS}# the source")):
        (tmp_path / name).mkdir(parents=True)
        file(tmp_path / name, text)
    (tmp_path / "build/torch-cuda/metadata.json").write_text("{}")
    assert source_in(tmp_path, None) == OURS
    (tmp_path / "build/torch-cuda/metadata.json").unlink()
    assert "# the source" in source_in(tmp_path / "torch-ext", None)


def test_what_is_no_python_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no Python file"):
        source_in(file(tmp_path, "class ("), None)


REFERENCE = """
import torch


class Norm(torch.nn.Module):
    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(width) + 0.5)
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def get_init_inputs():
    return [256]


def get_inputs():
    return [torch.randn(64, 256)]
"""
OPS = '''"""RMS normalization, one program a row."""

import torch
import triton
import triton.language as tl


@triton.jit
def _fwd_kernel(X, Y, W, stride, N, eps, BLOCK_N: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_N)
    mask = cols < N
    x = tl.load(X + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    rstd = 1 / tl.sqrt(tl.sum(x * x, axis=0) / N + eps)
    w = tl.load(W + cols, mask=mask).to(tl.float32)
    tl.store(Y + row * stride + cols, x * rstd * w, mask=mask)


def rms_norm(x, weight, eps):
    flat = x.contiguous().view(-1, x.shape[-1])
    y = torch.empty_like(flat)
    rows, n = flat.shape
    _fwd_kernel[(rows,)](flat, y, weight, flat.stride(0), n, eps, BLOCK_N=triton.next_power_of_2(n))
    return y.view_as(x)
'''
LAYERS = """import torch
from torch import nn

from .ops import rms_norm as _rms_norm


class FastNorm(nn.Module):
    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _rms_norm(x, self.weight, self.eps)
"""


def imported(folder: Path, ops: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """`kernelagent import` of a folder in the hub's style; its exit status and all that it said."""
    inside = folder / "torch-ext" / "fast_norm"
    inside.mkdir(parents=True)
    (inside / "__init__.py").write_text("from . import layers\nfrom .ops import rms_norm\n")
    (inside / "layers.py").write_text(LAYERS)
    (inside / "ops.py").write_text(ops)
    (folder / "build.toml").write_text('[general]\nname = "fast_norm"\n')
    (folder / "norm.py").write_text(REFERENCE)
    words = [str(folder), str(folder / "norm.py"), "--class", "FastNorm", "--device", "virtual"]
    with pytest.raises(SystemExit) as ended:
        main(["import", *words, "--out", str(folder / "norm_imported.py")])
    said = capsys.readouterr()
    return int(str(ended.value.code)), said.out + said.err


@pytest.mark.long
def test_a_package_of_kernels_nobody_here_wrote_is_judged_and_certified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, said = imported(tmp_path, OPS, capsys)
    assert status == 0, said
    written = tmp_path / "norm_imported.py"
    assert f"accepted; {written} carries the certificate" in said
    assert certificate_in(written).policy == "triton"
    text = written.read_text(encoding="utf-8")
    assert (
        text.index("def _fwd_kernel") < text.index("class FastNorm") < text.index("def optimized")
    )
    assert "class ModelNew(FastNorm)" in text
    assert "from ." not in text


@pytest.mark.long
def test_a_package_of_kernels_that_forgets_the_mean_is_rejected_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, said = imported(
        tmp_path, OPS.replace("axis=0) / N", "axis=0) / BLOCK_N / 1.01"), capsys
    )
    assert status == 1, said
    assert "output is wrong" in said
    assert not (tmp_path / "norm_imported.py").exists()
