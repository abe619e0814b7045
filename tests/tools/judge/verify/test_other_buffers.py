"""Other values for buffers that hold what the constructor made."""

from __future__ import annotations

import torch

from kernelagent.tools.judge.verify.beyond.other_buffers import other_values


def seeded():
    return torch.Generator().manual_seed(4)


def test_what_is_one_number_becomes_numbers_beside_it():
    made = other_values(torch.ones(64), seeded())
    assert made is not None
    assert bool((made != 1).any())
    assert 0.05 < float((made - 1).std()) < 0.5


def test_integers_stay_in_their_range_and_orders_stay_orders():
    zeros = other_values(torch.full((64,), 8, dtype=torch.int32), seeded())
    assert zeros is not None
    assert zeros.dtype == torch.int32
    assert 0 <= int(zeros.min()) < int(zeros.max()) <= 8
    order = other_values(torch.arange(64), seeded())
    assert order is not None
    assert order.tolist() != list(range(64))
    assert sorted(order.tolist()) == list(range(64))


def test_zeros_and_infinities_alone_have_no_others():
    assert other_values(torch.zeros(8), seeded()) is None
    assert other_values(torch.full((8,), float("inf")), seeded()) is None


def test_complex_buffers_of_one_number_vary_in_both_parts():
    made = other_values(torch.full((64,), 1 + 1j), seeded())
    assert made is not None
    assert float(made.real.std()) > 0.05
    assert float(made.imag.std()) > 0.05


def test_float8_of_one_number_has_others_beside_it_and_infinite_ones_have_none():
    made = other_values(torch.ones(64).to(torch.float8_e4m3fn), seeded())
    assert made is not None
    assert made.dtype == torch.float8_e4m3fn
    assert bool((made.float() != 1).any())
    assert other_values(torch.full((8,), float("inf")).to(torch.float8_e5m2), seeded()) is None
