"""What is computed in float64 beside the module as given."""

from __future__ import annotations

import pytest
import torch

from kernelagent.tools.judge.problem.reference.conditioning import moved
from kernelagent.tools.judge.problem.reference.in_float64 import InFloat64, double
from kernelagent.tools.judge.problem.reference.rounded_steps import RoundedSteps


def test_complex_numbers_are_raised_as_floating_ones_are():
    assert double(torch.zeros(2, dtype=torch.complex64)).dtype == torch.complex128
    with InFloat64():
        assert torch.zeros(2).to(torch.complex64).dtype == torch.complex128
        assert torch.zeros(2).cfloat().dtype == torch.complex128


def test_rounded_steps_move_parts_of_a_product_by_its_size_and_leave_the_axes():
    z = torch.complex(torch.ones(64).double(), torch.full((64,), 1e-6).double())
    on_the_axis = torch.complex(torch.ones(64).double(), torch.zeros(64).double())
    with RoundedSteps(torch.Generator().manual_seed(1)):
        product, real = z * z, on_the_axis * on_the_axis
    off = (product - z * z).imag.abs()
    assert float(off.max()) > 2.0**-25
    assert not bool(real.imag.any())
    assert bool((real.real != 1).all())


def test_parts_of_an_input_are_rounded_apart():
    z = torch.full((64,), 1 + 1j, dtype=torch.complex64)
    made = moved(z, torch.Generator().manual_seed(1))
    up, other = made.real > 1, made.imag > 1
    assert bool((up != other).any())
    assert float((made - z).abs().max()) < 2.0**-22


def test_bits_of_a_number_are_not_read_in_another_type() -> None:
    bits = {
        "of a float": lambda: torch.ones(4).view(torch.int32),
        "as a float": lambda: torch.ones(4, dtype=torch.int32).view(torch.float32),
        "by name": lambda: torch.ones(4).view(dtype=torch.int32),
    }
    for read in bits.values():
        with pytest.raises(NotImplementedError), InFloat64():
            read()
    with InFloat64():
        assert torch.ones(4).view(2, 2).shape == (2, 2)
        assert torch.ones(4).double().view(torch.complex64).dtype == torch.complex128
        assert torch.ones(4).double().view(torch.float32).dtype == torch.float64
        assert torch.ones(4, dtype=torch.int32).view(torch.uint8).numel() == 16
