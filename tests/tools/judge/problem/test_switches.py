"""Single numbers that are switched together, and states of which a part was begun anew."""

from __future__ import annotations

import torch

from kernelagent.tools.judge.problem.trials.switches import begun_anew, switched, switches


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_two_switches_are_zero_and_one_in_all_ways_but_the_given_one() -> None:
    on, off = torch.ones((), dtype=torch.int32), torch.zeros(1, dtype=torch.bool)
    ways = [values for values, _ in switched({"a": on, "x": torch.randn(4), "b": off}, seeded())]
    assert sorted((way["a"], way["b"]) for way in ways) == [(0, 0), (0, 1), (1, 1)]


def test_a_switch_keeps_its_type_and_shape() -> None:
    for values, tensors in switched({"b": torch.zeros(1, dtype=torch.bool)}, seeded()):
        assert values == {"b": 1}
        assert torch.equal(tensors["b"], torch.ones(1, dtype=torch.bool))


def test_of_many_switches_a_few_are_drawn() -> None:
    many = {str(at): torch.zeros((), dtype=torch.int64) for at in range(10)}
    assert len(list(switched(many, seeded()))) == 7
    drawn = {name for seed in range(40) for way, _ in switched(many, seeded(seed)) for name in way}
    assert drawn == {*many}


def test_numbers_that_are_no_integers_are_no_switches() -> None:
    assert switches({"step": torch.ones(()), "row": torch.ones(3, dtype=torch.int64)}) == []


def test_a_position_begins_anew_where_the_frames_stay() -> None:
    given = {"frames": torch.zeros(4), "position": torch.zeros((), dtype=torch.int64)}
    reached = {"frames": torch.ones(4), "position": torch.tensor(3)}
    first, other = begun_anew(given, reached, seeded())
    assert first[0] == ["position"]
    assert torch.equal(first[1]["frames"], reached["frames"])
    assert int(first[1]["position"]) == 0
    assert other[0] == ["frames"]


def test_a_state_of_one_entry_has_no_part_that_begins_anew() -> None:
    given = {"total": torch.zeros(3), "kept": torch.ones(2)}
    assert list(begun_anew(given, {**given, "total": torch.ones(3)}, seeded())) == []
