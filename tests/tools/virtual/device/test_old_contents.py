"""Fresh memory of one call holds what the call before left in it, piece by piece, where that is asked for."""

from __future__ import annotations

import torch

from kernelagent.tools.virtual.device.storages.old_contents import OldContents


def allocated(memory: OldContents, *values: float) -> list[torch.Tensor]:
    """A call that asks for a piece of fresh memory for each value."""
    found = []
    for _ in values:
        fresh = torch.full((4,), -1.0)
        memory.allocated(fresh)
        found.append(fresh.clone())
        fresh.fill_(values[len(found) - 1])
    return found


def test_each_piece_holds_what_was_left_in_its_turn() -> None:
    memory = OldContents()
    with memory.of_a_call("noted"):
        assert [float(t[0]) for t in allocated(memory, 1.0, 2.0)] == [-1.0, -1.0]
    with memory.of_a_call("found"):
        assert [float(t[3]) for t in allocated(memory, 5.0, 6.0, 7.0)] == [1.0, 2.0, -1.0]


def test_a_piece_of_another_size_holds_nothing_of_it() -> None:
    memory = OldContents()
    with memory.of_a_call("noted"):
        allocated(memory, 1.0)
    with memory.of_a_call("found"):
        other = torch.full((5,), -1.0)
        memory.allocated(other)
    assert bool((other == -1.0).all())


def test_usually_nothing_is_noted() -> None:
    memory = OldContents()
    with memory.of_a_call("filled"):
        allocated(memory, 1.0)
    with memory.of_a_call("found"):
        assert float(allocated(memory, 5.0)[0][0]) == -1.0
