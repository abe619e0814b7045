"""The repaired builder with one more, leading axis: data is (programs or 1, *shape) of each tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as stock

from kernelagent.tools.virtual import triton_versions
from kernelagent.tools.virtual.arithmetic.elementwise import Handle, make
from kernelagent.tools.virtual.arithmetic.fusing import carrying_products
from kernelagent.tools.virtual.arithmetic.numerics import Array
from kernelagent.tools.virtual.batched.accesses import NotBatchable
from kernelagent.tools.virtual.batched.blocks import BlockPointer, Descriptor
from kernelagent.tools.virtual.batched.memory import BatchedMemory
from kernelagent.tools.virtual.kernel_text.joined import following_joins
from kernelagent.tools.virtual.operations.accesses import BF16_ATOMICS
from kernelagent.tools.virtual.operations.between_lanes import reordered
from kernelagent.tools.virtual.operations.builder import RepairedBuilder

_PADDING = stock._ir.PADDING_OPTION


@following_joins
@carrying_products
@triton_versions.called_with_cache_policy
class BatchedBuilder(RepairedBuilder):
    """Where the rewritten kernel's operations of many programs end."""

    memory: BatchedMemory  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.memory = BatchedMemory()
        self.ids: tuple[Array, Array, Array] = (np.zeros(1, np.int32),) * 3

    def lanes(self, data: Array) -> int:
        return math.prod(data.shape[1:]) * self.memory.running

    def programs_running(self) -> int:
        return self.memory.running

    @property
    def active(self) -> Array | None:
        return self.memory.active

    def running(self, data: Array) -> Array:
        active = self.memory.active
        return data if active is None or data.shape[0] == 1 else data[active]

    def create_barrier(self) -> None:
        if self.memory.active is not None:
            raise NotBatchable("a barrier that some programs do not reach", always=True)
        self.waits_at_barrier()
        self.flow.meets_barrier()
        # In a cluster it keeps the threads of one block only.
        self.memory.barriers += self.memory.threads.barriers_for_all

    # programs and shapes

    def create_get_program_id(self, axis: int) -> Handle:
        return make(self.ids[axis], tl.int32)

    def create_make_range(self, ret_ty: Any, start: int, stop: int) -> Handle:
        return make(np.arange(start, stop, dtype=np.int32)[None], tl.int32)

    def create_splat(self, ret_ty: Any, arg: Handle) -> Handle:
        shape, data = tuple(ret_ty.shape), arg.data
        self.memory.expect(math.prod(shape))
        wide = data.reshape((data.shape[0],) + (1,) * len(shape))
        return make(np.broadcast_to(wide, (data.shape[0], *shape)), arg.dtype.scalar)

    def create_unsplat(self, arg: Handle) -> Handle:
        return make(arg.data.reshape(arg.data.shape[0], -1)[:, 0], arg.dtype.scalar)

    def create_expand_dims(self, arg: Handle, axis: int) -> Handle:
        return make(np.expand_dims(arg.data, axis + 1), arg.dtype.scalar)

    def create_broadcast(self, arg: Handle, shape: Any) -> Handle:
        shape = tuple(shape)
        self.memory.expect(math.prod(shape))
        return make(np.broadcast_to(arg.data, (arg.data.shape[0], *shape)), arg.dtype.scalar)

    def create_reshape(self, arg: Handle, shape: Any, allow_reorder: bool) -> Handle:
        flat = arg.data.reshape(arg.data.shape[0], -1)
        flat = reordered(flat) if allow_reorder else flat
        return make(flat.reshape((arg.data.shape[0], *shape)), arg.dtype.scalar)

    def create_trans(self, arg: Handle, perm: Any) -> Handle:
        return make(np.transpose(arg.data, (0, *(p + 1 for p in perm))), arg.dtype.scalar)

    def create_cat(self, lhs: Handle, rhs: Handle) -> Handle:
        left, right = together(lhs.data, rhs.data)
        both = np.stack([left, right], axis=2)
        return make(both.reshape(both.shape[0], -1), lhs.dtype.scalar)

    def create_join(self, lhs: Handle, rhs: Handle) -> Handle:
        left, right = together(lhs.data, rhs.data)
        return make(np.stack([left, right], axis=-1), lhs.dtype.scalar)

    def create_gather(self, src: Handle, indices: Handle, axis: int) -> Handle:
        self.require_inside(src, indices, 1 + axis % (src.data.ndim - 1))
        self.gathers(indices.data, src, axis % (src.data.ndim - 1))
        data, at = together(src.data, indices.data)
        axis = 1 + axis % (data.ndim - 1)
        return make(np.take_along_axis(data, at, axis=axis), src.dtype.scalar)

    def create_histogram(self, data: Handle, bins: int, mask: Handle | None) -> Handle:
        self.require_bins(data, bins, mask)
        self.step("exchange")
        values = data.data
        valid = (values < bins) & (values >= 0)
        if mask is not None:
            valid, values = together(valid & mask.data, values)
        count = values.shape[0]
        at = values.astype(np.int64) + bins * np.arange(count).reshape(
            (-1,) + (1,) * (values.ndim - 1)
        )
        result = np.bincount(at[valid], minlength=count * bins).reshape(count, bins)
        return make(result.astype(np.int32), tl.int32)

    # memory

    def create_load(self, ptr: Handle, cache_policy: Any, is_volatile: Any) -> Handle:
        return self._load(ptr, None, None, volatile=is_volatile)

    def create_store(self, ptr: Handle, val: Handle, cache_policy: Any) -> None:
        self._store(ptr, val, None)

    def create_masked_load(
        self, ptrs: Handle, mask: Handle, other: Handle, cache_policy: Any, is_volatile: Any
    ) -> Handle:
        return self._load(ptrs, mask, other, volatile=is_volatile)

    def _load(
        self, ptrs: Handle, mask: Handle | None, other: Handle | None, *, volatile: bool
    ) -> Handle:
        if volatile:
            raise NotBatchable("a volatile load watches other programs", always=True)
        element = ptrs.get_element_ty()
        kind = stock._get_np_dtype(element)
        keep, filler = (None if item is None else item.data for item in (mask, other))
        self.loads(keep)
        if other is None and keep is not None:
            self.undefined_lanes = self.undefined_lanes or not keep.all()
            filler = np.full((1,) * ptrs.data.ndim, self.undefined(element))
        return self.note_nans(make(self.memory.load(ptrs.data, keep, filler, kind), element))

    def create_masked_store(
        self, ptrs: Handle, value: Handle, mask: Handle, cache_policy: Any
    ) -> None:
        self._store(ptrs, value, mask)

    def _store(self, ptrs: Handle, value: Handle, mask: Handle | None) -> None:
        keep = None if mask is None else mask.data
        self.memory.store(ptrs.data, self.stored(value), keep, ptrs.get_element_ty())

    def create_atomic_rmw(
        self, op: Any, ptr: Handle, val: Handle, mask: Handle, sem: Any, scope: Any
    ) -> Handle:
        if scope == stock._ir.MEM_SYNC_SCOPE.CTA:
            raise NotBatchable("an atomic is one for each program alone", always=True)
        active = self.memory.active
        if active is None or ptr.data.shape[0] == 1:
            self.note_update(op, ptr.data, mask.data)
        else:
            own = mask.data[active] if mask.data.shape[0] > 1 else mask.data
            self.note_update(op, ptr.data[active], own)
        kind = val.dtype.scalar
        narrow = kind == tl.bfloat16
        rmw = None if narrow else self.ir_rmw_op_to_interpreter_rmw_op[op]
        combine = BF16_ATOMICS.get(op) if narrow else None
        if narrow and op != stock._ir.ATOMIC_OP.FADD:
            raise NotBatchable("this atomic on bf16 shows the programs' order", always=True)
        order = self.ir_sem_to_interpreter_sem[sem]
        old = self.memory.atomic(ptr.data, val.data, mask.data, kind, rmw, combine, order)
        return make(old, kind)

    def create_atomic_cas(
        self, ptr: Handle, cmp: Handle, val: Handle, sem: Any, scope: Any
    ) -> Handle:
        raise NotBatchable("compare-and-swap shows the programs' order", always=True)

    def create_atomic_load(self, *_: Any) -> Handle:
        raise NotBatchable("an atomic load watches other programs", always=True)

    def create_atomic_store(self, *_: Any) -> Handle:
        raise NotBatchable("an atomic store shows the programs' order", always=True)

    def create_atomic_poll(self, *_: Any) -> Handle:
        raise NotBatchable("an atomic poll waits for other programs", always=True)

    # descriptors

    def create_make_tensor_descriptor(
        self,
        base: Handle,
        shape: list[Handle],
        strides: list[Handle],
        tensor_shape: list[int],
        is_signed: bool,
        padding: Any = _PADDING.PAD_ZERO,
    ) -> Any:
        return Descriptor(base, shape, strides, list(tensor_shape), padding)

    def create_descriptor_load(
        self, desc: Descriptor, indices: list[Handle], *policy: Any
    ) -> Handle:
        element = desc.base.get_element_ty()
        kind = stock._get_np_dtype(element)
        self.note_copy(desc)
        pointers, mask = desc.pointers(indices)
        self.loads(mask)
        nan = desc.padding == _PADDING.PAD_NAN
        other = np.full((1,) * pointers.ndim, math.nan if nan else 0, dtype=kind)
        with self.through_descriptor():
            values = self.memory.load(pointers, mask, other, kind)
        if desc.round_f32_to_tf32 and element == tl.float32:
            values = stock._round_f32_to_tf32(values)
        return self.note_nans(make(values, element))

    def create_descriptor_store(
        self, desc: Descriptor, value: Handle, indices: list[Handle]
    ) -> None:
        pointers, mask = desc.pointers(indices)
        with self.through_descriptor():
            self.memory.store(pointers, self.stored(value), mask, desc.base.get_element_ty())

    def described_places(self, desc: Descriptor, indices: list[Handle]) -> tuple[Handle, Handle]:
        pointers, mask = desc.pointers(indices)
        return make(pointers, desc.base.dtype.scalar), make(mask, tl.int1)

    def create_descriptor_gather(self, *_: Any) -> Handle:
        raise NotBatchable("a descriptor's gather is interpreted row by row", always=True)

    def create_descriptor_scatter(self, *_: Any) -> None:
        raise NotBatchable("a descriptor's scatter is interpreted row by row", always=True)

    # block pointers, which only builders up to Triton 3.7 are asked for

    def create_make_block_ptr(
        self,
        base: Handle,
        shape: list[Handle],
        strides: list[Handle],
        offsets: list[Handle],
        block_shape: list[int],
        order: list[int],
    ) -> BlockPointer:
        return BlockPointer(base, shape, strides, offsets, block_shape)

    def create_advance(self, ptr: BlockPointer, offsets: list[Handle]) -> BlockPointer:
        return ptr.advanced(offsets)

    def create_tensor_pointer_load(
        self,
        ptr: BlockPointer,
        boundary_check: Sequence[int],
        padding: Any,
        cache_modifier: Any,
        eviction_policy: Any,
        is_volatile: bool,
    ) -> Handle:
        pointers, mask = ptr.pointers(boundary_check)
        other = None
        if padding is not None:
            element = pointers.get_element_ty()
            filler = math.nan if padding == _PADDING.PAD_NAN else 0
            kind = stock._get_np_dtype(element)
            other = make(np.full((1,) * pointers.data.ndim, filler, dtype=kind), element)
        return self._load(pointers, mask, other, volatile=is_volatile)

    def create_tensor_pointer_store(
        self,
        ptr: BlockPointer,
        value: Handle,
        boundary_check: Sequence[int],
        cache_modifier: Any,
        eviction_policy: Any,
    ) -> None:
        pointers, mask = ptr.pointers(boundary_check)
        self._store(pointers, value, mask)

    # what is said

    def create_print(self, *_: Any) -> None:
        raise NotBatchable("programs print one after the other", always=True)

    def create_assert(self, condition: Handle, message: str) -> None:
        self._require(condition, "an assertion fails in some program")

    def create_assume(self, condition: Handle) -> None:
        self._require(condition, "an assumption fails in some program")

    def _require(self, condition: Handle, why: str) -> None:
        data, active = condition.data, self.memory.active
        if active is not None and data.shape[0] > 1:
            data = data[active]
        if not data.all():
            raise NotBatchable(why)


def together(*arrays: Array) -> list[Array]:
    """With the same number of programs."""
    count = max(item.shape[0] for item in arrays)
    return [
        item if item.shape[0] == count else np.broadcast_to(item, (count, *item.shape[1:]))
        for item in arrays
    ]
