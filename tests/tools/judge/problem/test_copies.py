"""Copies of a module are whole: what it calls is the copy's, not the original's."""

from __future__ import annotations

import torch
from torch import nn

from kernelagent.tools.judge.problem.reference.copies import copied_with


class WithAFunction(nn.Module):
    """As of minGPT, whose block calls its parts through a function that it holds."""

    def __init__(self, times: int = 2) -> None:
        super().__init__()
        self.parts = nn.ModuleDict({"first": nn.Linear(4, 8), "then": nn.Linear(8, 4)})
        parts = self.parts
        self.through = lambda x, *, by=times: parts["then"](parts["first"](x).relu()) * by

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.through(x)


def test_a_function_that_a_module_holds_calls_the_copys_parts() -> None:
    module = WithAFunction(3)
    x = torch.randn(2, 4)
    usual = module(x)
    made = copied_with(module, torch.Tensor.double)
    assert made(x.double()).dtype == torch.float64
    assert torch.allclose(made(x.double()).float(), usual, atol=1e-6)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.zero_()
    assert torch.equal(made(x.double()), x.double())
    assert torch.equal(module(x), usual)


def test_without_contents_its_shape_can_be_asked() -> None:
    made = copied_with(WithAFunction(), lambda tensor: tensor.to("meta"))
    assert made(torch.randn(2, 4, device="meta")).shape == (2, 4)
