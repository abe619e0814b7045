"""Addresses in tables: found only inside living storages whose address was asked for."""

from __future__ import annotations

import numpy as np
import torch

from kernelagent.tools.virtual.device.storages.addresses import DataPointers, Pointee, translated


def test_an_entry_is_found_anywhere_inside_a_storage():
    asked, tensor = DataPointers(), torch.zeros(100)
    asked.note(tensor[10:])
    table = torch.tensor([tensor.data_ptr() + 396, tensor.data_ptr()])
    ((low, whole),) = asked.in_table(table)
    assert low == tensor.data_ptr()
    assert whole.untyped_storage().data_ptr() == low


def test_an_address_nobody_asked_for_or_beyond_the_end_is_not_found():
    asked, tensor, other = DataPointers(), torch.zeros(100), torch.zeros(100)
    asked.note(tensor)
    table = torch.tensor([tensor.data_ptr() + 400, other.data_ptr() + 4])
    assert list(asked.in_table(table)) == []


def test_a_storage_that_has_gone_is_not_found():
    asked, tensor = DataPointers(), torch.zeros(1 << 20)
    asked.note(tensor)
    table = torch.tensor([tensor.data_ptr()])
    del tensor
    assert list(asked.in_table(table)) == []


def test_tables_of_other_types_are_not_looked_at():
    asked, tensor = DataPointers(), torch.zeros(4)
    asked.note(tensor)
    assert list(asked.in_table(torch.tensor([float(tensor.data_ptr())]))) == []


def test_only_addresses_inside_a_pointee_are_moved():
    values = np.array([100, 199, 200, 7], dtype=np.uint64)
    moved = translated(values, [Pointee(100, 200, -50)])
    assert moved.tolist() == [50, 149, 200, 7]


def test_what_was_resized_lies_elsewhere_and_is_not_followed_to_where_it_was() -> None:
    pointers = DataPointers()
    moved = torch.zeros(64)
    pointers.note(moved)
    was = moved.data_ptr()
    moved.resize_(1 << 20)
    assert moved.data_ptr() != was
    assert list(pointers.pointed_at([was])) == []


def test_of_two_that_share_memory_one_is_followed() -> None:
    pointers = DataPointers()
    memory = np.zeros(64, dtype=np.float32)
    first, second = torch.from_numpy(memory), torch.from_numpy(memory[8:])
    pointers.note(first)
    pointers.note(second)
    asked = [second.data_ptr() + 4, first.data_ptr()]
    assert [low for low, _ in pointers.pointed_at(asked)] == [first.data_ptr()]
