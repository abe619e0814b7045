"""Weights of few elements get other signs, in one round or in the next."""

from __future__ import annotations

import torch

from kernelagent.tools.judge.problem.trials.other_signs import OtherSigns

GIVEN = {
    "gate": torch.tensor([1.5]),
    "mix": torch.tensor([0.3, 1.2, 0.4, 0.7]),
    "decay": torch.tensor([0.9, 0.95]),
    "both": torch.tensor([1.3, -0.9]),
    "wide": torch.rand(16) + 0.5,
    "buffer": torch.tensor([2.0]),
}


def signs(seed: int = 0, *names: str) -> OtherSigns:
    return OtherSigns(
        names or ("gate", "mix", "decay", "both", "wide"), torch.Generator().manual_seed(seed)
    )


def flipped(weights: dict[str, torch.Tensor], name: str) -> list[bool]:
    return (weights[name] == -GIVEN[name]).tolist()


def test_what_one_round_keeps_the_next_one_flips() -> None:
    seen = []
    for seed in range(20):
        made = signs(seed)
        rounds = [made.tried(GIVEN, GIVEN) for _ in range(2)]
        first, second = ((r[0] if r else GIVEN) for r in rounds)
        for name in ("gate", "mix"):
            pairs = zip(flipped(first, name), flipped(second, name), strict=True)
            assert all(a is not b for a, b in pairs)
        seen.append(tuple(flipped(first, "mix")))
    assert (True,) * 4 in seen
    assert any(len(set(flips)) == 2 for flips in seen)


def test_decays_weights_of_both_signs_wide_ones_and_buffers_are_left_alone() -> None:
    for seed in range(10):
        for weights in signs(seed).tried(GIVEN, GIVEN):
            for name in ("decay", "both", "wide", "buffer"):
                assert torch.equal(weights[name], GIVEN[name])


def test_each_weight_is_tried_alone_where_the_module_takes_not_all_of_them() -> None:
    made = next(tried for seed in range(10) if (tried := signs(seed).tried(GIVEN, GIVEN)))
    alone = [{n for n in GIVEN if not torch.equal(w[n], GIVEN[n])} for w in made[1:]]
    assert sorted(alone, key=str) == [{"gate"}, {"mix"}]


def test_one_tensor_under_two_names_keeps_one_value() -> None:
    tied = {"a": torch.tensor([0.3, 1.9]), "b": torch.tensor([0.3, 1.9])}
    for seed in range(10):
        for weights in signs(seed, "a", "b").tried(tied, tied):
            assert torch.equal(weights["a"], weights["b"])
