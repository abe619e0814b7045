"""On `cuda`, memory that nobody has written yet holds nothing to rely on, as on `virtual`.

On `virtual` torch fills it, under deterministic algorithms. On a GPU that setting would choose other
algorithms than the ones that are timed, and a candidate could ask for it. Here the free memory of
torch's allocator is overwritten instead, before the candidate's turn; what comes fresh from the driver
is not, so enough is taken from it beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch

NAN = 0x7FFF
"""Two bytes, repeated: NaN in every floating type, without a sign like torch's own filling."""
_PATTERN_BYTES = 1 << 16
_NANS = torch.full((_PATTERN_BYTES // 2,), NAN, dtype=torch.int16).view(torch.uint8)
_SMALL_BYTES = 1 << 20
"""Up to this size torch's allocator serves a request from blocks that hold nothing larger."""
_SMALL_BLOCKS = 8
_LEAST_BYTES = 64 << 20
_DEFAULT_POOL = (0, 0)


def is_noise(calls: int) -> bool:
    """Whether unwritten memory gets random bytes, and not NaN, before the next call; `calls`: how many were made.

    NaN and random bytes alternate, so that an unwritten integer that happens to be right in one call is wrong in the
    next. The first two calls get NaN: a rejected call is repeated once, and NaN shows in both which elements were
    never written rather than computed wrongly.
    """
    return calls > 1 and calls % 2 == 0


class FreeMemory(Protocol):
    """Memory that will be handed out again, and that nobody uses now."""

    def reserve(self, size: int) -> None:
        """Get at least `size` bytes of it from the driver, or less where the device has less."""

    def ranges(self) -> Iterable[tuple[int, int]]:
        """Address and size in bytes of each piece."""

    def bytes_at(self, address: int, size: int) -> torch.Tensor:
        """That memory itself, as uint8."""

    def brought(self, content: torch.Tensor) -> torch.Tensor:
        """`content` on the device."""

    def settle(self) -> None:
        """Wait for the device."""


class Unwritten:
    """Overwrites free memory: NaN and random bytes in turn, so that integers cannot be relied on, either."""

    def __init__(self, memory: FreeMemory) -> None:
        self._memory = memory
        self._generator = np.random.default_rng()
        self._reserved = 0

    def overwrite(self, *, noise: bool = False, expected_bytes: int = 0) -> None:
        """Let no free byte keep its content; `expected_bytes`: what is about to be allocated, roughly."""
        size = max(expected_bytes, _LEAST_BYTES)
        self._memory.settle()
        if size > self._reserved:
            self._memory.reserve(size)
            self._reserved = size
        # On the device before the pieces are listed: it takes one of them itself.
        pattern = self._memory.brought(self._noise() if noise else _NANS)
        for address, length in list(self._memory.ranges()):
            _repeat(pattern, self._memory.bytes_at(address, length))
        self._memory.settle()

    def _noise(self) -> torch.Tensor:
        return torch.from_numpy(self._generator.integers(0, 256, _PATTERN_BYTES, np.uint8))


def _repeat(pattern: torch.Tensor, target: torch.Tensor) -> None:
    whole = target.numel() // _PATTERN_BYTES * _PATTERN_BYTES
    target[:whole].view(-1, _PATTERN_BYTES).copy_(pattern)
    target[whole:].copy_(pattern[: target.numel() - whole])


def free_ranges(segments: Sequence[Mapping[str, Any]], device: int) -> Iterator[tuple[int, int]]:
    """Those of `torch.cuda.memory_snapshot()` that the allocator may hand out to anybody.

    Not those of a CUDA graph's pool: a graph reads its memory at every replay.
    """
    for segment in segments:
        if segment["device"] != device or tuple(segment["segment_pool_id"]) != _DEFAULT_POOL:
            continue
        for block in segment["blocks"]:
            if block["state"] == "inactive":
                yield int(block["address"]), int(block["size"])


class _Place:
    """What torch asks of memory that is not its own."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }


def keeps_free_blocks() -> bool:
    """Whether torch keeps what it frees, and can tell where it lies: its other allocators do not."""
    return torch.cuda.get_allocator_backend() == "native"


class CachedGpuMemory:
    """The free blocks of torch's caching allocator, in this process."""

    def __init__(self, device: int) -> None:
        self._device = torch.device("cuda", device)
        # Taken before a candidate could put others in their places.
        self._snapshot: Callable[[], Sequence[Mapping[str, Any]]] = torch.cuda.memory_snapshot
        self._as_tensor = torch.as_tensor
        self._empty = torch.empty
        self._settle = torch.cuda.synchronize
        self._free_bytes = torch.cuda.mem_get_info
        self._forget_peak = torch.cuda.reset_peak_memory_stats

    def reserve(self, size: int) -> None:
        free = self._free_bytes(self._device)[0]
        sizes = [min(size, free // 4), *[_SMALL_BYTES] * _SMALL_BLOCKS]
        blocks = [self._empty(n, dtype=torch.uint8, device=self._device) for n in sizes]
        del blocks
        # The most memory that a candidate held is reported, and this is none of its own.
        self._forget_peak(self._device)

    def ranges(self) -> Iterator[tuple[int, int]]:
        return free_ranges(self._snapshot(), self._device.index)

    def bytes_at(self, address: int, size: int) -> torch.Tensor:
        return self._as_tensor(_Place(address, size), device=self._device)

    def brought(self, content: torch.Tensor) -> torch.Tensor:
        return content.to(self._device)

    def settle(self) -> None:
        self._settle(self._device)
