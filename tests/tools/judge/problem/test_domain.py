from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelagent.tools.judge.problem.trials.input_domain import fresh_like, laid_out_like, observe
from kernelagent.tools.judge.problem.trials.sequels import nudged, rearranged
from tests.lanes import examples
from tests.tools.judge.counting import operations_of


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape):
    return torch.randn(shape, generator=seeded(7))


CAUSAL = torch.ones(16, 16).tril().bool()
LENGTHS = torch.arange(12)[None] < torch.tensor([1, 5, 12, 7, 3])[:, None]
KINDS = {
    "uniform": (torch.rand(64, 64, generator=seeded()), "real"),
    "normal": (normal(8, 8), "real"),
    "bounded away from zero": (torch.rand(4096, generator=seeded()) + 0.5, "positive"),
    "causal mask": (CAUSAL, "fixed"),
    "length mask": (LENGTHS, "rows"),
    "random mask": (torch.rand(64, 64, generator=seeded()) < 0.3, "boolean"),
    "additive mask": (torch.zeros(16, 16).masked_fill(~CAUSAL, -torch.inf), "fixed"),
    "additive mask with a large number": (torch.zeros(8, 8).masked_fill(~CAUSAL[:8, :8], -1e9), "fixed"),
    "labels": (torch.randint(0, 10, (64,), generator=seeded()), "integer"),
    "labels with a marker": (torch.tensor([-100, 0, 3, 5, 2]), "observed"),
    "hinge targets": (torch.randint(0, 2, (64,), generator=seeded()) * 2.0 - 1, "observed"),
    "positions": (torch.arange(10), "fixed"),
    "offsets": (torch.tensor([0, 3, 5, 9]), "fixed"),
    "permutation": (torch.tensor([3, 0, 2, 1]), "permutation"),
    "sorted integers": (torch.tensor([2, 2, 5, 9]), "sorted"),
    "probabilities": (normal(8, 16).softmax(-1), "simplex"),
    "log probabilities": (normal(8, 16).log_softmax(-1), "log_simplex"),
    "nothing": (torch.zeros(0, 3), "fixed"),
}  # fmt: skip


@pytest.mark.parametrize("case", KINDS)
def test_the_kind_of_a_tensor_is_recognised(case):
    tensor, kind = KINDS[case]
    assert observe(tensor).kind == kind


@pytest.mark.parametrize("case", KINDS)
def test_fresh_values_are_of_the_same_kind(case):
    tensor, kind = KINDS[case]
    fresh = fresh_like(tensor, seeded(1))
    assert fresh.dtype == tensor.dtype
    assert fresh.shape == tensor.shape
    # Rows that happen to be ordered by length look like a triangle, and are then kept.
    assert observe(fresh).kind == kind or kind in ("observed", "rows")


def test_structure_of_a_matrix_is_seen_and_kept():
    triangle = normal(16, 16).tril()
    matrix = normal(16, 16)
    symmetric = matrix + matrix.T
    assert observe(triangle).pattern == "lower"
    assert observe(symmetric).symmetric
    fresh = fresh_like(triangle, seeded(1))
    assert torch.equal(fresh, fresh.tril())
    fresh = fresh_like(symmetric, seeded(1))
    assert torch.equal(fresh, fresh.T)


def test_integers_stay_in_the_observed_range_and_change():
    labels = torch.randint(3, 17, (500,), generator=seeded())
    fresh = fresh_like(labels, seeded(1))
    assert int(fresh.min()) >= 3
    assert int(fresh.max()) <= 16
    assert not torch.equal(fresh, labels)


def test_booleans_keep_their_density():
    mask = torch.rand(200, 200, generator=seeded()) < 0.2
    assert float(fresh_like(mask, seeded(1)).float().mean()) == pytest.approx(0.2, abs=0.02)


