"""A secret watermark in floating values: copies keep it, arithmetic destroys it.

A value is moved by a few units in its last place until a keyed hash of its bits is below a threshold. Code
without the key sees ordinary numbers. A copy, a view, a transposition or a cast to a narrower type
keeps the form in every element; what arithmetic makes of such numbers has it in a quarter (float32) or
half of them (float16, bfloat16). So it shows which data a kernel was handed and which came from elsewhere,
whatever Python code moved them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from kernelagent.tools.calls.torch_dtypes import HALVES

_ROUNDS, _CELLS = 40, 32
_STEPS = [sign * step for step in range(1, 13) for sign in (1, -1)]
_NO_CELL = 8
_FEW = 16
FOREIGN_SHARE = 0.2
"""Above this share of unmarked elements among those that changed, data is not a copy; arithmetic leaves half and more."""
_INTEGERS = {2: torch.int16, 4: torch.int32}
Bits = NDArray[Any]
MARKED = (*HALVES, torch.float32, torch.float64)


@dataclass(frozen=True)
class Marks:
    """Marks values with one secret and recognises them."""

    secret: int

    def mark(self, values: torch.Tensor) -> torch.Tensor:
        """Marked values near these; zeros, infinities and NaN stay what they are.

        Fresh memory, contiguous. Types that are not in `MARKED` come back as they are.
        """
        flat = values.detach().contiguous().reshape(-1).clone()
        if values.dtype not in MARKED:
            return flat.reshape(values.shape)
        narrow = flat.to(torch.float32) if values.dtype == torch.float64 else flat
        places = (narrow.isfinite() & (narrow != 0)).numpy()
        bits = _bits(narrow)
        if values.dtype in HALVES:
            bits[places] = self._nearest(bits[places], 2)
        else:
            bits[places] = self._single(bits[places])
        flat.copy_(narrow)
        return flat.reshape(values.shape)

    def _nearest(self, bits: Bits, size: int) -> Bits:
        """16-bit forms a few units away; the sign and the rough size stay."""
        chosen = bits.copy()
        waiting = np.flatnonzero(~self._hash(bits, size))
        for step in _STEPS:
            if not waiting.size:
                break
            tried = (bits[waiting].astype(np.int32) + step).astype(np.uint16)
            # Only the low byte may change, so the value crosses neither zero nor infinity.
            good = self._hash(tried, size) & ((tried ^ bits[waiting]) < 0x100)
            chosen[waiting[good]] = tried[good]
            waiting = waiting[~good]
        return chosen

    def _single(self, bits: Bits) -> Bits:
        """float32 whose bfloat16 and float16 are marked as well."""
        chosen = bits.copy()
        waiting = np.arange(bits.size)
        for moved in range(_CELLS):
            if not waiting.size:
                break
            start = ((bits[waiting] >> np.uint32(16)) + np.uint32(moved)).astype(np.uint16)
            # Few upper halves occur, however many values there are: each is looked at once.
            different, which = _different(start)
            high = self._nearest(different, 2).astype(np.uint32) << np.uint32(16)
            waiting = self._within(high, which, waiting, chosen)
        return chosen

    def _within(
        self, high: Bits, which: Bits, places: NDArray[np.int64], chosen: Bits
    ) -> NDArray[np.int64]:
        """Fill `chosen` at `places` with marked values that round to `high[which]`; returns where none was found."""
        cells = self._cells(high)
        low = (chosen[places] ^ np.uint32(self.secret & 0x7FFF)) & np.uint32(0x7FFF)
        failed: Bits = cells[:, 0].take(which) == _NO_CELL
        waiting = np.flatnonzero(~failed)
        which, low = which.take(waiting).astype(np.uint32), low.take(waiting)
        upper, cells = high.take(which), cells.reshape(-1)
        for _ in range(_ROUNDS):
            cell = cells.take((which << np.uint32(3)) | (low >> np.uint32(12)))
            tried = upper | (cell << np.uint32(12)) | (low & np.uint32(0xFFF))
            # Half a cell's width exactly is rounded to even, which the cells do not have.
            good = self._hash(tried, 4) & ((tried & np.uint32(0xFFF)) != 0)
            at = np.flatnonzero(good)
            chosen[places.take(waiting.take(at))] = tried.take(at)
            rest = np.flatnonzero(~good)
            waiting, which = waiting.take(rest), which.take(rest)
            low, upper = low.take(rest), upper.take(rest)
            if not waiting.size:
                break
            low = (low * np.uint32(25173) + np.uint32(13849)) & np.uint32(0x7FFF)
        failed[waiting] = True
        left: NDArray[np.int64] = places[failed]
        return left

    def _cells(self, high: Bits) -> Bits:
        """For each upper half of a float32, which cell of the lower half to take instead of each of the eight.

        The lower 16 bits start with a zero, so that rounding to bfloat16 keeps the upper half. The next two bits are
        the last mantissa bits of the float16 cast, and the bit after them decides how that cast rounds. These three
        bits split the lower half into eight ranges (cells): all values of a cell have the same float16 cast, which
        carries the mark or does not. `_NO_CELL` where none carries it.
        """
        middles = (np.arange(8, dtype=np.uint32) << np.uint32(12)) + np.uint32(0x800)
        good: Bits = self._narrowed((high[:, None] | middles).reshape(-1)).reshape(-1, 8)
        order = np.arange(8)
        # From each cell on the first that is marked: no cell is taken much more often than another.
        ahead = np.stack([np.roll(good, -int(cell), axis=1).argmax(1) for cell in order], axis=1)
        outcome = np.any(good, axis=1, keepdims=True)
        return np.where(outcome, (order + ahead) % 8, _NO_CELL).astype(np.uint32)

    def _narrowed(self, bits: Bits) -> Bits:
        """Whether the float16 cast is marked, or outside the range of normal float16 values."""
        with np.errstate(over="ignore"):
            half = bits.view(np.float32).astype(np.float16)
        plain = ~np.isfinite(half) | (np.abs(half) < 6.2e-5)
        return plain | self._hash(half.view(np.uint16), 2)

    def marked(self, values: torch.Tensor) -> torch.Tensor:
        """Per element of a tensor of a type in `MARKED`: whether it can be a copy, cast or constant."""
        plain = (values == 0) | ~values.isfinite() | (values.abs() == 1)
        if values.dtype == torch.float16:
            return plain | self._has(values) | (values.abs() < 6.2e-5)
        if values.dtype == torch.bfloat16:
            return plain | self._has(values)
        single = values.to(torch.float32)
        result = self._has(single) & (single == values)
        for narrow in HALVES:
            cast = single.to(narrow)
            result |= self._has(cast) & (cast.to(values.dtype) == values)
        return plain | result

    def _has(self, values: torch.Tensor) -> torch.Tensor:
        # One axis at least: numpy warns of a single number that wraps around.
        bits = np.atleast_1d(_bits(values))
        return torch.from_numpy(self._hash(bits, values.element_size())).reshape(values.shape)

    def _hash(self, bits: Bits, size: int) -> NDArray[np.bool_]:
        salt = np.uint32((self.secret ^ (0x9E3779B9 * size)) & 0xFFFFFFFF)
        mixed = np.bitwise_xor(bits, salt, dtype=np.uint32)
        mixed *= np.uint32(0x85EBCA6B)
        mixed ^= mixed >> np.uint32(15)
        mixed *= np.uint32(0xC2B2AE35)
        mixed ^= mixed >> np.uint32(16)
        result: NDArray[np.bool_] = mixed < np.uint32(1 << 30 if size == 4 else 1 << 31)
        return result

    def is_foreign(self, first: torch.Tensor, second: torch.Tensor) -> bool:
        """Whether the data of two calls, which differ in their inputs alone, were made by arithmetic.

        What does not change with the inputs is a table or a weight; what is marked is a copy.
        """
        if first.dtype not in MARKED or first.shape != second.shape or first.dtype != second.dtype:
            return False
        differ = (first != second) & ~(first.isnan() & second.isnan())
        count = int(differ.sum())
        if not count:
            return False
        unmarked = int((differ & ~self.marked(first)).sum() + (differ & ~self.marked(second)).sum())
        if count < _FEW:
            return unmarked > 0
        return unmarked > 2 * FOREIGN_SHARE * count


def _different(halves: Bits) -> tuple[Bits, Bits]:
    """The 16-bit numbers that occur, in order, and the place of each element's among them: by a table, without sorting."""
    places = np.zeros(1 << 16, np.uint16)
    places[halves] = 1
    different = np.flatnonzero(places).astype(np.uint16)
    places[different] = np.arange(different.size)
    return different, places[halves]


def _bits(values: torch.Tensor) -> Bits:
    size = values.element_size()
    held: Bits = values.contiguous().view(_INTEGERS[size]).numpy().view(f"u{size}")
    return held


def altered(values: torch.Tensor, generator: np.random.Generator) -> torch.Tensor:
    """Plausible wrong values: of another sign and a similar size, no two places changed alike."""
    wide = values.to(torch.float64)
    finite = wide[wide.isfinite()]
    size = float(finite.abs().mean()) if finite.numel() else 1.0
    noise = torch.from_numpy(generator.uniform(0.25, 1.25, size=tuple(wide.shape)))
    changed = torch.where(wide.isfinite(), -0.7 * wide, 0.0) + (size or 1.0) * noise
    most = float(torch.finfo(values.dtype).max)
    return changed.clamp(-most, most).to(values.dtype)
