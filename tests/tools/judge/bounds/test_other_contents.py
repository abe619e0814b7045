"""Costs that weights or inputs decide: what the other contents are, and what counts as more."""

from __future__ import annotations

from dataclasses import fields, replace

import torch

from kernelagent.domain.serialization import to_data
from kernelagent.tools.judge.bounds.cost_estimate import dearer_words
from kernelagent.tools.judge.bounds.other_contents import does_more, structured
from kernelagent.tools.virtual.cost.traffic_facts import TrafficFacts

_NAMES = [item.name for item in fields(TrafficFacts) if item.type == "int"]
_LITTLE = replace(TrafficFacts(**dict.fromkeys(_NAMES, 0)), lanes=1 << 20, loads=100_000)


def launched(traffic: TrafficFacts) -> list[dict]:
    return [{"kernel": "k", "traffic": to_data(traffic)}]


def test_the_same_work_is_not_more():
    nearly = replace(_LITTLE, loads=104_000)
    assert does_more(launched(_LITTLE), launched(nearly)) is None


def test_less_work_is_not_more():
    assert does_more(launched(_LITTLE), launched(replace(_LITTLE, loads=1000))) is None


def test_more_loads_are_told_as_so_many_times_the_loads():
    more = replace(_LITTLE, loads=4_000_000)
    assert does_more(launched(_LITTLE), launched(more)) == "40 times the loads"


def test_atomics_at_one_address_are_no_more_work():
    """How they wait for each other is a fact of the data, not of the kernel."""
    contended = replace(_LITTLE, hottest_atomics=1 << 20, hottest_updates=1 << 25)
    assert does_more(launched(_LITTLE), launched(contended)) is None


def test_structured_numbers_lie_off_their_centre():
    values = structured(torch.randn(8, 64, generator=torch.Generator().manual_seed(1)))
    assert 7 < float(values.mean()) < 9


def test_a_structured_mask_is_in_one_piece_and_as_dense():
    drawn = torch.rand(16, 64, generator=torch.Generator().manual_seed(1)) > 0.3
    mask = structured(drawn)
    assert bool(mask[0].all())
    assert int(mask[-1].sum()) == 1
    assert abs(int(mask.sum()) - int(drawn.sum())) <= 16


def test_structured_indices_repeat_and_stay_in_range():
    drawn = torch.randint(0, 100, (32, 8), generator=torch.Generator().manual_seed(1))
    ids = structured(drawn)
    assert bool((ids == ids[:, :1]).all())
    assert bool((ids < 100).all())


def test_sorted_offsets_and_permutations_stay_as_they_are():
    for tensor in (torch.tensor([0, 3, 9, 12, 40]), torch.randperm(64)):
        assert structured(tensor) is tensor


def test_more_work_that_the_estimate_does_not_show_is_not_said_to_change_it():
    where = "1.3 times the fp operations on inputs with a structure"
    words = dearer_words("default", where, 112.1, 112.3)
    assert words == f"{where}, which leaves the estimate at 112 us (input set 'default')"
    assert "an estimate of 150 us instead of 112" in dearer_words("default", where, 112.1, 150)
