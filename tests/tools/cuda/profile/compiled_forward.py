"""A candidate whose kernels are compiled for a real target, and whose launches compute on the CPU."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kernelagent.tools.candidate_runner.launches import Launches

SOURCE = """
import triton
import triton.language as tl


@triton.jit
def _twice(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(y + at, 2 * tl.load(x + at, mask=inside), mask=inside)


@triton.jit
def _product(a, b, c, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    left = tl.load(a + at[:, None] * BLOCK + at[None, :])
    right = tl.load(b + at[:, None] * BLOCK + at[None, :])
    tl.store(c + at[:, None] * BLOCK + at[None, :], tl.dot(left, right))
"""
LIBRARY = SOURCE.replace("_twice", "_thrice")
SIGNATURES: dict[str, tuple[dict[str, str], int]] = {
    "_twice": ({"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"}, 1024),
    "_thrice": ({"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"}, 1024),
    "_product": ({"a": "*fp16", "b": "*fp16", "c": "*fp32", "BLOCK": "constexpr"}, 64),
}


SM_90 = GPUTarget("cuda", 90, 32)
_compiled: dict[tuple[str, str, str], Any] = {}


@dataclass
class Written:
    """Files with kernels in them, compiled for sm_90."""

    folder: Path

    def compiled(self, name: str, *, text: str = SOURCE, file: str = "candidate.py") -> Any:
        key = (name, text, file)
        if key not in _compiled:
            _compiled[key] = self._compile(*key)
        return _compiled[key]

    def _compile(self, name: str, text: str, file: str) -> Any:
        return triton.compile(self.source(name, text=text, file=file), target=SM_90)

    def source(self, name: str, *, text: str = SOURCE, file: str = "candidate.py") -> Any:
        """What Triton is asked to compile."""
        path = self.folder / file
        path.write_text(text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        signature, block = SIGNATURES[name]
        return ASTSource(
            getattr(module, name), signature, constexprs={(len(signature) - 1,): block}
        )

    @property
    def launches(self) -> Launches:
        return Launches(str(self.folder / "candidate.py"))


@dataclass
class Forward:
    """Two launches of an own kernel and some of torch's work, on the CPU."""

    launches: Launches
    kernel: Any
    size: int = 1 << 20

    def __call__(self) -> torch.Tensor:
        x = torch.ones(self.size)
        for _ in range(2):
            x = self._launched(x)
            if x is None:
                return torch.zeros(self.size)
        return x.add(1.0)

    def _launched(self, x: torch.Tensor) -> torch.Tensor | None:
        return self.launches.recording(self.kernel, lambda *_: x.mul(2.0))(4, 1, 1)
