"""Addresses without contents: any size, ordinary up to the window, and no memory beyond it."""

from __future__ import annotations

import mmap
import re
import resource
from pathlib import Path

import pytest
import torch

from kernelagent.tools.virtual.device.storages.hollow import WINDOW_BYTES, AliasedRange


@pytest.fixture
def hollow():
    made = []

    def make(size):
        made.append(AliasedRange(size))
        return made[-1]

    yield make
    for item in made:
        item.close()


def test_a_range_of_64_gigabytes_can_be_read_and_written_at_both_ends(hollow):
    size = 64 << 30
    whole = torch.frombuffer(hollow(size).memory, dtype=torch.float32, count=size // 4)
    whole[-1] = 3.0
    assert float(whole[-1]) == 3.0
    assert whole.numel() * 4 == size


def test_a_tensor_that_fits_the_window_is_ordinary_memory(hollow):
    count = WINDOW_BYTES // 8
    numbers = torch.frombuffer(hollow(WINDOW_BYTES).memory, dtype=torch.int64, count=count)
    numbers.copy_(torch.arange(count))
    assert torch.equal(numbers, torch.arange(count))


def test_however_much_is_written_only_the_window_is_allocated(hollow):
    size = 4 * WINDOW_BYTES
    every_page = torch.frombuffer(hollow(size).memory, dtype=torch.uint8, count=size)
    every_page[:: mmap.PAGESIZE].fill_(1)
    # The shares of all processes in it: pages that several addresses name are counted once.
    rollup = Path("/proc/self/smaps_rollup").read_text()
    shared = int(re.search(r"Pss_Shmem:\s+(\d+) kB", rollup)[1]) << 10
    assert shared < 2 * WINDOW_BYTES


def test_contents_outlive_the_pages_that_are_forgotten(hollow):
    item = hollow(mmap.PAGESIZE)
    item.memory[0] = b"x"
    item.forget_pages()
    assert item.memory[0] == b"x"


def test_a_data_limit_below_the_size_does_not_matter(hollow):
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, before[1]))
    try:
        assert hollow(32 << 30).size == 32 << 30
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)
