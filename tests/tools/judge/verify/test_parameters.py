"""Parameters that are others to an optimizer, or begin otherwise, are told; under `--train` refused."""

from __future__ import annotations

import pytest
import torch

from kernelagent.tools.calls.parameter_rows import rows_of
from kernelagent.tools.judge.verify.parameters import compare_parameters
from kernelagent.tools.judge.verify.rejection import Rejected


class Two(torch.nn.Module):
    def __init__(self, *names: str, frozen: str = "", buffer: str = "", zero: str = "") -> None:
        super().__init__()
        for name in names:
            value = torch.zeros(100) if name == zero else torch.randn(100)
            if name == buffer:
                self.register_buffer(name, value)
            else:
                parameter = torch.nn.Parameter(value, requires_grad=name != frozen)
                self.register_parameter(name, parameter)


def told(candidate: torch.nn.Module, *, trains: bool = False) -> list[str]:
    reference = Two("weight", "bias")
    begun = reference.state_dict()
    found = compare_parameters(reference, begun, rows_of(candidate), trains=trains)
    return [one.code for one in found]


def test_the_same_parameters_are_nothing_to_tell() -> None:
    assert told(Two("weight", "bias")) == []
    assert told(Two("weight", "bias"), trains=True) == []


def test_another_order_is_told() -> None:
    assert told(Two("bias", "weight")) == ["parameters_in_other_order"]


@pytest.mark.parametrize("how", ["frozen", "buffer"])
def test_what_does_not_learn_is_told_and_refused_for_training(how: str) -> None:
    candidate = Two("weight", "bias", **{how: "bias"})
    assert told(candidate) == ["parameters_differ"]
    with pytest.raises(Rejected, match="bias"):
        told(candidate, trains=True)


def test_weights_that_begin_otherwise_are_told() -> None:
    assert told(Two("weight", "bias", zero="bias")) == ["initial_weights"]


def test_nothing_is_said_of_weights_that_were_built_otherwise() -> None:
    reference = Two("weight", "bias")
    rows = rows_of(Two("weight", "bias", zero="bias"))
    assert compare_parameters(reference, None, rows, trains=False) == []
