"""Errors that all of a row or a column share are refused though they cancel over the whole; roundings are not."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelagent.tools.judge.verify.compare.compare import Expected, compare, scales_of
from kernelagent.tools.judge.verify.compare.regions import Noise
from kernelagent.tools.judge.verify.compare.within_budget.shared_errors import shared_error
from kernelagent.tools.judge.verify.compare.within_budget.slices import slice_norms

HALF = torch.bfloat16
UNIT = 2.0**-8
"""The most that rounding to bfloat16 errs by."""
SHAPES = [(64, 512), (32, 64), (16, 1024), (200, 33)]


def normalized(shape, seed):
    """A layer norm of random rows, as float64."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=draw, dtype=torch.float64)
    x = (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)
    weight = 1 + 0.1 * torch.randn(shape[-1], generator=draw, dtype=torch.float64)
    return x * weight + 0.1 * torch.randn(shape[-1], generator=draw, dtype=torch.float64)


def found(made, right, dtype=HALF):
    return shared_error(made.to(dtype), right.to(dtype), right)


def signs(count, pattern):
    at = torch.arange(count)
    return {
        "every other": 1 - 2 * (at % 2),
        "every third": 1 - 2 * (at % 3 == 0).long(),
        "half": 1 - 2 * (at < count // 2).long(),
        "hashed": 1 - 2 * (at * 7919 // 8 % 2),
    }[pattern].double()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("pattern", ["every other", "every third", "half", "hashed"])
def test_a_factor_of_each_row_or_column_is_seen_in_any_pattern_of_signs(shape, dim, pattern):
    right = normalized(shape, 1)
    factor = 1 + 0.0065 * signs(shape[dim], pattern)
    result = found(right * (factor[:, None] if dim == 0 else factor), right)
    assert result is not None
    assert (result.kind, result.dim, result.at) == ("factor", dim, None)
    assert result.size == pytest.approx(0.0065, rel=0.1)


def test_an_offset_of_every_row_is_seen():
    right = normalized((64, 512), 2)
    result = found(right + 0.0035 * right.square().mean(-1, keepdim=True).sqrt(), right)
    assert result is not None
    assert result.kind == "offset"


def test_one_column_alone_is_named():
    right = normalized((256, 64), 3)
    made = right.clone()
    made[:, 17] *= 1.011
    result = found(made, right)
    assert result is not None
    assert (result.dim, result.at) == (1, 17)


@given(
    st.sampled_from(SHAPES),
    st.integers(0, 10_000),
    st.sampled_from([torch.bfloat16, torch.float16]),
    st.sampled_from(["nothing", "rows", "rows twice", "columns", "both", "all"]),
)
def test_values_that_a_row_shares_may_be_rounded(shape, seed, dtype, rounded):
    right = normalized(shape, seed)
    draw = torch.Generator().manual_seed(seed + 1)
    unit = torch.finfo(dtype).eps / 2

    def rounding(*size):
        return 1 + unit * (2 * torch.rand(size, generator=draw, dtype=torch.float64) - 1)

    made = right.clone()
    if rounded in ("rows", "rows twice", "both"):
        made *= rounding(shape[0], 1)
    if rounded == "rows twice":
        made *= rounding(shape[0], 1)
    if rounded in ("columns", "both"):
        made *= rounding(1, shape[1])
    if rounded == "all":
        made *= rounding(*shape)
    assert found(made, right, dtype) is None


@given(st.integers(0, 10_000), st.integers(1, 12))
def test_sums_that_nearly_cancel_share_no_error(seed, columns):
    draw = torch.Generator().manual_seed(seed)
    terms = torch.randn(24, 32, 128, generator=draw, dtype=torch.float64)
    terms[0] = terms[0] * 0.05 - terms[1:].sum(0)
    terms[:, :, :columns] *= 1000
    right = terms.sum(0)
    eager, ours = (
        (terms * (1 + 2.0**-9 * torch.randn(terms.shape, generator=draw).double())).sum(0)
        for _ in range(2)
    )
    assert shared_error(ours.to(HALF), eager.to(HALF), right) is None


@pytest.mark.parametrize("value", [1.0, 1.003, -0.7])
def test_rows_of_one_value_share_its_rounding(value):
    draw = torch.Generator().manual_seed(4)
    right = value * torch.randn(64, 1, generator=draw, dtype=torch.float64).expand(64, 96)
    rounded = right * (1 + UNIT * (2 * torch.rand(64, 1, generator=draw).double() - 1))
    assert found(rounded, right) is None
    assert found(right + 1.0, right + 1.0) is None


def test_float32_and_vectors_are_the_gates_to_judge():
    right = normalized((64, 512), 5)
    made = right * (1 + 0.0065 * signs(512, "every other"))
    assert found(made, right, torch.float32) is None
    assert found(made[0], right[0]) is None


@pytest.mark.parametrize("natural", [True, False])
def test_only_natural_inputs_are_asked(natural):
    right = normalized((64, 512), 6)
    made = (right * (1 + 0.0065 * signs(512, "every other"))).to(HALF)
    wanted = Expected(right.to(HALF), right, scales_of(right), by_slices=natural)
    result = compare(made, wanted, input_set="default", probe="natural")
    assert result.passed is not natural
    if natural:
        assert "over the whole these errors cancel" in result.reason.message


def scores_by_values(seed):
    """Right values of products of scores with rows of one number each, with the scores rounded, and how far inputs move them."""
    draw = torch.Generator().manual_seed(seed)
    q, k = (torch.randn(64, 32, generator=draw).to(HALF).double() for _ in range(2))
    values = torch.randn(64, 1, generator=draw).to(HALF).double() + 0.001 * torch.randn(
        64, 128, generator=draw, dtype=torch.float64
    )
    along = q.T @ values[:, 0]
    # The last row's scores sum to next to nothing.
    k[-1] -= 0.99 * (k[-1] @ along) / along.square().sum() * along

    def product(q, k, rounded=False):
        scores = k @ q.T
        return (scores.to(HALF).double() if rounded else scores) @ values

    def moved(x):
        return x * (1 + 2.0**-9 * (2 * torch.randint(0, 2, x.shape, generator=draw) - 1))

    right = product(q, k)
    changes = [slice_norms(product(moved(q), moved(k)) - right) for _ in range(8)]
    largest = (torch.stack([getattr(c, of) for c in changes]).amax(0) for of in ("rms", "max"))
    return right, product(q, k, rounded=True), Noise(*largest)


@pytest.mark.parametrize("seed", range(4))
def test_a_sum_that_nearly_cancels_shares_the_rounding_of_its_terms(seed):
    right, made, noise = scores_by_values(seed)
    assert found(made, right) is not None
    assert shared_error(made.to(HALF), right.to(HALF), right, noise) is None


@pytest.mark.parametrize("seed", range(4))
def test_what_inputs_move_explains_nothing_where_nothing_cancels(seed):
    right, made, noise = scores_by_values(seed)
    rows = (right.square().mean(1).sqrt() / right.square().mean().sqrt()).clamp(min=1e-3)
    at = int(rows[:-1].argmax())
    made = right.clone()
    made[at] *= 1.02
    result = shared_error(made.to(HALF), right.to(HALF), right, noise)
    assert result is not None
    assert (result.dim, result.at) == (0, at)
    factors = right * (1 + 0.03 * signs(64, "every other"))[:, None]
    assert shared_error(factors.to(HALF), right.to(HALF), right, noise) is not None
    beyond = right.clone()
    beyond[-1] *= 30.0
    assert shared_error(beyond.to(HALF), right.to(HALF), right, noise) is not None
