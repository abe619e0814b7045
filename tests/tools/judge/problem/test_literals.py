"""The numbers of a source, however it is written."""

from __future__ import annotations

import time

from kernelagent.tools.judge.problem.trials.planting.literals import literals_of


def test_an_expression_a_thousand_deep_and_numbers_without_bound_end_soon():
    began = time.process_time()
    deep = "A = " + "+".join(["1"] * 1500)
    long = "B = " + "*".join(["(2**1000)"] * 300) + "\nC = 12345"
    assert 1500 in literals_of(deep).values
    assert 12345.0 in literals_of(long).values
    assert literals_of("A = " + "(" * 5000 + "1" + ")" * 5000).values in ((), (1.0,))
    assert time.process_time() - began < 2.0


def test_what_a_kernel_makes_of_a_number_is_a_number_of_the_source():
    kernel = """
@triton.jit
def k(x, N: tl.constexpr):
    start = tl.full((N,), 1.2237754, tl.float32)
    near = tl.exp(start.to(tl.float32))
    v = tl.load(x) - near * 2
    far = tl.full((), 0.25, tl.float32)
    far = far + v
    return tl.sqrt(far)
"""
    values = literals_of(kernel).values
    assert any(abs(value - 3.4) < 1e-6 for value in values)
    assert any(abs(value - 6.8) < 1e-6 for value in values)
    assert 0.5 not in values


def test_numbers_of_torch_s_own_defaults_are_among_the_reference_s():
    reference = "y = F.softplus(F.normalize(x, dim=-1)) + nn.LayerNorm(8)(x)"
    assert {1e-12, 1e-5, 20.0} <= {*literals_of("", reference).values}
    assert 1e-12 not in literals_of(reference).values


def test_a_function_of_a_constant_is_taken_with_its_neighbours_in_float32():
    values = literals_of("t = tl.exp(1.2237754)\nu = tl.full((), 7.0, tl.float32)").values
    near = [value for value in values if abs(value - 3.4) < 1e-5]
    assert len(near) >= 6
    assert [value for value in values if abs(value - 7.0) < 1e-5] == [7.0]
