"""What a module reads where the emitted module does not look is named, and nothing else is."""

from __future__ import annotations

import os
import weakref
from contextvars import ContextVar

import numpy as np
import pytest
import torch
from torch import nn

from kernelagent.tools.judge.problem.reference.read_from_outside import read_from_outside

GAIN = ContextVar("GAIN", default=2.0)
REGISTRY: weakref.WeakKeyDictionary[nn.Module, float] = weakref.WeakKeyDictionary()
SCALE = 2.0


def gain() -> float:
    return float(os.environ.get("GAIN", "2.0"))


class OfTheEnvironment(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scaled(x)

    def scaled(self, x: torch.Tensor) -> torch.Tensor:
        return x * gain()


class OfTheContext(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * GAIN.get()


class OfARegistry(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * REGISTRY.get(self, 2.0)


class OfItsParent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parent = [nn.Linear(2, 2)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.parent[0].weight.sum()


class OfNumpy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = torch.from_numpy(np.ones(1, dtype=np.float32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.table


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Linear(2, 2)]
        self.registered = nn.ModuleList(self.layers)
        self.sizes = {"width": 2}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers[0](x) * SCALE


@pytest.mark.parametrize(
    ("module", "what"),
    [
        (OfTheEnvironment(), "the environment of the process"),
        (OfTheContext(), "the context variable `GAIN`"),
        (OfARegistry(), "the weak registry `REGISTRY`"),
        (OfItsParent(), "the module in `parent`"),
        (OfNumpy(), "memory that another library writes to (`from_numpy`)"),
    ],
)
@pytest.mark.parametrize("inside", [False, True])
def test_what_the_emitted_module_does_not_see_is_named(
    module: nn.Module, what: str, inside: bool
) -> None:
    (remark,) = read_from_outside(nn.Sequential(module) if inside else module)
    assert remark.code == "read_from_outside"
    named = what.replace("`parent`", "`0.parent`") if inside else what
    assert f"your module reads {named}:" in remark.message


@pytest.mark.parametrize(
    "module", [Plain(), nn.TransformerEncoderLayer(8, 2), nn.LSTM(4, 4), nn.BatchNorm1d(4)]
)
def test_of_a_module_that_reads_its_own_alone_nothing_is_said(module: nn.Module) -> None:
    assert read_from_outside(module) == ()
