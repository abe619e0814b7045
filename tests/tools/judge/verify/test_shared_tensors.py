"""One tensor that is two things: what a kernel answers then is told, where it is not the module's own answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from kernelagent.tools.calls.own_state import with_own_state
from kernelagent.tools.corpus.check import check
from kernelagent.tools.corpus.fixture import Fixture
from kernelagent.tools.corpus.whitebox.effects import CHEATS, TWINS
from kernelagent.tools.judge.problem.reference.in_float64 import doubled_once


class Counts(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.zeros(2, 3))


def test_a_buffer_takes_the_place_of_the_first_input_of_its_form() -> None:
    module = Counts()
    first, second = torch.ones(2, 3), torch.ones(2, 3)
    (given, other, number), named = with_own_state(module, ((first, second, 3), {}), "state")
    assert given is module.state
    assert other is second
    assert (number, named) == (3, {})


@pytest.mark.parametrize("entry", ["", "other"])
def test_without_such_a_buffer_the_inputs_are_as_they_are(entry: str) -> None:
    x = torch.ones(2, 3)
    (given,), _ = with_own_state(Counts(), ((x,), {}), entry)
    assert given is x


def test_one_tensor_that_is_given_twice_stays_one_in_float64() -> None:
    x = torch.ones(3)
    first, second = doubled_once((x, x))
    assert first is second
    assert first.dtype == torch.float64


def _of(threats: tuple[int, ...], which: Callable[[int], tuple[Fixture, ...]]) -> list[Fixture]:
    return [fixture for number in threats for fixture in which(number)]


@pytest.mark.parametrize(
    "fixture",
    [*_of((26, 27), CHEATS.__getitem__), *_of((26, 27), TWINS.__getitem__)],
    ids=lambda fixture: fixture.name,
)
@pytest.mark.always
@pytest.mark.long
def test_what_programs_read_of_each_other_and_leave_after_an_error_is_told(
    fixture: Fixture,
) -> None:
    (row,) = check([fixture], device="virtual")
    assert row.as_expected, (row.code, row.message, row.disclosures)
    if fixture.discloses is None:
        told = {"differs_on_one_for_two", "differs_on_own_state", "state_after_refusal"}
        assert not told & set(row.disclosures)