def test_floats_keep_location_scale_and_sign():
    values = 5 + 0.5 * torch.rand(4000, generator=seeded())
    fresh = fresh_like(values, seeded(1))
    assert float(fresh.mean()) == pytest.approx(float(values.mean()), rel=0.02)
    assert bool((fresh > 0).all())
    assert not torch.equal(fresh, values)


def test_rows_of_a_length_mask_stay_prefixes():
    fresh = fresh_like(LENGTHS, seeded(3))
    assert sorted(fresh.sum(-1).tolist()) == [1, 3, 5, 7, 12]
    assert bool((fresh[:, :-1] >= fresh[:, 1:]).all())


def test_infinities_keep_their_places():
    values = normal(8, 8)
    values[2, 3] = -torch.inf
    fresh = fresh_like(values, seeded(1))
    assert torch.equal(fresh.isinf(), values.isinf())
    assert fresh[2, 3] == -torch.inf


@given(st.integers(0, 10**6))
@settings(max_examples=examples(20))
def test_the_same_seed_draws_the_same_values(seed):
    tensor = normal(8, 8)
    first, again = fresh_like(tensor, seeded(seed)), fresh_like(tensor, seeded(seed))
    assert torch.equal(first, again)
    assert not torch.equal(first, fresh_like(tensor, seeded(seed + 1)))


LAYOUTS = {
    "transposed": normal(6, 5).T,
    "every second column": normal(6, 10)[:, ::2],
    "expanded": normal(4, 1).expand(4, 7),
    "windows": normal(40).unfold(0, 8, 4),
    "channels last": normal(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
    "scalar": torch.tensor(0.5),
}


@pytest.mark.parametrize("case", LAYOUTS)
def test_strides_are_kept(case):
    tensor = LAYOUTS[case]
    fresh = fresh_like(tensor, seeded(1))
    assert fresh.stride() == tensor.stride()
    assert fresh.data_ptr() != tensor.data_ptr()


@pytest.mark.parametrize("case", LAYOUTS)
def test_laying_out_keeps_the_values(case):
    tensor = LAYOUTS[case]
    assert torch.equal(laid_out_like(tensor.clone(), tensor), tensor)


def test_a_tensor_is_looked_at_once_for_as_long_as_it_keeps_its_values():
    tensor = normal(64, 64)
    first = observe(tensor)
    assert operations_of(lambda: observe(tensor)) == 0
    tensor.abs_().add_(1.0)
    assert (first.kind, observe(tensor).kind) == ("real", "positive")


def test_a_tensor_without_a_version_is_looked_at_each_time():
    with torch.inference_mode():
        tensor = normal(64, 64)
        assert observe(tensor).kind == "real"
        tensor.abs_().add_(1.0)
    assert observe(tensor).kind == "positive"


@pytest.mark.parametrize("repeats", ["halves", "pairs"])
def test_numbers_that_stand_twice_do_so_in_fresh_values_and_after_any_change(repeats):
    angles = normal(1, 64, 32)
    cosines = (torch.cat([angles, angles], -1) if repeats == "halves" else angles.repeat_interleave(2, -1)).cos()  # fmt: skip
    fresh = fresh_like(cosines, seeded(3))
    changed = nudged({"cosines": cosines}, ["cosines"], seeded(4))["cosines"]
    moved = rearranged({"cosines": cosines}, seeded(5))["cosines"]
    for values in (cosines, fresh, changed, moved):
        assert observe(values).repeats == repeats
    for values in (fresh, changed, moved):
        assert not torch.equal(values, cosines)


@pytest.mark.parametrize(
    "values",
    [normal(8, 16), torch.ones(8, 16), normal(8, 1).expand(8, 16), torch.zeros(2), torch.tensor([1.0, 2.0] * 2)],
    ids=["different", "constant", "constant rows", "two numbers", "too few to tell"],
)  # fmt: skip
def test_what_is_constant_or_small_does_not_count_as_repeated(values):
    assert observe(values).repeats == "none"
