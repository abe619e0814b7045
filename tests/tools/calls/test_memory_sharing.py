"""Which tensors share memory, what lies between the elements of one, and whether memory lives on."""

from __future__ import annotations

import torch

from kernelagent.tools.calls.memory_sharing import Gaps, Watched, overlap


def test_parts_of_one_buffer_without_a_common_element_share_nothing():
    both = torch.ones(4, 6)
    assert overlap(both, both)
    assert not overlap(both[:2], both[2:])
    assert not overlap(both[:, :3], both[:, 3:])
    assert overlap(both[:, :3], both[:, 2:])


def test_what_is_written_between_the_elements_is_named():
    slab = torch.zeros(4, 6)
    gaps = Gaps({"left": slab[:, :3], "whole": torch.ones(4, 3)})
    slab[:, :3] = 1
    assert gaps.written == ()
    slab[1, 4] = 1
    assert gaps.written == ("left",)


def test_what_lies_beyond_the_last_element_is_not_between():
    slab = torch.zeros(4, 6)
    gaps = Gaps({"left": slab[:2, :3]})
    slab[2:] = 1
    assert gaps.written == ()


def test_another_tensors_elements_are_its_own():
    slab = torch.zeros(4, 6)
    gaps = Gaps({"left": slab[:, :3], "right": slab[:, 3:5]})
    slab[:, :5] = 1
    assert gaps.written == ()
    slab[0, 5] = 1
    assert gaps.written == ("left", "right")


def test_memory_lives_as_long_as_any_tensor_lies_in_it():
    x = torch.ones(8)
    watched, view = Watched([x]), x[2:]
    del x
    assert watched.alive
    del view
    assert not watched.alive
