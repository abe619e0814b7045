"""Rows that are bred for an error that grows along one direction, and for none."""

from __future__ import annotations

import pytest
import torch

from kernelagent.tools.judge.problem.trials.bred_rows import BredRows

WIDTH = 64


def bred_for(errors, draws, generations: int = 8) -> tuple[float, float]:
    """The largest of the first draw and of all."""
    generator = torch.Generator().manual_seed(5)
    values = draws(generator)
    bred = BredRows(values, 1, generator)
    first = float(errors(values).max())
    largest = first
    for _ in range(generations):
        found = errors(values)
        largest = max(largest, float(found.max()))
        bred.note(values, found)
        values = bred.next(draws(generator))
    return first, largest


def normal(generator: torch.Generator) -> torch.Tensor:
    return torch.randn(48, WIDTH, generator=generator)


def shares(generator: torch.Generator) -> torch.Tensor:
    return torch.rand(48, WIDTH, generator=generator)


@pytest.mark.parametrize("draws", [normal, shares])
def test_an_error_that_rises_by_a_last_bit_along_a_direction_is_bred_to_its_end(draws) -> None:
    pattern = (torch.arange(WIDTH) * 40503 // 128 % 2 * 2 - 1).float()

    def errors(rows: torch.Tensor) -> torch.Tensor:
        along = ((rows - rows.mean()) * pattern).sum(-1) / rows.std()
        return torch.exp(along / WIDTH**0.5 - 14) + 1e-7 * torch.rand(len(rows))

    first, largest = bred_for(errors, draws)
    assert first < 1e-4
    assert largest > 100 * first


def test_an_error_of_rounding_does_not_grow() -> None:
    generator = torch.Generator().manual_seed(1)
    first, largest = bred_for(
        lambda rows: 1e-7 * (1 + torch.rand(len(rows), generator=generator)), normal
    )
    assert largest < 2 * first


@pytest.mark.parametrize("draws", [normal, shares])
def test_each_number_of_a_bred_row_is_within_what_was_drawn(draws) -> None:
    generator = torch.Generator().manual_seed(2)
    values = draws(generator)
    bred = BredRows(values, 1, generator)
    bred.note(values, values.sum(-1))
    for made in (bred.next(draws(generator)), bred.worst()):
        assert made.shape == values.shape
        assert float(made.min()) >= float(values.min())
        assert float(made.max()) <= float(values.max())


def test_errors_that_are_no_numbers_are_none() -> None:
    values = normal(torch.Generator().manual_seed(3))
    bred = BredRows(values, 1, torch.Generator().manual_seed(3))
    bred.note(values, torch.full((48,), float("nan")))
    assert bool(bred.next(values).isfinite().all())
