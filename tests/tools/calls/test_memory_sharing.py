"""Which results share memory, and whether memory lives on."""

from __future__ import annotations

import torch

from kernelagent.tools.calls.memory_sharing import Watched, held_longer, sharing_of


def test_one_tensor_twice_is_a_pair():
    x = torch.ones(3, 4)
    assert sharing_of((x, [x]), ()).outputs == ((0, 1),)


def test_parts_of_one_buffer_without_a_common_element_share_nothing():
    both = torch.ones(4, 6)
    assert sharing_of((both[:2], both[2:]), ()).outputs == ()
    assert sharing_of((both[:, :3], both[:, 3:]), ()).outputs == ()
    assert sharing_of((both[:, :3], both[:, 2:]), ()).outputs == ((0, 1),)


def test_a_result_in_an_inputs_memory_is_named_by_its_place():
    x = torch.ones(3, 4)
    assert sharing_of({"a": x + 1, "b": x.t()}, ((x,), {})).inputs == (1,)


def test_memory_that_a_small_view_holds_is_counted():
    assert sharing_of(torch.ones(64, 16)[0], ()).memory == ((64, 4096),)


def test_a_result_that_holds_more_memory_than_the_references_is_named_unless_it_is_an_argument():
    whole = torch.ones(64, 16)
    row = whole[0]
    usual = sharing_of((torch.ones(16), torch.ones(16)), ())
    assert held_longer(sharing_of((torch.ones(16), row), ()), usual) == (1,)
    assert held_longer(sharing_of((torch.ones(16), row), (row,)), usual) == ()
    assert held_longer(sharing_of((whole[1], row), (row,)), usual) == (0,)
    assert held_longer(sharing_of((torch.ones(16), row), ()), sharing_of((row, row), ())) == ()


def test_memory_lives_as_long_as_any_tensor_lies_in_it():
    x = torch.ones(8)
    watched, view = Watched([x]), x[2:]
    del x
    assert watched.alive
    del view
    assert not watched.alive
