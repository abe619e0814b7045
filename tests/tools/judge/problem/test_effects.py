"""What a module does besides computing is named, and what only looks like it is not."""

from __future__ import annotations

import logging
import queue
import warnings
from collections import deque

import pytest
import torch
from torch import nn

from kernelagent.tools.judge.problem.reference.effects import Effects

LOGGER = logging.getLogger("rows")
EVENTS: queue.SimpleQueue[int] = queue.SimpleQueue()
LAST: deque[int] = deque(maxlen=4)
TAKEN = {"relu", "gelu"}


class Warns(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool((x == 0).all()):
            warnings.warn("nothing is there", stacklevel=2)
        return x


class AsksTheLogger(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if LOGGER.isEnabledFor(10) else x


class PutsIntoAQueue(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        EVENTS.put(x.shape[0])
        return x


class HasAQueue(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.events: queue.Queue[int] = queue.Queue()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.events.put(x.shape[0])
        return x


class RemembersSizes(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        LAST.append(x.shape[0])
        return x


class OnlyReads(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if "relu" in TAKEN else torch.add(x, len(TAKEN))


class OnlyRaises(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.dim() < 1:
            raise ValueError("no dimension")
        return nn.functional.relu(x)


def told(module: nn.Module) -> str:
    effects = Effects.of(module)
    module(torch.ones(3))
    return " ".join(remark.message for remark in effects.remarks())


@pytest.mark.parametrize(
    ("module", "named"),
    [
        (Warns(), "warns (`warnings.warn`)"),
        (AsksTheLogger(), "`LOGGER`"),
        (PutsIntoAQueue(), "`EVENTS` (a SimpleQueue)"),
        (HasAQueue(), "`events` (a Queue)"),
        (RemembersSizes(), "writes to `LAST` (a deque)"),
        (nn.Sequential(PutsIntoAQueue()), "`EVENTS` (a SimpleQueue)"),
    ],
)
def test_what_a_forward_does_besides_computing_is_named(module: nn.Module, named: str) -> None:
    assert named in told(module)


@pytest.mark.parametrize("module", [OnlyReads(), OnlyRaises(), nn.Linear(3, 3)])
def test_a_module_that_only_computes_is_not_named(module: nn.Module) -> None:
    assert told(module) == ""
