"""Numbers near the small ones of a module, and zeros."""

from __future__ import annotations

import pytest
import torch

from kernelagent.tools.judge.problem.trials.floors import at_floors, floors_of
from kernelagent.tools.judge.problem.trials.unlike import Unlike


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def made_of(tensors: dict[str, torch.Tensor], *floors: float) -> list[Unlike]:
    return list(at_floors(tensors, floors, seeded(1)))


def near(values: torch.Tensor, target: float) -> torch.Tensor:
    return (values.abs() >= target / 8) & (values.abs() <= 8 * target)


def test_the_small_numbers_of_text_parts_and_habits_are_floors() -> None:
    module = torch.nn.Sequential(torch.nn.LayerNorm(4, eps=3e-4), torch.nn.Linear(4, 4))
    assert {3e-4, 2e-7, 1e-5, 1e-8} <= set(floors_of(module, (2e-7, 0.5, 3.0)))
    assert 0.5 not in floors_of(module, (0.5,))


def test_variances_come_near_a_floor_its_square_and_its_root_and_then_to_zero() -> None:
    without, zeros = made_of({"var": torch.rand(512, generator=seeded()) + 0.5}, 1e-4)
    for item in (without, zeros):
        values = item.tensors["var"]
        assert bool((values >= 0).all())
        assert all(bool(near(values, t).any()) for t in (1e-4, 1e-8, 1e-2))
        assert 0.3 < float((values > 0.5).float().mean()) < 0.7
    assert bool((without.tensors["var"] > 0).all())
    assert bool((zeros.tensors["var"] == 0).any())


def test_inputs_of_one_shape_are_small_at_the_same_places() -> None:
    pair = {n: torch.randn(32, 16, generator=seeded(at)) for at, n in enumerate(("re", "im"))}
    together = next(item for item in made_of(pair, 1e-20) if len(item.tensors) > 1)
    small = [together.tensors[name].abs() < 1e-6 for name in ("re", "im")]
    # A drawn number may be as small by chance.
    assert float((small[0] == small[1]).float().mean()) > 0.99
    assert 0.3 < float(small[0].float().mean()) < 0.7
    assert bool((together.tensors["re"] < 0).any())


@pytest.mark.parametrize(
    "tensor",
    [
        (torch.rand(64, generator=seeded()) < 0.5).float(),
        torch.zeros(64),
        torch.arange(64),
        torch.empty(0),
    ],
    ids=["mask", "zeros", "integers", "empty"],
)
def test_masks_zeros_and_integers_stay(tensor: torch.Tensor) -> None:
    assert made_of({"x": tensor}, 1e-6) == []


def test_numbers_that_a_type_does_not_hold_are_no_floors_of_it() -> None:
    half = (torch.rand(256, generator=seeded()) + 0.5).half()
    (item, _) = made_of({"x": half}, 1e-4)
    assert float(item.tensors["x"].float().min()) > 1e-3, "its root alone"
