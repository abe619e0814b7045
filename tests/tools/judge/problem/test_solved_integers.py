"""Whole numbers are moved to where what the reference divides or compares comes out at a boundary."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from kernelagent.tools.judge.problem.trials.input_domain import Tensors
from kernelagent.tools.judge.problem.trials.planting.beside_multiples import (
    end_of_range,
    sorted_beside_powers,
)
from kernelagent.tools.judge.problem.trials.planting.literals import NONE, Literals
from kernelagent.tools.judge.problem.trials.planting.planted_values import Reach
from kernelagent.tools.judge.problem.trials.solved_integers import (
    beside_inputs,
    followed,
    solved_inputs,
)

PRIME = 998_244_353


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def whole(most: int, *shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, most, shape, generator=seeded(seed))


def residues(t: Tensors) -> torch.Tensor:
    return (t["a"] * t["b"] + t["c"]) % PRIME


def hashes(t: Tensors) -> torch.Tensor:
    return ((t["tokens"].unsqueeze(-1) * t["a"] + t["b"]) % PRIME).amin(1)


def in_days(t: Tensors) -> torch.Tensor:
    return torch.div(t["seconds"], 86_400, rounding_mode="floor")


def words(t: Tensors) -> torch.Tensor:
    return (t["a"] + t["b"]) >> 32


def later(t: Tensors) -> torch.Tensor:
    return t["a"] * 3 < t["b"]


CASES: dict[str, tuple[Callable[[Tensors], torch.Tensor], dict[str, torch.Tensor]]] = {
    "a product and a sum": (
        residues,
        {name: whole(PRIME, 16, 32, seed=at) for at, name in enumerate("abc")},
    ),
    "a hash of few numbers": (
        hashes,
        {
            "tokens": whole(PRIME, 8, 16),
            "a": whole(PRIME, 6, seed=1) + 1,
            "b": whole(PRIME, 6, seed=2),
        },
    ),
    "days": (in_days, {"seconds": whole(2**40, 100)}),
    "a carry": (words, {name: whole(2**32, 64, seed=at) for at, name in enumerate("ab")}),
    "an order": (later, {"a": whole(10**9, 64), "b": whole(3 * 10**9, 64, seed=1)}),
}


def boundaries(module: Callable[[Tensors], torch.Tensor], tensors: Tensors) -> int:
    return sum(step.at_boundaries() for step in followed(lambda: module(tensors)))


@pytest.mark.parametrize("name", CASES)
def test_numbers_are_moved_to_boundaries_that_draws_do_not_meet(name: str) -> None:
    module, natural = CASES[name]
    assert boundaries(module, natural) == 0
    made = solved_inputs(natural, NONE, lambda t: followed(lambda: module(t)), seeded())
    assert made is not None
    assert boundaries(module, made) > 0
    for key, tensor in made.items():
        assert tensor.dtype == natural[key].dtype
        assert int(natural[key].min()) <= int(tensor.min())
        assert int(tensor.max()) <= int(natural[key].max())


def test_where_nothing_is_divided_or_compared_there_is_nothing_to_solve() -> None:
    natural = {"a": whole(1000, 32)}
    assert solved_inputs(natural, NONE, lambda t: followed(lambda: t["a"] + 1), seeded()) is None


def test_what_divides_by_nothing_is_no_step() -> None:
    natural = whole(1000, 32)
    assert followed(lambda: natural.remainder(torch.ones_like(natural))) == []
    assert followed(lambda: natural & 6) == []
    assert len(followed(lambda: natural & 7)) == 1


@pytest.mark.parametrize(
    ("numbers", "own", "end"),
    [
        ((2**32,), (), 2**32 - 1),
        ((2**40, 2**32), (), 2**32 - 1),
        ((2**32,), (2**32,), None),
        ((2**40,), (), None),
        ((2**32 + 5,), (), None),
        ((), (), None),
    ],
)
def test_the_end_of_a_range_is_a_large_power_of_two_that_the_problem_writes(
    numbers: tuple[int, ...], own: tuple[int, ...], end: int | None
) -> None:
    tensor = whole(2**32, 4096)
    found = end_of_range(tensor, Literals(values=tuple(map(float, numbers)), integers=own))
    assert found == (int(tensor.max()) if end is None else end)


@pytest.mark.parametrize(
    ("tensor", "numbers"),
    [
        (whole(256, 300).to(torch.uint8), (260, 256)),
        (whole(128, 300).to(torch.int8), (144, 128)),
        (whole(2**15, 3000).to(torch.int16), (2**15, 2**16)),
        (whole(1000, 64), (1000, 1024)),
        (whole(16, 64), (16, 32)),
    ],
)
def test_nothing_beyond_the_draws_of_small_integers_is_asked_for(
    tensor: torch.Tensor, numbers: tuple[int, ...]
) -> None:
    literals = Literals(values=tuple(map(float, numbers)))
    made = [
        Reach("any", 1e5, literals, seeded(seed)).changed("literals", tensor, seed)
        for seed in range(4)
    ]
    beside = beside_inputs({"x": tensor}, literals, lambda _: [], seeded())
    for values in (*made, *(() if beside is None else (beside["x"],))):
        assert values.dtype == tensor.dtype
        assert int(tensor.min()) <= int(values.min())
        assert int(values.max()) <= int(tensor.max())


def test_numbers_stand_beside_powers_of_what_the_reference_divides_by() -> None:
    natural = {"x": whole(2 * 10**9, 64)}
    made = beside_inputs(natural, NONE, lambda t: followed(lambda: t["x"] % 10), seeded())
    assert made is not None
    near = {10**power + step for power in range(2, 10) for step in (-1, 0, 1)}
    assert near & set(made["x"].tolist())


def test_a_dividend_may_be_smaller_than_its_divisors() -> None:
    natural = whole(1000, 32, 1)
    (step,) = followed(lambda: natural % torch.arange(2, 7))
    assert step.values.shape == (32, 5)
    assert step.at_boundaries() > 0


@pytest.mark.parametrize("seed", range(4))
def test_sorted_numbers_beside_powers_of_two_stay_sorted_and_near(seed: int) -> None:
    rising = whole(2**30, 3, 400, seed=seed).sort(-1).values
    made = sorted_beside_powers(rising)
    assert (made.diff() >= 0).all()
    assert torch.equal(made[:, [0, -1]], rising[:, [0, -1]])
    assert (made.diff().amax(-1) <= rising.diff().amax(-1)).all()
    assert ((made[:, 1:] == 2**29) & (made[:, :-1] == 2**29 - 1)).any()
