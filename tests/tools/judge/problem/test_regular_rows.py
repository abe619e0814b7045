"""Inputs that follow a rule, and whole numbers next to which an answer changes."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
import torch

from kernelagent.tools.judge.problem.trials.boundaries import can_be_halved, either_side
from kernelagent.tools.judge.problem.trials.regular_rows import regular_rows


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def made(natural: Mapping[str, torch.Tensor], name: str, tried: str) -> list[torch.Tensor]:
    items = regular_rows(natural, seeded())
    return [item.tensors[name] for item in items if item.name == name and tried in item.tried]


def test_each_number_of_periods_has_a_row() -> None:
    (waves,) = made({"x": torch.randn(64, 32, generator=seeded())}, "x", "waves")
    power = torch.fft.rfft(waves).abs().square()
    largest = power.argmax(-1)
    assert set(largest.tolist()) == set(range(1, 17))
    assert float((power.amax(-1) / power.sum(-1)).min()) > 0.99


def test_numbers_of_a_row_grow_by_one_factor_and_stay_finite() -> None:
    of_signs = made({"x": torch.randn(50, 64, generator=seeded())}, "x", "one factor")
    for rows in of_signs:
        assert bool(rows.isfinite().all())
        factors = (rows[:, 1:] / rows[:, :-1]).abs()
        assert torch.allclose(factors, factors[:, :1].expand_as(factors), rtol=1e-3)
    assert [int(rows.sign()[0, :2].sum()) for rows in of_signs] == [-2, 2, 0]
    (halves,) = made({"x": torch.rand(9, 64).half() + 1}, "x", "one factor")
    assert bool((halves.isfinite() & (halves >= 0)).all())


def test_the_largest_of_a_row_lie_at_one_distance() -> None:
    natural = torch.randn(200, 256, generator=seeded())
    (rows,) = made({"x": natural}, "x", "one distance")
    diagonals = 0
    for row, before in zip(rows, natural, strict=True):
        places = (row != before).nonzero().reshape(-1)
        steps = {int(step) % 256 for step in places.diff()}
        diagonals += steps == {17}
        assert len(places) > 4
    assert diagonals > 2


def test_places_move_on_in_equal_steps() -> None:
    boxes = torch.rand(20, 4, generator=seeded()) + torch.tensor([0.0, 0.0, 3.0, 3.0])
    for moved in made({"boxes": boxes}, "boxes", "equal steps"):
        steps = moved.diff(dim=0)
        assert torch.allclose(steps, steps[:1].expand_as(steps), atol=1e-4)
        assert float(steps[0, 0]) > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.int64])
def test_a_graph_becomes_a_chain(dtype: torch.dtype) -> None:
    edges = (torch.rand(3, 12, 12, generator=seeded()) < 0.2).to(dtype)
    (chain,) = made({"edges": edges}, "edges", "chain")
    assert chain.dtype == dtype
    assert torch.equal(chain[1].nonzero(), torch.tensor([[i, i + 1] for i in range(11)]))


def test_limbs_carry_all_the_way() -> None:
    one, other = (torch.randint(0, 65536, (64, 16), generator=seeded(at)) for at in range(2))
    first, last = made({"one": one, "other": other}, "other", "numbers that do")
    assert set((one + first)[:, 1:].reshape(-1).tolist()) == {65535}
    assert set((one + first)[:, 0].tolist()) == {65536}
    assert set((one + last)[:, -1].tolist()) == {65536}


def test_nothing_is_made_of_what_has_no_rows_or_is_a_constant() -> None:
    natural = {"a": torch.ones(()), "b": torch.full((4, 16), 2.0), "c": torch.zeros(0, 16)}
    assert not [*regular_rows(natural, seeded())]


def test_both_sides_of_a_change_are_found_to_one() -> None:
    generator = seeded()
    limit = torch.randint(1, 10**8, (200,), generator=generator)
    root = torch.randint(1, 20000, (200,), generator=generator)

    def answer(given: Mapping[str, torch.Tensor]) -> torch.Tensor:
        return given["root"] ** 2 <= limit

    others = [torch.randint(1, 20000, (200,), generator=generator) for _ in range(6)]
    assert can_be_halved(root, answer({"root": root}))
    near, far = either_side("root", root, others, answer)
    found = near != root
    assert float(found.float().mean()) > 0.5
    exact = torch.tensor([math.isqrt(n) for n in limit.tolist()])
    assert torch.equal(torch.minimum(near, far)[found], exact[found])
    assert torch.equal((near - far).abs()[found], torch.ones_like(exact)[found])


@pytest.mark.parametrize(
    ("tensor", "answer"),
    [
        (torch.rand(20), torch.zeros(20, dtype=torch.bool)),
        (torch.arange(20), torch.zeros(20)),
        (torch.arange(20), torch.zeros(3, dtype=torch.int64)),
        (torch.arange(3), torch.zeros(3, dtype=torch.int64)),
    ],
    ids=["no whole numbers", "no whole answer", "not by rows", "few"],
)
def test_only_whole_numbers_that_decide_whole_numbers_row_by_row_are_halved(
    tensor: torch.Tensor, answer: torch.Tensor
) -> None:
    assert not can_be_halved(tensor, answer)


def whole_numbers(tensor: torch.Tensor) -> dict[str, torch.Tensor]:
    """What is tried for one input of whole numbers, by its words."""
    generator = torch.Generator().manual_seed(0)
    tried = regular_rows({"at": tensor}, generator)
    return {item.tried: item.tensors["at"] for item in tried}


def test_places_are_tried_as_chains_from_either_end() -> None:
    parents = torch.tensor([[-1, 0, 0, 1, 2, 2, 4, 0, 5, 8]])
    tried = whole_numbers(parents)
    before = tried["places that each name the one before, as in a chain"]
    after = tried["places that each name the next, as in a chain"]
    assert before.tolist() == [[-1, 0, 1, 2, 3, 4, 5, 6, 7, 8]]
    assert after.tolist() == [[1, 2, 3, 4, 5, 6, 7, 8, 8, 8]]
    assert before.dtype == parents.dtype


def test_ends_of_parts_are_tried_with_nearly_all_in_one_part() -> None:
    ends = torch.tensor([0, 3, 5, 9, 14, 20, 31, 40, 64])
    tried = whole_numbers(ends)
    assert tried["ends of parts of which the last has nearly all"].tolist() == [
        *(0, 2, 4, 6, 8, 10, 12, 14),
        64,
    ]
    assert tried["ends of parts of which the first has nearly all"].tolist() == [
        0,
        *(50, 52, 54, 56, 58, 60, 62),
        64,
    ]


def test_codes_that_name_no_place_are_left_alone() -> None:
    assert whole_numbers(torch.tensor([90, 3, 77, 1000, 4, 5, 812, 6, 2])) == {}
