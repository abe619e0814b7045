"""Sequences of few letters, and chains of places, of numbers that were seen."""

from __future__ import annotations

import torch

from kernelagent.tools.judge.problem.trials.planting.sequences import sequences


def drawn(natural: dict[str, torch.Tensor], numbers: tuple[int, ...] = ()) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [sequences(natural, numbers, generator)["x"] for _ in range(40)]


def test_the_largest_of_rows_are_few_letters_with_a_number_of_the_sources() -> None:
    scores = torch.randn(3, 30, 50, generator=torch.Generator().manual_seed(1))
    best = [made.argmax(-1) for made in drawn({"x": scores}, (28, 400))]
    few = [b for b in best if b.unique().numel() <= 3]
    assert few
    assert any(28 in b for b in few)
    assert not any(400 in b for b in few)
    comes_back = [(b[:, 2:] == b[:, :-2]) & (b[:, 1:-1] == 28) & (b[:, 2:] != 28) for b in few]
    assert any(bool(found.any()) for found in comes_back)


def test_some_largest_are_a_chain_of_all_places() -> None:
    scores = torch.randn(2, 24, 24, generator=torch.Generator().manual_seed(1))

    def longest(head: torch.Tensor) -> int:
        at, steps = head, 0
        while steps < 24 and not torch.equal(at, head.gather(1, at)):
            at, steps = head.gather(1, at), steps + 1
        return steps

    ways = [longest(made.argmax(-1)) for made in drawn({"x": scores})]
    assert any(20 <= way < 24 for way in ways)


def test_numbers_that_were_never_seen_are_no_letters() -> None:
    labels = torch.tensor([-100, 0, 3, 5, 9, 9, 2, -100] * 4).reshape(4, 8)
    for made in drawn({"x": labels}, (7,)):
        assert set(made.reshape(-1).tolist()) <= set(labels.reshape(-1).tolist())


def test_hashes_of_64_bits_are_letters_too() -> None:
    least, largest = torch.iinfo(torch.int64).min, torch.iinfo(torch.int64).max
    hashes = torch.randint(least, largest, (4, 9), generator=torch.Generator().manual_seed(1))
    for made in drawn({"x": hashes}):
        assert made.unique().numel() <= 3
        assert set(made.reshape(-1).tolist()) <= set(hashes.reshape(-1).tolist())
