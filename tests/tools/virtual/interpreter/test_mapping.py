"""`tl.map_elementwise`: functions of single numbers that branch, executed as a GPU would."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from triton.language import associative_scan as scan_of
from triton.language import reduce as reduced_by

pytestmark = pytest.mark.skipif(
    not hasattr(tl, "map_elementwise"), reason="this Triton has no tl.map_elementwise"
)


@triton.jit
def _selu(x, alpha):
    if x > 0.0:
        return x
    return alpha * (tl.exp(x) - 1.0)


@triton.jit
def selu(x, out, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + at, tl.map_elementwise(_selu, tl.load(x + at), 0.5))


@triton.jit
def _rounds(x, most):
    value = x
    n = most * 0
    while (value > 1.0) & (n < most):
        value = value / 2.0
        n += 1
    for _ in range(n % 3):
        value += 100.0
    return value, n


@triton.jit
def rounds(x, values, counts, N: tl.constexpr):
    at = tl.arange(0, N)
    value, n = tl.map_elementwise(_rounds, tl.load(x + at), tl.full((N,), 5, tl.int32))
    tl.store(values + at, value)
    tl.store(counts + at, n)


@triton.jit
def _sizes(a, b):
    if a < 0.0:
        a = -a
    if b < 0.0:
        b = -b
    return a, b


@triton.jit
def _turned(a, b):
    return b, a


@triton.jit
def packed(x, out, FUNCTION: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    (made,) = tl.map_elementwise(FUNCTION, tl.load(x + at), pack=2)
    tl.store(out + at, made)


@triton.jit
def _own_number(x):
    n = x * 0
    while n < x:
        n += 1
    return n


@triton.jit
def own_numbers(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.map_elementwise(_own_number, tl.load(x + at)))


@triton.jit
def _larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def by_other_names(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    value = tl.load(x + at)
    tl.store(out + at, scan_of(value, 0, _larger) + reduced_by(value, 0, _larger))


class _Exponentials:
    """Hears how many lanes a special function was computed in."""

    count = 0

    def launch_begins(self, launch): ...

    def program_begins(self, program): ...

    def access(self, kind, addresses, item_bytes, lanes): ...

    def operation(self, kind, count, dtype):
        self.count += count if kind == "special" else 0

    def launch_ends(self, launch): ...


def test_each_element_takes_its_own_branch(interpret):
    x, out = torch.randn(64), torch.zeros(64)
    interpret(selu, (2,), x, out, 32)
    # Near zero `exp(x) - 1` has the last bits of 1.
    expected = torch.where(x > 0, x, 0.5 * (x.exp() - 1))
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-6)


def test_each_element_goes_round_its_own_loops(interpret):
    x = torch.tensor([0.5, 3.0, 9.0, 1e6, 17.0, 1.0, 5.0, -2.0])
    values, counts = torch.zeros(8), torch.zeros(8, dtype=torch.int32)
    interpret(rounds, (1,), x, values, counts, 8)
    assert counts.tolist() == [0, 2, 4, 5, 5, 0, 3, 0]
    halved = x / 2.0**counts
    assert values.tolist() == (halved + 100.0 * (counts % 3)).tolist()


def test_elements_in_packs_are_each_their_own(interpret):
    x, out = torch.randn(32), torch.zeros(32)
    interpret(packed, (1,), x, out, _sizes, 32)
    assert out.tolist() == x.abs().tolist()


def test_which_elements_are_beside_each_other_in_a_pack_is_drawn(interpret):
    x, outs = torch.randn(32), torch.zeros(2, 32)
    for out in outs:
        interpret(packed, (1,), x, out, _turned, 32)
        assert sorted(out.tolist()) == sorted(x.tolist())
    assert outs[0].tolist() != outs[1].tolist()


@pytest.mark.long
def test_a_function_of_more_ways_than_are_followed_is_refused_in_words(interpret):
    with pytest.raises(Exception, match="more than 256 ways"):
        interpret(own_numbers, (1,), torch.arange(512, dtype=torch.int32), torch.zeros(512), 512)


def test_every_way_is_charged_as_if_all_elements_went_it(interpret):
    none, some, every = counters = _Exponentials(), _Exponentials(), _Exponentials()
    for x, counter in zip(
        (torch.ones(32), torch.linspace(-1, 9, 32), -torch.ones(32)), counters, strict=True
    ):
        interpret(selu, (1,), x, torch.zeros(32), 32, observers=(counter,))
    assert none.count == 0 < some.count == every.count


def test_reductions_and_scans_that_a_module_imports_by_name_are_executed(interpret):
    x, out = torch.randn(32), torch.zeros(32)
    interpret(by_other_names, (1,), x, out, 32)
    assert out.tolist() == (x.cummax(0).values + x.max()).tolist()
