"""Integers that number places of another input are those of its largest, and integers of two inputs agree in many places."""

from __future__ import annotations

import pytest
import torch

from kernelagent.tools.judge.problem.trials.planting.relations import (
    camps,
    can_have_camps,
    related,
)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("shape", [(64, 300), (64, 300, 4)])
def test_targets_are_the_likeliest_classes_and_others_near_them(shape: tuple[int, ...]) -> None:
    logits = torch.randn(shape, generator=seeded())
    target = torch.randint(0, 300, (shape[0], *shape[2:]), generator=seeded())
    made = related({}, {"target": target, "logits": logits}, 2, seeded())
    assert torch.equal(made["logits"], logits)
    rank = (logits > logits.gather(1, made["target"].unsqueeze(1))).sum(1)
    assert 0.5 < float((rank == 0).float().mean()) < 0.95
    assert {1, 2, 10} & set(rank.reshape(-1).tolist())


def test_tokens_agree_with_the_likeliest_ones_at_first_and_again_behind_a_difference() -> None:
    logits = torch.randn(32, 9, 200, generator=seeded())
    draft = torch.randint(0, 200, (32, 8), generator=seeded())
    same = related({}, {"draft": draft, "logits": logits}, 2, seeded())["draft"] == logits[
        :, :8
    ].argmax(-1)
    first_difference = same.long().cumprod(1).sum(1)
    assert len(set(first_difference.tolist())) > 3
    assert bool((same.sum(1) > first_difference).any())


def test_integers_of_two_inputs_agree_in_many_places() -> None:
    one, two = (
        torch.randint(0, 999, (32, 12), generator=torch.Generator().manual_seed(at))
        for at in (1, 2)
    )
    made = related({}, {"one": one, "two": two}, 2, seeded())
    assert torch.equal(made["one"], one)
    assert 0.5 < float((made["two"] == one).float().mean()) < 0.95


def test_integers_that_number_nothing_beside_them_stay() -> None:
    natural = {"x": torch.randn(8, 40), "ids": torch.randint(0, 4000, (8,))}
    assert related({}, natural, 2, seeded()) == {}


def test_numbers_stay_within_those_that_were_seen_and_lengths_are_never_zero() -> None:
    x = torch.randn(256, 32, generator=seeded())
    lengths = torch.randint(8, 32, (256,), generator=seeded())
    made = related({}, {"x": x, "lengths": lengths}, 2, seeded())["lengths"]
    assert int(made.min()) >= int(lengths.min())
    assert not torch.equal(made, lengths)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.uint32, torch.uint64], ids=str)
def test_unsigned_numbers_agree_as_well(dtype: torch.dtype) -> None:
    one, two = (
        torch.randint(0, 99, (8, 12), generator=torch.Generator().manual_seed(at)).to(dtype)
        for at in (1, 2)
    )
    made = related({}, {"one": one, "two": two}, 2, seeded())["two"]
    assert made.dtype == dtype
    assert bool((made.long() == one.long()).float().mean() > 0.5)


@pytest.mark.parametrize("turn", range(3, 6))
def test_rows_of_one_input_are_opposite_to_those_of_another_or_one_of_them_leads(turn: int) -> None:
    natural = {
        "one": torch.randn(12, 32, generator=seeded()),
        "other": torch.randn(20, 32, generator=seeded(1)),
    }
    assert can_have_camps(natural)
    made = camps(natural, turn, seeded(turn))
    rows = torch.nn.functional.normalize(made["one"], dim=-1)
    others = torch.nn.functional.normalize(made["other"], dim=-1)
    assert float((rows @ rows.T).min()) > 0.8
    along = (rows @ others.T).mean(0).sort().values
    assert float(along[-2]) < 0.6 if turn == 5 else float(along[-2]) < -0.8
    assert float(along[-1]) < -0.8 if turn == 3 else float(along[-1]) > 0.8
    if turn == 5:
        sizes = made["other"].norm(dim=-1).sort().values
        assert float(sizes[-1]) > 5 * float(sizes[-2])


def test_items_of_a_batch_have_camps_of_their_own() -> None:
    keys = torch.randn(64, 10, 16, generator=seeded())
    made = camps({"q": torch.randn(64, 4, 16, generator=seeded(1)), "k": keys}, 3, seeded())
    row = torch.nn.functional.normalize(made["q"][0, 0], dim=0)
    along = torch.nn.functional.normalize(made["k"], dim=-1) @ row
    opposite = (along.abs() > 0.8).all(-1)
    assert 0 < int(opposite.sum()) < 64
    assert not can_have_camps({"q": keys[0, :1], "k": keys[1, :1]})
    assert not can_have_camps({"q": keys, "w": torch.randn(4, 8)})
