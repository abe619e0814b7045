"""Addresses that are no multiple of the element's size: a GPU ends the program with "misaligned address"."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from kernelagent.tools.virtual.executor.launch import MemoryFault


@triton.jit
def words_at(bytes_ptr, at_ptr, out_ptr, use_ptr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    at = tl.load(at_ptr + lanes)
    used = tl.load(use_ptr + lanes) != 0
    words = (bytes_ptr + at).to(tl.pointer_type(tl.int32))
    tl.store(out_ptr + lanes, tl.load(words, mask=used, other=0))


@triton.jit
def pairs_at(x_ptr, out_ptr, first, N: tl.constexpr):
    lanes = tl.arange(0, N)
    pairs = (x_ptr + first).to(tl.pointer_type(tl.int64)) + lanes
    tl.store((out_ptr + first).to(tl.pointer_type(tl.int64)) + lanes, tl.load(pairs))


@triton.jit
def added_at(x_ptr, first):
    tl.atomic_add((x_ptr + first).to(tl.pointer_type(tl.int64)), 1)


@triton.jit
def swapped_at(x_ptr, first):
    tl.atomic_cas(
        (x_ptr + first).to(tl.pointer_type(tl.int64)),
        tl.full((), 0, tl.int64),
        tl.full((), 1, tl.int64),
    )


def test_words_at_odd_places_are_refused_unless_no_lane_in_use_reads_them(interpret):
    data = torch.arange(32, dtype=torch.uint8)
    at = torch.tensor([0, 4, 7, 9], dtype=torch.int32)
    out, used = torch.zeros(4, dtype=torch.int32), torch.tensor([1, 1, 0, 0], dtype=torch.int32)
    interpret(words_at, (1,), data, at, out, used, 4)
    assert out.tolist() == [0x03020100, 0x07060504, 0, 0]
    with pytest.raises(MemoryFault, match="misaligned address: a load of 4 bytes in 2 of 4") as one:
        interpret(words_at, (1,), data, at, out, torch.ones_like(used), 4)
    assert one.value.code == "out_of_bounds"


def test_pairs_of_numbers_begin_at_even_places_only(interpret):
    x, out = torch.arange(10.0), torch.zeros(10)
    interpret(pairs_at, (1,), x, out, 2, 4)
    assert out.tolist() == [0.0, 0.0, *range(2, 10)]
    with pytest.raises(MemoryFault, match="no multiple of 8"):
        interpret(pairs_at, (1,), x, out, 1, 4)


@pytest.mark.parametrize("kernel", [added_at, swapped_at])
def test_an_atomic_at_an_odd_place_is_refused(interpret, kernel):
    x = torch.zeros(4, dtype=torch.int32)
    interpret(kernel, (1,), x, 2)
    assert x.tolist() == [0, 0, 1, 0]
    with pytest.raises(MemoryFault, match="an atomic of 8 bytes"):
        interpret(kernel, (1,), x, 1)
