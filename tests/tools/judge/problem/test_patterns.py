"""Values with structure keep what the inputs promise: shape, type, range, order."""

from __future__ import annotations

import contextlib

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelagent.tools.judge.problem.trials.input_domain import observe
from kernelagent.tools.judge.problem.trials.planting import patterns
from kernelagent.tools.judge.problem.trials.planting.literals import NONE
from kernelagent.tools.judge.problem.trials.planting.planted import patterned_weights, planted

TURNS = range(64)
SHAPES = st.lists(st.integers(1, 6), max_size=3)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@given(SHAPES, st.sampled_from(TURNS))
def test_a_tensor_of_any_shape_stays_of_that_shape_and_finite(shape, turn):
    values = torch.randn(shape, generator=seeded(turn))
    made = patterns.whole(values, seeded(), turn)
    assert made.shape == values.shape
    assert made.isfinite().all()


@given(SHAPES, st.sampled_from(TURNS))
def test_rows_stay_of_their_shape_and_finite(shape, turn):
    values = torch.randn([*shape, 5], generator=seeded(turn))
    made = patterns.in_rows(values, seeded(), turn)
    assert made.shape == values.shape
    assert made.isfinite().all()


@given(SHAPES, st.integers(-3, 3), st.integers(0, 40), st.sampled_from(TURNS))
def test_integers_stay_in_the_range_that_was_seen(shape, low, span, turn):
    tensor = torch.randint(low, low + span + 1, shape, generator=seeded(turn))
    domain = observe(tensor)
    made = patterns.integers(tensor, domain, seeded(), turn)
    assert (made.shape, made.dtype) == (tensor.shape, tensor.dtype)
    assert made.min() >= domain.low
    assert made.max() <= domain.high


@given(st.integers(2, 12), st.sampled_from(TURNS))
def test_offsets_ascend_and_end_where_they_ended(count, turn):
    offsets = torch.randint(0, 5, [count], generator=seeded(turn)).cumsum(0)
    made = patterns.ascending(offsets, seeded(), turn)
    assert (made.diff() >= 0).all()
    assert made[-1] == offsets[-1]


@given(SHAPES, st.sampled_from(TURNS))
def test_of_values_that_were_seen_alone_no_other_comes(shape, turn):
    tensor = torch.randint(0, 3, [*shape, 4], generator=seeded(turn)) * 7
    made = patterns.observed(tensor, seeded(), turn)
    assert made.shape == tensor.shape
    assert torch.isin(made, tensor).all()


def masks_of(*shape):
    tensor = torch.ones(shape, dtype=torch.bool)
    return [patterns.mask(tensor, seeded(turn), turn) for turn in TURNS]


@pytest.mark.parametrize("shape", [(1,), (9,), (1, 9), (9, 1), (2, 3, 9)])
def test_masks_of_any_rank_keep_their_shape(shape):
    for turn in TURNS:
        made = patterns.mask(torch.zeros(shape, dtype=torch.bool), seeded(turn), turn)
        assert made.shape == shape
        assert made.dtype == torch.bool


def test_among_the_masks_are_a_causal_one_one_that_is_open_one_that_is_closed_and_one_of_padding():
    made = masks_of(2, 8, 8)
    causal = torch.ones(8, 8).tril().bool()
    assert any((mask == causal).all() for mask in made)
    assert any(mask.all() for mask in made)
    assert not all(mask.any() for mask in made)
    assert any((mask == mask[..., :1, :]).all() and 0 < mask.sum() < mask.numel() for mask in made)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["row_patterns", "structures"])
def test_a_number_without_a_dimension_has_patterns_as_well(kind):
    def twice(tensors, steps=contextlib.nullcontext()):  # noqa: B008 - it can be entered again
        with steps:
            return tensors["x"] * 2

    tensors = {"x": torch.tensor(1.5)}
    made = [
        planted(
            kind, tensors, NONE, seeded(turn), twice, twice,
            scales={"output": 1.0}, elementwise=True, turn=turn,
        ).tensors["x"]
        for turn in TURNS
    ]  # fmt: skip
    assert {value.shape for value in made} == {torch.Size([])}
    assert len({float(value) for value in made}) > 3


