"""Which whole numbers rounding decides, as the reference tells by others that err a little."""

from __future__ import annotations

import torch

from kernelagent.tools.judge.problem.reference.near_ties import near_ties_on_demand


def seeded():
    return torch.Generator().manual_seed(3)


def near(reference, tensors, got):
    """Which of the elements that differ are near a tie."""
    right = reference(tensors)
    asked = near_ties_on_demand(reference, tensors, right, seeded())
    return asked("output", got, got != right).tolist()


def rounded(t):
    return (t["x"].double() * 16).round().to(torch.int8)


def test_a_number_between_two_whole_ones_may_be_either():
    x = torch.tensor([2.5, 2.4, 3.5, 2.5]) / 16
    assert near(rounded, {"x": x}, torch.tensor([3, 3, 3, 2], dtype=torch.int8)) == [
        True,
        False,
        True,
        False,
    ]


def test_further_off_than_one_it_is_wrong_there_too():
    x = torch.tensor([2.5]) / 16
    assert near(rounded, {"x": x}, torch.tensor([9], dtype=torch.int8)) == [False]


def test_a_quotient_of_whole_numbers_may_be_cut_off_below_it():
    tensors = {"t": torch.tensor([21, 20]), "p": torch.tensor([7, 7])}

    def periods(t):
        return (t["t"].double() / t["p"].double()).floor().long()

    assert near(periods, tensors, torch.tensor([2, 1])) == [True, False]


def test_of_equal_ones_any_may_be_the_largest_and_of_others_none():
    x = torch.tensor([[1.0, 5.0, 5.0, 2.0], [1.0, 5.0, 4.0, 2.0]])
    asked = near(lambda t: t["x"].double().argmax(-1), {"x": x}, torch.tensor([2, 2]))
    assert asked == [True, False]


def test_a_sign_is_open_where_products_cancel():
    tensors = {"u": torch.tensor([0.1, 0.3]), "v": torch.tensor([0.1, 0.7])}

    def side(t):
        u, v = t["u"].double(), t["v"].double()
        return torch.sign(u * v - v.clamp_max(0.5) * u).int()

    assert near(side, tensors, torch.tensor([1, -1], dtype=torch.int32)) == [True, False]


def test_the_reference_is_asked_only_where_something_is_wrong():
    calls = []

    def counted(t):
        calls.append(1)
        return rounded(t)

    x = torch.tensor([2.4]) / 16
    asked = near_ties_on_demand(counted, {"x": x}, rounded({"x": x}), seeded())
    right = torch.tensor([2], dtype=torch.int8)
    assert asked("output", right, torch.tensor([False])).tolist() == [False]
    assert not calls


def test_a_count_of_many_ties_may_have_all_of_them_on_one_side():
    tensors = {"x": torch.full((2, 40), 1 / 3), "bound": torch.tensor([[1 / 3], [0.6]])}

    def below(t):
        return (t["x"].double() <= t["bound"].double()).sum(-1)

    assert near(below, tensors, torch.tensor([0, 39])) == [True, False]
