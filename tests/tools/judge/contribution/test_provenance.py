"""Marked values tell copies from what was computed; the share that is left to kernels; errors to one side."""

from __future__ import annotations

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from kernelagent.tools.judge.contribution.left_to_kernels import require_part_of_the_work
from kernelagent.tools.judge.contribution.provenance import Provenance
from kernelagent.tools.judge.verify.compare.within_budget.bias import slope_beyond
from kernelagent.tools.judge.verify.rejection import Rejected
from kernelagent.tools.virtual.cost.eager import EagerRow
from kernelagent.tools.virtual.provenance.marking import FOREIGN_SHARE, MARKED, Marks

FLOATS = st.sampled_from(MARKED)


def pair(dtype, secret):
    marks = Marks(secret)
    drawn = torch.Generator().manual_seed(secret % 1000)
    return marks, *(marks.mark(torch.randn(40, 50, generator=drawn).to(dtype)) for _ in range(2))


# Next to a power of two a secret may leave a form none of the few neighbours that it has there.
@pytest.mark.long
@example(torch.float16, 2_174_725_934)
@given(FLOATS, st.integers(0, 1 << 61))
def test_marking_moves_a_value_by_little_and_a_copy_keeps_the_mark(dtype, secret):
    marks, first, second = pair(dtype, secret)
    assert float((~marks.marked(first)).float().mean()) < FOREIGN_SHARE / 20
    assert not marks.is_foreign(first.t().contiguous(), second.t().contiguous())
    assert not marks.is_foreign(first[:, 3:9], second[:, 3:9])
    near = marks.mark(torch.full((100,), 3.0, dtype=dtype))
    assert float((near - 3.0).abs().max()) < 0.6


@pytest.mark.long
@given(FLOATS, st.integers(0, 1 << 61))
def test_what_arithmetic_makes_of_marked_values_is_seen(dtype, secret):
    marks, first, second = pair(dtype, secret)
    assert marks.is_foreign(first * 1.7, second * 1.7)
    assert marks.is_foreign(torch.sigmoid(first), torch.sigmoid(second))


def test_a_cast_to_a_narrower_type_keeps_the_mark():
    marks, first, second = pair(torch.float32, 12345)
    for narrow in (torch.bfloat16, torch.float16):
        assert not marks.is_foreign(first.to(narrow), second.to(narrow))
        assert not marks.is_foreign(first.to(narrow).float(), second.to(narrow).float())


def test_what_does_not_change_with_the_inputs_is_a_table_and_nobodys_result():
    table = torch.randn(100)
    assert not Marks(1).is_foreign(table, table.clone())


def row(name, *, flops=0, elements=0):
    return EagerRow(name, 0, 0, 0, dot_flops=flops, fp_operations=elements)


REFERENCE = [row("addmm", flops=1000, elements=50), row("gelu", elements=50)]


def test_torch_that_does_all_of_the_work_leaves_nothing_to_a_kernel():
    with pytest.raises(Rejected, match="nothing of it is left"):
        require_part_of_the_work(REFERENCE, REFERENCE, ())


@pytest.mark.parametrize(
    "beside",
    [
        [row("mm", flops=1000, elements=50)],
        [row("gelu", elements=50)],
        [row("copy_", elements=500)],
        [],
    ],
)
def test_a_library_product_or_a_library_epilogue_is_a_part(beside):
    require_part_of_the_work(beside, REFERENCE, ())


def test_data_that_nobody_visible_computed_is_refused_even_where_torch_seems_idle():
    seen = Provenance(8, False, ("k.x_ptr",), (), True)
    with pytest.raises(Rejected, match=r"k\.x_ptr"):
        require_part_of_the_work([row("empty")], REFERENCE, seen.foreign)


@pytest.mark.parametrize("factor", [0.994, 1.006])
def test_a_factor_inside_the_budget_of_bfloat16_is_seen(factor):
    right = torch.randn(64, 128, dtype=torch.float64)
    eager = right.to(torch.bfloat16)
    assert slope_beyond((right * factor).to(torch.bfloat16), eager, right) is not None


@given(st.integers(0, 10_000), st.integers(1024, 4096), st.sampled_from([0.995, 1.005]))
def test_half_a_percent_is_seen_in_every_draw_of_bfloat16(seed, elements, factor):
    random = torch.Generator().manual_seed(seed)
    right = torch.randn(elements, generator=random, dtype=torch.float64)
    candidate = (right * factor).to(torch.bfloat16)
    assert slope_beyond(candidate, right.to(torch.bfloat16), right) is not None


@given(st.integers(0, 10_000), st.sampled_from([torch.bfloat16, torch.float16]))
def test_few_large_elements_that_round_to_one_side_are_no_bias(seed, dtype):
    random = torch.Generator().manual_seed(seed)
    right = torch.randn(512, generator=random, dtype=torch.float64)
    right[:3] *= 300
    eager = right.to(dtype)
    noisy = right * (1 + torch.finfo(dtype).eps / 4 * torch.randn(512, generator=random).double())
    assert slope_beyond(noisy.to(dtype), eager, right) is None


@given(st.integers(0, 10_000), st.integers(1, 12))
@example(1322, 1)
def test_a_few_large_sums_that_nearly_cancel_are_no_bias(seed, columns):
    """A weight's gradient where a few columns of the input are far larger than the rest."""
    random = torch.Generator().manual_seed(seed)
    terms = torch.randn(32, 512, generator=random, dtype=torch.float64)
    terms[0] = terms[0] * 0.05 - terms[1:].sum(0)
    terms[:, :columns] *= 1000
    rounded = terms.to(torch.bfloat16).double().sum(0).to(torch.bfloat16)
    right = terms.sum(0)
    assert slope_beyond(rounded, right.to(torch.bfloat16), right) is None


@given(st.integers(0, 10_000))
def test_sums_that_nearly_cancel_are_no_bias_where_eager_rounds_as_much(seed):
    random = torch.Generator().manual_seed(seed)
    terms = torch.randn(32, 512, generator=random, dtype=torch.float64)
    terms[0] = terms[0] * 0.05 - terms[1:].sum(0)
    terms[:, :40] *= 1000
    right = terms.sum(0)
    rounded = [
        (terms * (1 + 2.0**-9 * torch.randn(32, 512, generator=random).double())).sum(0)
        for _ in range(2)
    ]
    first, second = (one.to(torch.bfloat16) for one in rounded)
    assert slope_beyond(first, second, right) is None


@given(st.integers(0, 10_000), st.sampled_from([torch.bfloat16, torch.float16]))
def test_rounding_twice_is_no_bias(seed, dtype):
    right = torch.randn(32, 64, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    noisy = right * (1 + 2.0**-9 * torch.randn(32, 64, dtype=torch.float64))
    assert slope_beyond(noisy.to(dtype).to(dtype), right.to(dtype), right) is None
