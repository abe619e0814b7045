"""What a wrong answer turns out to be: the reference's without one of its operands."""

from __future__ import annotations

import torch
from torch import nn

from kernelagent.tools.judge.problem.rounds import Trial
from kernelagent.tools.judge.problem.trials import STATE
from kernelagent.tools.judge.verify.compare import Expected, compare, scales_of
from kernelagent.tools.judge.verify.failure_context import Memory, refusal_of


def test_forgotten_bias_of_a_convolution_is_named() -> None:
    torch.manual_seed(0)
    conv = nn.Conv2d(3, 8, 3).requires_grad_(False)
    x = torch.randn(2, 3, 10, 10)

    def reference(tensors):
        weight, bias = (
            tensors.get(f"{STATE}conv.{name}", getattr(conv, name)).double()
            for name in ("weight", "bias")
        )
        return torch.tanh(nn.functional.conv2d(x.double(), weight, bias)).amax((2, 3))

    right = reference({})
    expected = Expected(right.float(), right, scales_of(right))
    forgotten = reference({f"{STATE}conv.bias": torch.zeros(8)}).float()
    comparison = compare(forgotten, expected, input_set="default", probe="natural")
    trial = Trial("default", "natural", ((x,), {}), None, expected, reference)
    memory = Memory(weights=[{f"conv.{name}": value for name, value in conv.state_dict().items()}])

    refused = refusal_of(comparison, trial, memory).reason

    assert refused.code == "insensitive"
    assert "it is the right answer if state.conv.bias is ignored" in refused.message
