"""Emits a plain-torch candidate for a small real module, and imports the file like a user would."""

from __future__ import annotations

import importlib.util
import itertools
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.evaluation import DeviceFacts, Estimate, Evaluation, Interval, Timing
from kernelagent.domain.problem import InputSet, ProblemFacts, TensorFacts
from kernelagent.dropin.emit import Certificate, emit_module

VIRTUAL = DeviceFacts("virtual", "H200, not present", "sm_90", "2.13.0", "3.9.0")
CUDA = DeviceFacts("cuda", "H200", "sm_90", "2.13.0", "3.9.0", "580.1")
CERTIFICATE = Certificate(
    run="20260101-120000-toy-00ff",
    date="2026-01-01",
    policy="triton",
    baseline="eager",
    reproduce="kernelagent evaluate toy.py toy_optimized.py --device virtual",
    kernelagent="0.1.0",
)


@contextmanager
def warnings_as_errors(*apart: type[Warning]) -> Iterator[None]:
    """`apart`: kinds that are none. Nor is what earlier tests of this process left open: the collection of garbage
    tells of it whenever it comes."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for ignored in (ResourceWarning, *apart):
            warnings.simplefilter("ignore", ignored)
        yield


class Block(torch.nn.Module):
    """A reference with a submodule, a buffer of each kind, a dropout and an attribute."""

    def __init__(self, width: int = 8, eps: float = 1e-6) -> None:
        super().__init__()
        self.width = width
        self.eps = eps
        self.fc = torch.nn.Linear(width, width)
        self.drop = torch.nn.Dropout(0.5)
        self.gain = torch.nn.Parameter(torch.randn(width))
        self.register_buffer("shift", torch.randn(width))
        self.register_buffer("scratch", torch.zeros(1), persistent=False)

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        hidden = self.drop(self.fc(x)) * self.gain + self.shift
        return hidden * torch.rsqrt(hidden.square().mean(-1, keepdim=True) + self.eps) * scale


CANDIDATE = '''\
"""A candidate's docstring."""

from __future__ import annotations

import torch
from torch import nn

CALLS = [0]


class ModelNew(nn.Module):
    def __init__(self, width: int = 8, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.fc = nn.Linear(width, width)
        self.gain = nn.Parameter(torch.randn(width))
        self.register_buffer("shift", torch.randn(width))
        self.register_buffer("table", torch.full((1,), 2.0), persistent=False)

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        CALLS[0] += 1
        weights = self.fc.weight * self.gain[:, None]
        hidden = x @ weights.t() + (self.fc.bias * self.gain + self.shift)
        norm = torch.rsqrt(hidden.square().mean(-1, keepdim=True) + self.eps)
        return hidden * norm * (scale * self.table / 2.0)
'''
X = {"dtype": "float32", "shape": [4, 8], "strides": [8, 1]}
ENVELOPE: dict[str, Any] = {
    "input_sets": [{"name": "default", "args": [X]}],
    "modes": ["eval"],
    "contiguous": True,
    "device_types": ["cpu"],
}
_numbers = itertools.count()


def facts_of(module: torch.nn.Module, init_arguments: str = "(8, eps=1e-06)") -> ProblemFacts:
    state = tuple(
        TensorFacts(n, tuple(t.shape), str(t.dtype).removeprefix("torch."), tuple(t.stride()))
        for n, t in module.state_dict().items()
    )
    row = TensorFacts("x", (4, 8), "float32", (8, 1))
    return ProblemFacts(
        name="toy",
        source="class Block: ...\n",
        entry_point=type(module).__name__,
        constructor="init",
        init_arguments=init_arguments,
        input_sets=(InputSet("default", (row,), "(x: float32[4, 8])"),),
        outputs=(replace(row, name="output", kind="output"),),
        state=state,
        mode="eval",
        sha256="0" * 64,
        precision="tf32 off",
    )


def estimated(**envelope: Any) -> Evaluation:
    estimate = Estimate(10.0, 15.0, "dram", 1.5, "x: float32[4, 8]")
    return Evaluation("accepted", VIRTUAL, estimate=estimate, envelope=ENVELOPE | envelope)


def measured() -> Evaluation:
    timing = Timing(10.0, 15.0, Interval(1.5, 1.45, 1.55))
    return Evaluation("accepted", CUDA, timing=timing, envelope=ENVELOPE, faster=True)


def text_for(source: str = CANDIDATE, facts: ProblemFacts | None = None, **envelope: Any) -> str:
    facts = facts if facts is not None else facts_of(Block())
    return emit_module(Candidate(source), facts, estimated(**envelope), CERTIFICATE)


def imported(text: str, folder: Path) -> ModuleType:
    """Import the text by a name of its own, so that what it defines can be pickled."""
    name = f"emitted_{next(_numbers)}"
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
