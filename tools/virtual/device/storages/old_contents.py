"""Fresh memory that still holds what an earlier call wrote, as a GPU's allocator hands it out again.

A program that makes the same calls again and again gets the same blocks again. Here each piece of fresh
memory takes the contents of the piece of its size that the call before was given in its turn.
"""

from __future__ import annotations

import ctypes
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from kernelagent.tools.calls.surroundings import Fresh

_NOTED: tuple[Fresh, ...] = ("noted", "kept")
_MOST_BYTES = 512 << 20
"""Of one call; what is beyond is not kept."""


class OldContents:
    """Notes what one call leaves in fresh memory, and puts it into that of a later one."""

    def __init__(self) -> None:
        self._memory: Fresh = "filled"
        self._given: list[torch.UntypedStorage] = []
        self._left: dict[int, deque[bytes]] = {}

    @contextmanager
    def of_a_call(self, memory: Fresh) -> Iterator[None]:
        """What is allocated inside is noted, or holds what was noted."""
        self._memory = memory
        try:
            yield
        finally:
            if memory in _NOTED:
                self._note()
            self._memory = "filled"
            self._given = []

    def allocated(self, fresh: Any) -> bool:
        """Asked with every tensor of fresh memory; whether it now holds what an earlier call left there."""
        if self._memory == "filled" or type(fresh) is not torch.Tensor:
            return False
        if fresh.device.type != "cpu" or not fresh.numel():
            return False
        storage = fresh.untyped_storage()
        if self._memory in _NOTED:
            self._given.append(storage)
        if self._memory == "noted":
            return False
        earlier = self._left.get(storage.nbytes())
        if not earlier:
            return False
        # By address: an operation of torch would count as one of the candidate's.
        ctypes.memmove(storage.data_ptr(), earlier.popleft(), storage.nbytes())
        return True

    def _note(self) -> None:
        left: dict[int, deque[bytes]] = defaultdict(deque)
        size = 0
        for storage in self._given:
            size += storage.nbytes()
            if size <= _MOST_BYTES and storage.data_ptr():
                left[storage.nbytes()].append(
                    ctypes.string_at(storage.data_ptr(), storage.nbytes())
                )
        self._left = dict(left)


OLD_CONTENTS = OldContents()
"""Of this process."""
