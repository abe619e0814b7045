"""Blocks of memory that a kernel names by base, sizes, strides and offsets, over an axis for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import triton.language as tl

from kernelagent.tools.virtual.arithmetic.elementwise import Handle, make
from kernelagent.tools.virtual.arithmetic.numerics import Array
from kernelagent.tools.virtual.batched.accesses import NotBatchable


class Descriptor:
    """A tensor descriptor; base, sizes and strides may differ between programs."""

    round_f32_to_tf32 = False

    def __init__(
        self, base: Handle, shape: list[Handle], strides: list[Handle], block: list[int], pad: Any
    ) -> None:
        self.base, self.shape, self.strides = base, shape, strides
        self.block_shape = block
        self.padding = pad
        item = base.dtype.element_ty.primitive_bitwidth // 8
        inner = all(bool((entry.data * item % 16 == 0).all()) for entry in strides[:-1])
        if not (
            bool((base.data % 16 == 0).all()) and inner and bool((strides[-1].data == 1).all())
        ):
            raise NotBatchable("a tensor descriptor is not aligned")

    def pointers(self, offsets: list[Handle]) -> tuple[Array, Array]:
        """Addresses and which of them lie inside, of (programs or 1, *block_shape)."""
        item = self.base.dtype.element_ty.primitive_bitwidth // 8
        if not bool((offsets[-1].data.astype(np.int64) * item % 16 == 0).all()):
            raise NotBatchable("a descriptor's offset is not aligned")
        checked = range(len(self.block_shape))
        return _addresses(self.base, self.shape, self.strides, offsets, self.block_shape, checked)


@dataclass(frozen=True)
class BlockPointer:
    """What `tl.make_block_ptr` is to Triton's builder up to 3.7; all but its block may differ between programs."""

    base: Handle
    shape: Sequence[Handle]
    strides: Sequence[Handle]
    offsets: Sequence[Handle]
    block_shape: Sequence[int]

    def pointers(self, checked: Sequence[int]) -> tuple[Handle, Handle]:
        """Addresses, and which of them lie inside along the axes `checked`."""
        addresses, mask = _addresses(
            self.base, self.shape, self.strides, self.offsets, self.block_shape, checked
        )
        return make(addresses, self.base.dtype.scalar), make(mask, tl.int1)

    def advanced(self, by: Sequence[Handle]) -> BlockPointer:
        """The block so many elements further along each axis."""
        pairs = zip(self.offsets, by, strict=True)
        return replace(self, offsets=[make(at.data + on.data, at.dtype) for at, on in pairs])


def _addresses(
    base: Handle,
    shape: Sequence[Handle],
    strides: Sequence[Handle],
    offsets: Sequence[Handle],
    block: Sequence[int],
    checked: Sequence[int],
) -> tuple[Array, Array]:
    """Of (programs or 1, *block), and a mask that fits."""
    item = base.get_element_ty().primitive_bitwidth // 8
    rank = len(block)
    pointers = _scalar(base.data, rank)
    mask = np.ones((1,) * (1 + rank), dtype=bool)
    for axis, size in enumerate(block):
        lanes = np.arange(size).reshape((1,) + (1,) * axis + (size,) + (1,) * (rank - axis - 1))
        at = _scalar(offsets[axis].data, rank) + lanes
        stride = _scalar(strides[axis].data, rank)
        pointers = pointers + (item * at * stride).astype(np.uint64)
        if axis in checked:
            mask = mask & (at >= 0) & (at < _scalar(shape[axis].data, rank))
    return pointers, mask


def _scalar(data: Array, rank: int) -> Array:
    """One number a program, against blocks of this rank."""
    return data.reshape((-1,) + (1,) * rank)
