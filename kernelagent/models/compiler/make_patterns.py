"""Writes the library of kernels anew: `python -m kernelagent.models.compiler.make_patterns`.

Each is the built-in policy's first candidate for a small module of torch.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from kernelagent.domain.candidate import Candidate, parse_reply
from kernelagent.models.compiler.policy import Policy
from kernelagent.models.patterns import PATTERNS

FOLDER = Path(__file__).parent.parent / "patterns"
Sizes = tuple[int, ...]


class MatMul(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b


class BatchedMatMul(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b.transpose(-1, -2)


class LinearGelu(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(1024, 4096, dtype=torch.float16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.gelu(self.linear(x))


class Softmax(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, -1)


class LayerNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(1024)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.norm(x)
        return result


class RmsNormResidual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1024))

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        total = x + residual
        return total * torch.rsqrt(total.square().mean(-1, keepdim=True) + 1e-6) * self.weight


class CausalAttention(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


class SumOfAll(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum()


class SumOfColumns(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(0)


@dataclass(frozen=True)
class Usual:
    """A module and the shapes of its inputs."""

    module: Callable[[], nn.Module]
    shapes: tuple[Sizes, ...]
    dtype: torch.dtype = torch.float32


_HALF = torch.float16
USUAL: Mapping[str, Usual] = {
    "matmul": Usual(MatMul, ((2048, 2048), (2048, 2048)), _HALF),
    "matmul_float32": Usual(MatMul, ((2048, 2048), (2048, 2048))),
    "matmul_split_k": Usual(MatMul, ((64, 16384), (16384, 64)), _HALF),
    "matmul_batched": Usual(BatchedMatMul, ((32, 512, 64), (32, 512, 64)), _HALF),
    "matrix_vector": Usual(MatMul, ((4096, 4096), (4096, 1))),
    "linear_gelu": Usual(LinearGelu, ((2048, 1024),), _HALF),
    "softmax": Usual(Softmax, ((1024, 2048),)),
    "softmax_long": Usual(Softmax, ((64, 131072),)),
    "layer_norm": Usual(LayerNorm, ((4096, 1024),)),
    "rms_norm": Usual(RmsNormResidual, ((4096, 1024), (4096, 1024))),
    "attention": Usual(CausalAttention, ((4, 16, 1024, 64),) * 3, _HALF),
    "attention_float32": Usual(CausalAttention, ((4, 16, 1024, 64),) * 3),
    "sum_of_all": Usual(SumOfAll, ((4096, 4096),)),
    "sum_of_columns": Usual(SumOfColumns, ((8192, 1024),)),
}


def written(name: str) -> str:
    """The policy's file for one of them; raises `PolicyCannot`."""
    usual = USUAL[name]
    module = usual.module()
    arguments = tuple(torch.zeros(shape, dtype=usual.dtype) for shape in usual.shapes)
    reply = Policy(module, type(module).__name__, {"default": (arguments, {})}).reply([]) or ""
    candidate = parse_reply(reply)
    assert isinstance(candidate, Candidate), candidate
    return candidate.source


def main() -> None:
    """Write every file."""
    with tempfile.TemporaryDirectory() as folder:
        # Inductor leaves folders in both places.
        os.environ |= {"TMPDIR": folder, "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor"}
        for name in PATTERNS:
            (FOLDER / f"{name}.tmpl").write_text(written(name), encoding="utf-8")


if __name__ == "__main__":
    main()
