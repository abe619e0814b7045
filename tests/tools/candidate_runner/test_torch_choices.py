"""Conditions of data that a text computes by torch are noted with their lines, those of places and sizes are not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from kernelagent.tools.candidate_runner.host.torch_choices import TorchChoices
from kernelagent.tools.virtual.device.fake_cuda import observed_by, pretending_cuda


@contextmanager
def noted(file: str) -> Iterator[TorchChoices]:
    choices = TorchChoices(file)
    with pretending_cuda("sm_90"), observed_by(choices.note):
        yield choices


def test_a_condition_of_data_is_noted_with_its_line_and_the_ways_it_came_out():
    x = torch.tensor([1.0, 2.0, 3.0])
    with noted(__file__) as choices:
        torch.where(x > 7.5, -x, x)
        x.lt(2.5).any()
    found = {text: ways for _, text, ways in choices.rows()}
    assert found == {"x > 7.5": 2, "x.lt(2.5)": 3, "x.lt(2.5).any()": 1}
    assert all(line > 0 for line, _, _ in choices.rows())


def test_ways_of_several_rounds_come_together():
    with noted(__file__) as choices:
        for bound in (0.0, 9.0):
            torch.ones(3).add(torch.rand(3)).gt(bound)
    assert [ways for _, _, ways in choices.rows()] == [3]


def test_places_and_sizes_are_no_data():
    with noted(__file__) as choices:
        at = torch.arange(9)
        assert not (at[:, None] < at + 99).logical_not().any().item()
    assert choices.rows() == []


def test_what_another_text_asks_is_not_noted():
    x = torch.rand(3)
    with noted("another.py") as choices:
        assert (x < 2).all()
    assert choices.rows() == []


def stacked() -> tuple[int, int]:
    modes = torch._C
    return modes._len_torch_function_stack(), modes._len_torch_dispatch_stack()  # noqa: SLF001 - as above


def test_nothing_is_put_on_the_stack_of_modes_for_it():
    with pretending_cuda("sm_90"):
        before = stacked()
    with noted(__file__):
        assert stacked() == before
