"""Complex tensors taken apart and joined again."""

from __future__ import annotations

import math

import torch

from kernelagent.tools.calls.complex_numbers import (
    by_modulus,
    by_rows,
    in_each_part,
    is_inexact,
    of_parts,
    parts_first,
    parts_of,
    without_tiny,
)


def test_complex_and_floating_tensors_are_inexact_and_others_are_not():
    for dtype, inexact in (
        (torch.complex64, True),
        (torch.complex128, True),
        (torch.bfloat16, True),
        (torch.int64, False),
        (torch.bool, False),
    ):
        assert is_inexact(torch.zeros(2, dtype=dtype)) is inexact


def test_parts_of_a_conjugate_are_those_that_torch_shows():
    z = torch.randn(3, 4, dtype=torch.complex64).conj()
    real, imaginary = parts_of(z)
    assert torch.equal(real, z.real)
    assert torch.equal(imaginary, z.imag.clone())
    assert torch.equal(of_parts(real, imaginary), z)


def test_joined_parts_keep_infinities_and_signs_of_zeros():
    z = of_parts(torch.tensor([math.inf, -0.0]), torch.tensor([-0.0, math.inf]))
    assert z.real.tolist() == [math.inf, 0.0]
    assert z.real.signbit().tolist() == [False, True]
    assert z.imag.signbit().tolist() == [True, False]


def test_a_change_is_made_in_each_part_and_of_a_floating_tensor_once():
    x = torch.randn(5)
    assert torch.equal(in_each_part(torch.abs, x), x.abs())
    z = torch.randn(5, dtype=torch.complex64)
    made = in_each_part(torch.abs, z)
    assert torch.equal(made.real, z.real.abs())
    assert torch.equal(made.imag, z.imag.abs())


def test_another_modulus_keeps_the_phase():
    z = torch.randn(7, dtype=torch.complex64)
    made = by_modulus(lambda sizes: torch.full_like(sizes, 1e-9), z)
    assert torch.allclose(made.abs(), torch.full((7,), 1e-9))
    assert torch.allclose(torch.sgn(made), torch.sgn(z), atol=1e-5)


def test_rows_come_from_either_tensor_in_turn():
    made = by_rows(torch.ones(4, 3), torch.zeros(4, 3), 1)
    assert made[:, 0].tolist() == [1.0, 0.0, 1.0, 0.0]


def test_what_has_no_square_becomes_zero_as_a_whole():
    z = torch.tensor([1e-39 + 1e-39j, 1e-39 + 1j, 2.0 + 0j])
    assert without_tiny(z).tolist()[0] == 0
    assert torch.equal(without_tiny(z)[1:], z[1:])


def test_parts_stand_first_so_that_rows_stay_rows():
    assert parts_first(torch.zeros(3, 4, dtype=torch.complex64)).shape == (2, 3, 4)
    x = torch.zeros(3)
    assert parts_first(x) is x