def test_weights_of_one_pattern_keep_shape_type_and_what_is_tied():
    weight = torch.randn(6, 4, dtype=torch.bfloat16, generator=seeded())
    state = {"a": weight, "tied": weight, "steps": torch.tensor(3), "alone": torch.tensor(0.5)}
    for turn in TURNS:
        for made in patterned_weights(state, ["a", "tied", "alone"], seeded(turn), turn):
            assert torch.equal(made["a"], made["tied"])
            assert torch.equal(made["steps"], state["steps"])
            assert [made[n].dtype for n in state] == [t.dtype for t in state.values()]
            assert [made[n].shape for n in state] == [t.shape for t in state.values()]


def test_in_some_items_of_a_batch_rows_are_along_time_and_in_others_along_features() -> None:
    x = torch.randn(4, 64, 24, generator=seeded())
    result = planted(
        "row_patterns", {"x": x}, NONE, seeded(),
        lambda t: t["x"] * 2, lambda t, steps=None: t["x"].double() * 2,
        scales={"output": 1.0}, elementwise=True, turn=0,
    )  # fmt: skip
    made = result.tensors["x"]
    assert made.shape == x.shape
    rising = [[bool((item.diff(dim=dim) > 0).all(dim).any()) for dim in (0, 1)] for item in made]
    assert [True, False] in rising
    assert [False, True] in rising


@pytest.mark.parametrize("shape", [(9,), (64, 24), (24, 64), (3, 5, 16)])
def test_mixed_rows_are_as_they_were_or_of_one_kind_size_and_sign(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, generator=seeded())
    along: set[int] = set()
    for turn in TURNS:
        made = patterns.mixed(x, seeded(turn), turn, (1.0, 1000.0), patterns.ROWS)
        assert made.shape == x.shape
        assert made.isfinite().all()
        for dim, size in enumerate(shape):
            rows, own = (t.movedim(dim, -1).reshape(-1, size) for t in (made, x))
            kept = (rows == own).all(-1) | (rows == 1000 * own).all(-1)
            if kept.any() and not kept.all():
                along.add(dim)
                assert (rows.abs() > 100).any()
    assert along >= {dim for dim, size in enumerate(shape) if size >= 8 and len(shape) > 1}


def test_among_the_structures_are_rows_whose_largest_follow_a_rule_and_rows_in_two_camps() -> None:
    values = torch.randn(48, 30, generator=seeded())
    made = [
        patterns.one_of_whole(kind, values, seeded(seed))
        for kind in range(len(patterns.WHOLE))
        for seed in range(12)
    ]
    likeliest = [each.argmax(-1) for each in made]
    assert any(bool((at[1:] == (at[:-1] + 1) % 30).all()) for at in likeliest)
    assert any(bool((at[2:] == at[:-2]).all() and (at[1:] != at[:-1]).all()) for at in likeliest)
    cosines = [torch.nn.functional.normalize(each, dim=-1) @ each.T for each in made]
    apart = [bool((each[0] < 0).any() and (each[-1, -1:] > 0).all()) for each in cosines]
    assert any(apart)


def test_where_ties_may_be_broken_by_rounding_rows_without_any_are_tried() -> None:
    def runs(x: torch.Tensor) -> torch.Tensor:
        run = torch.zeros_like(x[:, 0])
        for step in range(1, x.shape[1]):
            run = torch.where(x[:, step] > x[:, step - 1], run + 1, torch.zeros_like(run))
        return run

    def exact(tensors, steps=contextlib.nullcontext()):  # noqa: B008 - it can be entered again
        with steps:
            return runs(tensors["x"].double())

    x = torch.randn(4, 48, 24, generator=seeded())
    result = planted(
        "row_patterns", {"x": x}, NONE, seeded(), lambda t: runs(t["x"]), exact,
        scales={"output": 1.0}, elementwise=False, turn=0,
    )  # fmt: skip
    assert runs(result.tensors["x"]).max() == 47


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64], ids=str)
def test_unsigned_numbers_have_structures_as_others_have(dtype: torch.dtype) -> None:
    tensor = torch.randint(3, 40, (6, 9), generator=seeded()).to(dtype)
    for turn in range(14):
        made = patterns.integers(tensor, observe(tensor), seeded(turn), turn)
        assert (made.shape, made.dtype) == (tensor.shape, dtype)
