"""Loads, stores and atomics of a launch: what is counted and noted of them before `memory` does them."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as stock

from kernelagent.tools.virtual import triton_versions
from kernelagent.tools.virtual.arithmetic import numerics
from kernelagent.tools.virtual.arithmetic.elementwise import Handle, make
from kernelagent.tools.virtual.arithmetic.nans import canonical, has_one_nan
from kernelagent.tools.virtual.arithmetic.numerics import Array, has_nan
from kernelagent.tools.virtual.executor.launch import Unsupported
from kernelagent.tools.virtual.interpreter.memory import Memory, all_ones
from kernelagent.tools.virtual.operations.counting import CountingBuilder

_ir = stock._ir
_LEAST_EXCHANGED = 4
"""Bytes of the smallest number that an exchange takes."""
_FLOAT_SUM = "sum of floats"
_KIND_OF_UPDATE = {
    _ir.ATOMIC_OP.FADD: _FLOAT_SUM,
    _ir.ATOMIC_OP.UMAX: str(_ir.ATOMIC_OP.MAX),
    _ir.ATOMIC_OP.UMIN: str(_ir.ATOMIC_OP.MIN),
}
_UNDEFINED = 96.0
"""One of the values that a lane may hold which a load leaves undefined."""


def _atomic_of(kind: Any, element: Any) -> Any:
    """The atomic on single elements that a bulk reduction of this kind is made of."""
    name = kind.name
    if element.is_floating():
        if name != "ADD":
            raise Unsupported(
                f"a descriptor's atomic {name.lower()} of {element} cannot be executed"
            )
        return _ir.ATOMIC_OP.FADD
    unsigned = "U" if name in ("MAX", "MIN") and element.is_int_unsigned() else ""
    return getattr(_ir.ATOMIC_OP, unsigned + name)


@triton_versions.called_with_cache_policy
class AccessingBuilder(CountingBuilder):
    """Where operations on memory end; `memory` decides what an access does."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = Memory()
        self.numbers_in_lanes = self.undefined_lanes = False
        """Whether lanes that a load leaves undefined hold numbers in place of zeros; whether there were any."""
        self.foreign_nans = False
        """Whether this launch has met a NaN that no arithmetic of its own made, so that its bits may be handed on."""
        self.updates: dict[str, tuple[int, int]] = {}
        """By kind of atomic operation: the lowest and the highest address that it changed."""

    def note_nans(self, given: Handle) -> Handle:
        """What was loaded, written in the text or made of bits."""
        if not self.foreign_nans and has_one_nan(given.dtype.scalar):
            self.foreign_nans = has_nan(given.data)
        return given

    def stored(self, value: Handle) -> Array:
        """The numbers of a block with the NaN that a GPU would store: until others are met all are of arithmetic."""
        kind = value.dtype.scalar
        return value.data if self.foreign_nans else canonical(value.data, kind)

    def undefined(self, element: Any) -> Any:
        """What a lane holds that a load leaves undefined: zero, which Triton's code puts there before it loads.

        Nothing promises that zero, so that one call is made with another number.
        """
        kind = np.dtype(stock._get_np_dtype(element))
        if not self.numbers_in_lanes:
            return np.zeros(1, kind)[0]
        if not element.is_floating():
            return all_ones((1,), kind)[0]
        value = np.array([_UNDEFINED], np.float32)
        if numerics.is_convertible(element):
            return numerics.convert(value, tl.float32, element)[0]
        return value.astype(kind)[0]

    @property
    def float_sums(self) -> bool:
        """Whether atomics added up floating point numbers."""
        return _FLOAT_SUM in self.updates

    @property
    def mixes_updates(self) -> bool:
        """Whether atomics of different kinds changed the same places: which comes first decides."""
        ranges = sorted(self.updates.values())
        return any(low <= before for (_, before), (low, _) in itertools.pairwise(ranges))

    def note_update(self, op: Any, pointers: Array, mask: Array | None) -> None:
        where = pointers if mask is None else pointers[np.broadcast_to(mask, pointers.shape)]
        if where.size:
            kind = _KIND_OF_UPDATE.get(op, str(op))
            low, high = self.updates.get(kind, (1 << 64, 0))
            self.updates[kind] = min(low, int(where.min())), max(high, int(where.max()))

    def create_barrier(self) -> None:
        self.waits_at_barrier()
        self.flow.meets_barrier()
        self.memory.own.barrier()

    def create_masked_load(
        self, ptrs: Handle, mask: Handle, other: Handle, cache_policy: Any, is_volatile: Any
    ) -> Handle:
        element = ptrs.get_element_ty()
        kind = stock._get_np_dtype(element)
        self.loads(mask.data[None])
        if other is None:
            self.undefined_lanes |= not mask.data.all()
            filler = np.full(ptrs.data.shape, self.undefined(element))
        else:
            filler = other.data
        values = self.memory.load(ptrs.data, mask.data, filler, kind, volatile=bool(is_volatile))
        return self.note_nans(make(values, element))

    def create_descriptor_load(self, desc: Any, indices: list[Handle], *policy: Any) -> Handle:
        self.note_copy(desc)
        with self.through_descriptor():
            return super().create_descriptor_load(desc, indices, *policy)

    def create_descriptor_store(self, desc: Any, value: Handle, indices: list[Handle]) -> None:
        with self.through_descriptor():
            super().create_descriptor_store(desc, value, indices)

    def create_descriptor_reduce(
        self, kind: Any, desc: Any, value: Handle, indices: list[Handle]
    ) -> None:
        """An atomic on each element inside; nobody gets what was there before, and nothing is ordered by it."""
        pointers, mask = self.described_places(desc, indices)
        op = _atomic_of(kind, desc.base.get_element_ty())
        with self.through_descriptor():
            self.create_atomic_rmw(
                op, pointers, value, mask, _ir.MEM_SEMANTIC.RELAXED, _ir.MEM_SYNC_SCOPE.GPU
            )

    def described_places(self, desc: Any, indices: list[Handle]) -> tuple[Handle, Handle]:
        """Addresses, and which of them lie inside the tensor."""
        pointers: Handle
        mask: Handle
        pointers, mask = desc.materialize_pointers(indices)
        return pointers, mask

    @contextlib.contextmanager
    def through_descriptor(self) -> Iterator[None]:
        """Loads and stores inside are made through a tensor descriptor."""
        self.memory.through_descriptor = True
        try:
            yield
        finally:
            self.memory.through_descriptor = False

    def note_copy(self, desc: Any) -> None:
        """Count a load through a descriptor, which is what a bulk copy is made for."""
        if self.count is not None:
            item = desc.base.dtype.element_ty.primitive_bitwidth // 8
            self.step("copy")
            self.count("copied", item * math.prod(desc.block_shape) * self.programs_running(), "")

    def create_masked_store(
        self, ptrs: Handle, value: Handle, mask: Handle, cache_policy: Any
    ) -> None:
        self.memory.store(ptrs.data, self.stored(value), mask.data, ptrs.get_element_ty())

    def create_atomic_rmw(
        self, op: Any, ptr: Handle, val: Handle, mask: Handle, sem: Any, scope: Any
    ) -> Handle:
        kind = val.dtype.scalar
        order = self.ir_sem_to_interpreter_sem[sem]
        rmw = None if kind == tl.bfloat16 else self.ir_rmw_op_to_interpreter_rmw_op[op]
        combine = BF16_ATOMICS.get(op) if kind == tl.bfloat16 else None
        if rmw is None and combine is None:
            raise Unsupported(f"the atomic operation {op} on bf16 cannot be executed")
        self.note_update(op, ptr.data, mask.data)
        if scope == _ir.MEM_SYNC_SCOPE.CTA:
            self.memory.own_only(ptr.data, mask.data, val.data.dtype.itemsize)
        old = self.memory.atomic(ptr.data, val.data, mask.data, kind, rmw, combine, order)
        return make(old, kind)

    def create_atomic_cas(
        self, ptr: Handle, cmp: Handle, val: Handle, sem: Any, scope: Any
    ) -> Handle:
        order = self.ir_sem_to_interpreter_sem[sem]
        if scope == _ir.MEM_SYNC_SCOPE.CTA:
            everywhere = np.ones(ptr.data.shape, dtype=bool)
            self.memory.own_only(ptr.data, everywhere, val.data.dtype.itemsize)
        old = self.memory.compare_and_swap(ptr.data, cmp.data, val.data, order)
        return make(old, cmp.dtype.scalar)

    def create_atomic_load(self, ptr: Handle, mask: Handle, sem: Any, scope: Any) -> Handle:
        element = ptr.get_element_ty()
        self.undefined_lanes |= not mask.data.all()
        filler = np.full(ptr.data.shape, self.undefined(element))
        return self.note_nans(self._looked_at(ptr, mask.data, filler, sem, scope))

    def create_atomic_store(
        self, ptr: Handle, val: Handle, mask: Handle, sem: Any, scope: Any
    ) -> None:
        """As an exchange whose result nobody looks at; of fewer than 32 bits, which no exchange has, as a store."""
        if scope == _ir.MEM_SYNC_SCOPE.CTA or val.data.dtype.itemsize < _LEAST_EXCHANGED:
            self.memory.store(ptr.data, self.stored(val), mask.data, ptr.get_element_ty())
            return
        order, exchange = self.ir_sem_to_interpreter_sem[sem], _ir.ATOMIC_OP.XCHG
        rmw = self.ir_rmw_op_to_interpreter_rmw_op[exchange]
        self.note_update(exchange, ptr.data, mask.data)
        self.memory.atomic(ptr.data, val.data, mask.data, val.dtype.scalar, rmw, None, order)

    def create_atomic_poll(
        self, ptr: Handle, expected: Handle, timeout: Any, sem: Any, scope: Any
    ) -> Handle:
        if isinstance(timeout, stock.TensorHandle):
            raise Unsupported(
                "tl.atomic_poll with timeout_ns cannot be executed on the virtual device, which has no such time; "
                "wait without one, or evaluate with --device cuda"
            )
        everywhere = np.ones(ptr.data.shape, dtype=bool)
        while True:
            looked = self._looked_at(ptr, everywhere, np.zeros_like(expected.data), sem, scope)
            # Where nothing is stored, nobody would ever end the waiting.
            if (looked.data == expected.data).all() or self.memory.mode == "suppress":
                return make(everywhere, tl.int1)

    def _looked_at(self, ptr: Handle, mask: Array, other: Array, sem: Any, scope: Any) -> Handle:
        """What an atomic load finds; within its program alone it is a load to the others."""
        element = ptr.get_element_ty()
        kind = stock._get_np_dtype(element)
        self.step("load")
        if scope == _ir.MEM_SYNC_SCOPE.CTA:
            return make(self.memory.load(ptr.data, mask, other, kind), element)
        order = self.ir_sem_to_interpreter_sem[sem]
        return make(self.memory.atomic_load(ptr.data, mask, other, kind, order), element)


def exchanged(_: Array, new: Array) -> Array:
    """Of what is there and what comes, the latter."""
    return new


BF16_ATOMICS: dict[Any, Callable[[Array, Array], Array]] = {
    _ir.ATOMIC_OP.FADD: np.add,
    _ir.ATOMIC_OP.MAX: np.fmax,
    _ir.ATOMIC_OP.MIN: np.fmin,
    _ir.ATOMIC_OP.XCHG: exchanged,
}
