"""Values at the ends of intervals, and pairs of inputs that are nearly alike."""

from __future__ import annotations

from contextlib import nullcontext

import torch

from kernelagent.tools.judge.problem.trials.planting.ends import at_the_ends, bounds_of, has_ends
from kernelagent.tools.judge.problem.trials.planting.literals import NONE
from kernelagent.tools.judge.problem.trials.planting.planted import (
    Planted,
    can_plant,
    is_elementwise,
    planted,
)

_AS_THEY_ARE = nullcontext()


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def drawn(low, high, *shape):
    return low + (high - low) * torch.rand(*shape, generator=seeded(3))


def made(of, *inputs):
    given = {str(at): x for at, x in enumerate(inputs)}

    def exact(tensors, steps=_AS_THEY_ARE):
        with steps:
            return of(*(tensors[name].double() for name in given))

    return planted(
        "ends",
        given,
        NONE,
        seeded(1),
        lambda tensors: of(*(tensors[name] for name in given)),
        exact,
        scales={"output": 1.0},
        elementwise=is_elementwise(given, exact),
    )


def test_bounds_are_those_of_the_interval_that_the_draws_lie_in():
    assert bounds_of(drawn(0.02, 0.98, 16, 16)) == (0.0, 1.0)
    assert bounds_of(drawn(-0.7, 0.7, 16, 16)) == (-1.0, 1.0)
    assert bounds_of(drawn(-3, 3, 16, 16)) is None
    assert bounds_of(torch.ones(16, 16)) is None


def test_inputs_without_bounds_and_without_another_of_their_form_have_no_ends():
    x, y = (torch.randn(8, 16, generator=seeded(n)) for n in range(2))
    assert not has_ends({"x": x})
    assert not can_plant("ends", {"x": x, "y": y[:4]})
    assert can_plant("ends", {"x": x, "y": y})


def test_both_ends_themselves_and_numbers_close_to_them_are_given():
    x = at_the_ends({"x": drawn(0, 1, 64, 64)}, "any", seeded())["x"]
    assert int((x == 0).sum()) > 100
    assert int((x == 1).sum()) > 100
    assert bool(((x > 1 - 1e-4) & (x < 1)).any())
    assert bool(((x >= 0) & (x <= 1)).all())


def test_where_the_ends_have_no_answer_numbers_near_them_are_given():
    result = made(torch.atanh, drawn(-0.7, 0.7, 64, 64))
    assert isinstance(result, Planted)
    sizes = result.tensors["0"].abs()
    assert bool((sizes < 1).all())
    assert bool((sizes > 0.99).any())


def test_a_reference_that_refuses_what_is_beyond_its_bounds_answers_at_them():
    def loss(x, t):
        return torch.nn.functional.binary_cross_entropy(x, t, reduction="none")

    result = made(loss, torch.sigmoid(torch.randn(64, 64)), drawn(0, 1, 64, 64))
    assert isinstance(result, Planted)
    assert bool((result.tensors["0"] == 1).any())


def test_of_two_inputs_every_second_row_is_a_pair_that_is_alike_opposite_or_proportional():
    x, y = (torch.randn(200, 32, generator=seeded(n)) for n in (5, 6))
    ends = at_the_ends({"x": x, "y": y}, "any", seeded())
    assert torch.equal(ends["x"], x)
    assert torch.equal(ends["y"][::2], y[::2])
    cosines = torch.nn.functional.cosine_similarity(ends["y"][1::2], x[1::2])
    assert bool((cosines.abs() > 0.999).all())
    assert bool((cosines > 0).any())
    assert bool((cosines < 0).any())
    assert bool((ends["y"][1::2] == x[1::2]).all(-1).any())
    assert bool(((ends["y"] - 0.5 * x).abs() < 0.01)[1::2].all(-1).any())


def test_pairs_stay_within_the_bounds_of_the_second():
    x, y = drawn(0, 1, 64, 64), drawn(0.1, 0.9, 64, 64)
    ends = at_the_ends({"x": x, "y": y}, "any", seeded())
    assert bool(((ends["y"] >= 0) & (ends["y"] <= 1)).all())
    assert bool((ends["x"] == 1).any())
    assert bool((ends["y"] == 1).any())
