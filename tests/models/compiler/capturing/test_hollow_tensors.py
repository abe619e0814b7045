"""The author's large tensors: on the CPU, of any size, and never filled."""

from __future__ import annotations

import resource

import torch
from torch import nn

from kernelagent.models.compiler.capturing.hollow_tensors import HollowTensors


def test_weights_and_inputs_of_gigabytes_take_no_memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with HollowTensors():
        module = nn.Linear(32768, 32768).cpu().eval()
        x = torch.rand(1 << 15, 1 << 15) * 2 - 1
    assert x.shape == (1 << 15, 1 << 15)
    assert {x.device.type, module.weight.device.type} == {"cpu"}
    assert module.weight.requires_grad
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 512 << 10, "kilobytes"


def test_small_tensors_keep_their_values() -> None:
    with HollowTensors():
        table = torch.arange(8) * 2
    assert table.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
