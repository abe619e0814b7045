"""Writes of torch's into tensors whose elements share memory: a GPU makes them at the same time."""

from __future__ import annotations

import pytest
import torch

from kernelagent.tools.virtual.device.fake_cuda import pretending_cuda
from kernelagent.tools.virtual.device.overlapping import WritesOverlap


def shared() -> torch.Tensor:
    """Windows of three elements, each one further than the one before."""
    return torch.zeros(6).as_strided((4, 3), (1, 1))


def by_item(to):
    to[...] = torch.arange(12.0).view(4, 3)


def by_indices(to):
    to[torch.tensor([0, 1])] = torch.ones(2, 3)


def by_addition(to):
    to += 1.0


WRITES = {
    "copy_": lambda to: to.copy_(torch.arange(12.0).view(4, 3)),
    "setitem": by_item,
    "add_": lambda to: to.add_(1.0),
    "iadd": by_addition,
    "mul_ of windows": lambda to: torch.ones(6).unfold(0, 3, 1).mul_(2.0),
    "index_add_": lambda to: to.index_add_(0, torch.tensor([0]), torch.ones(1, 3)),
    "out": lambda to: torch.add(torch.ones(4, 3), 1.0, out=to),
    "several": lambda to: torch._foreach_add_([torch.zeros(2), to], 1.0),
    "overload": lambda to: torch.ops.aten.add_.Tensor(to, torch.ones(4, 3)),
}


@pytest.mark.parametrize("how", WRITES)
def test_a_write_into_elements_that_share_memory_is_refused(how):
    with pretending_cuda("sm_90"), pytest.raises(WritesOverlap, match="share memory") as refused:
        WRITES[how](shared())
    assert refused.value.code == "data_race"


def the_same_windows(to):
    return to.copy_(torch.arange(6.0).as_strided((4, 3), (1, 1)))


def a_row(to):
    to[1] = torch.tensor([7.0, 8.0, 9.0])
    return to


def apart(_):
    return torch.zeros(8, 4).as_strided((4, 3), (7, 2), 1).copy_(torch.arange(12.0).view(4, 3))


def channels_last(_):
    x = torch.zeros(2, 3, 4, 4).to(memory_format=torch.channels_last)
    return x[:, :, ::2, 1:].add_(torch.arange(3.0).view(1, 3, 1, 1))


def one_number(to):
    to[...] = 3.0
    return to


HONEST = {
    "one value": lambda to: to.fill_(2.0),
    "one number": one_number,
    "the same windows": the_same_windows,
    "a row": a_row,
    "apart": apart,
    "channels last": channels_last,
    "read": lambda to: to.unfold(1, 2, 1) + 1.0,
    "with NaN": lambda to: to.copy_(torch.full((4, 3), torch.nan)),
}


@pytest.mark.parametrize("how", HONEST)
def test_equal_values_and_elements_apart_are_written_as_ever(how):
    expected = HONEST[how](shared())
    with pretending_cuda("sm_90"):
        result = HONEST[how](shared())
    assert torch.equal(result.nan_to_num(9.0), expected.nan_to_num(9.0))
