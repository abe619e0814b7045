"""A candidate is constructed as the emitted module constructs it: its parameters hold nothing then."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from kernelagent.dropin.parts import TEMPLATE
from kernelagent.tools.candidate_runner.unfilled import FILLING, TakenFromParameters, as_emitted


class Plain(nn.Module):
    """Tables that follow from the constructor's arguments, and weights that are filled in several ways."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.gain = nn.Parameter(torch.ones(4))
        self.shift = nn.Parameter(torch.empty(4))
        nn.init.normal_(self.shift)
        self.again = [self.gain]
        self.register_buffer("table", torch.arange(4) / 3.0, persistent=False)
        self.least = float("nan")
        self.narrow = nn.Parameter(torch.ones(4).to(torch.float8_e4m3fn), requires_grad=False)
        nn.init.zeros_(self.narrow)
        self.copied = self.narrow.detach().clone()


class Table(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(4))
        nn.init.ones_(self.weight)
        self.register_buffer("table", self.weight.detach() * 0.25, persistent=False)


class Number(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4)
        self.sizes = {"all": float(self.norm.weight.sum())}


class Whole(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.steps = int(self.linear.weight.abs().sum() * 10)


class Broken(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        raise KeyError("always")


def test_new_parameters_hold_nan_and_all_else_is_as_usual() -> None:
    unfilled, usual = as_emitted(Plain)
    assert bool(unfilled.linear.weight.isnan().all())
    assert bool(unfilled.shift.isnan().all())
    assert torch.equal(unfilled.table, usual.table)
    assert not any(bool(p.float().isnan().any()) for p in usual.parameters())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (Table, "computes table from its parameters"),
        (Number, "computes sizes from its parameters"),
        (Whole, "raised ValueError"),
    ],
    ids=["table", "number", "whole number"],
)
def test_what_is_taken_from_new_parameters_is_named(
    make: Callable[[], nn.Module], words: str
) -> None:
    with pytest.raises(TakenFromParameters, match=words):
        as_emitted(make)


def test_a_constructor_that_always_fails_fails_with_its_own_error() -> None:
    with pytest.raises(KeyError, match="always"):
        as_emitted(Broken)


def test_the_same_methods_are_left_out_as_by_the_drop_in() -> None:
    names = ", ".join(f'"{name}"' for name in FILLING)
    assert f"_FILLING = ({names})" in TEMPLATE.read_text(encoding="utf-8")
