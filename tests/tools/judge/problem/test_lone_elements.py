"""Tensors of one value with a few others."""

from __future__ import annotations

import torch

from kernelagent.tools.judge.problem.trials.lone_elements import lone_changes, lone_elements
from kernelagent.tools.judge.problem.trials.unlike import Unlike


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def made_of(**tensors: torch.Tensor) -> list[Unlike]:
    return list(lone_elements(tensors, seeded(1)))


def test_a_mask_hides_all_but_a_few_and_then_shows_all_but_a_few() -> None:
    mask = torch.rand(64, 64, generator=seeded()) < 0.7
    shown = [float(item.tensors["mask"].float().mean()) for item in made_of(mask=mask)]
    assert 0 < shown[0] < 0.06
    assert 0.94 < shown[1] < 1


def test_ids_are_one_of_theirs_but_for_a_few() -> None:
    ids = torch.randint(0, 1000, (16, 64), generator=seeded())
    (item,) = made_of(ids=ids)
    values, counts = item.tensors["ids"].unique(return_counts=True)
    assert float(counts.max() / ids.numel()) > 0.9
    assert 2 < len(values) < 80
    assert set(values.tolist()) <= set(ids.unique().tolist())


def test_codes_with_signs_are_zero_but_for_a_few_as_well() -> None:
    codes = torch.randint(-8, 8, (40, 40), generator=seeded()).to(torch.int8)
    shares = [float((item.tensors["codes"] == 0).float().mean()) for item in made_of(codes=codes)]
    assert max(shares) > 0.9


def test_numbers_are_zero_but_for_a_few_of_those_that_were_drawn() -> None:
    drawn = torch.randn(40, 40, generator=seeded())
    (item,) = made_of(x=drawn)
    kept = item.tensors["x"] != 0
    assert 0 < float(kept.float().mean()) < 0.06
    assert torch.equal(item.tensors["x"][kept], drawn[kept])


def test_masks_and_ids_come_before_numbers_of_which_there_are_many() -> None:
    many = {f"x{at}": torch.randn(64, generator=seeded(at)) for at in range(6)}
    mask = torch.rand(64, generator=seeded()) < 0.5
    names = [item.name for item in made_of(**many, mask=mask)]
    assert (names[:2], len({*names})) == (["mask", "mask"], 3)


def test_small_tensors_and_such_of_one_value_stay() -> None:
    assert made_of(flag=torch.ones(64, dtype=torch.bool), few=torch.randn(4)) == []


def test_ignored_labels_are_what_all_others_become() -> None:
    labels = torch.randint(0, 64, (400,), generator=seeded())
    labels[torch.rand(400, generator=seeded(1)) < 0.1] = -100
    shares = [
        float((item.tensors["labels"] == -100).float().mean()) for item in made_of(labels=labels)
    ]
    assert max(shares) > 0.9


def test_a_frame_is_the_one_before_but_for_a_few_places() -> None:
    frames = {name: torch.randn(32, 32, generator=seeded(at)) for at, name in enumerate("ab")}
    items = list(lone_changes({**frames, "c": torch.randn(8, generator=seeded())}, seeded()))
    assert {(item.name, item.other) for item in items} == {("a", "b"), ("b", "a")}
    for item in items:
        same = item.tensors[item.name] == frames[item.other]
        assert 0.94 < float(same.float().mean()) < 1
