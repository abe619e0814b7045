"""Triton's numpy builder with its arithmetic repaired: every operation rounds as the GPU rounds."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter as stock

from kernelagent.tools.virtual import triton_versions
from kernelagent.tools.virtual.arithmetic import libdevice, numerics
from kernelagent.tools.virtual.arithmetic.approximating import approximating
from kernelagent.tools.virtual.arithmetic.elementwise import (
    Handle,
    flushed,
    larger,
    larger_or_nan,
    make,
    reciprocal_root,
    remainder,
    smaller,
    smaller_or_nan,
)
from kernelagent.tools.virtual.arithmetic.fusing import carrying_products, fused
from kernelagent.tools.virtual.arithmetic.nans import (
    canonical,
    has_nan,
    has_one_nan,
    with_a_gpus_nans,
)
from kernelagent.tools.virtual.arithmetic.numerics import Array
from kernelagent.tools.virtual.arithmetic.products import (
    INPUT,
    dot_name,
    in_halves,
    matrix_product,
    operand_name,
)
from kernelagent.tools.virtual.arithmetic.shifts import undefined_beyond
from kernelagent.tools.virtual.compiled.code_regions import Pass, Regions, Side
from kernelagent.tools.virtual.cost.bank_conflicts import BankConflicts
from kernelagent.tools.virtual.cost.dataflow import (
    CLOCKS_AT_BARRIER,
    CLOCKS_OF_LANES,
    EXCHANGE_CLOCKS,
    Dataflow,
    is_loaded,
)
from kernelagent.tools.virtual.cost.divisions import Divisions
from kernelagent.tools.virtual.cost.function_costs import fp64_beyond_special, instructions_of
from kernelagent.tools.virtual.cost.splitting import SPLITTING
from kernelagent.tools.virtual.device.addresses import Pointee, translated
from kernelagent.tools.virtual.executor.launch import MemoryFault, OperationKind
from kernelagent.tools.virtual.interpreter.hints import Hints
from kernelagent.tools.virtual.interpreter.memory import Memory, all_ones
from kernelagent.tools.virtual.kernel_text.choices import Choice, Choices
from kernelagent.tools.virtual.kernel_text.joined import following_joins

_ir = stock._ir
_CUDA_PRECISIONS = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")


@dataclass(frozen=True)
class _Options(stock.InterpreterOptions):  # type: ignore[misc]
    """With what `num_warps()` and `num_threads()` of `triton.language.extra.cuda` ask for."""

    debug: bool = False
    sanitize_overflow: bool = True
    num_warps: int = 4


_OPTIONS = _Options(sanitize_overflow=False, allowed_dot_input_precisions=_CUDA_PRECISIONS)
_CHECKING = replace(_OPTIONS, debug=True)
_CHECKING_OVERFLOW = replace(_CHECKING, sanitize_overflow=True)
_WIDENED = frozenset({tl.bfloat16, *numerics.FP8})
"""Formats whose arithmetic is done in fp32 and then rounded."""


_HALVES = 2
"""Instructions of any other operation on 64-bit integers: one for each half (`nvdisasm` shows two to six for sm_90)."""
_LEAST_EXCHANGED = 4
"""Bytes of the smallest number that an exchange takes."""
_LOGIC = frozenset({np.bitwise_and, np.bitwise_or, np.bitwise_xor})
_LONG_PRODUCT = 3
"""Instructions of a 64-bit integer product: three of 32 bits, the upper halves' product left out."""
_SLOTS_OF_SINE = 3
"""Extra time slots of the special-function unit for one sine or cosine: about 30 floating point instructions where
arguments are small (assumption; `nvdisasm` shows 120 for sm_90, those for large arguments included). Eight of them take as
long as one special-function instruction, so that it needs about four slots: the first and three more."""
_SLOTS_OF_LARGE_SINE = 12
"""The same for an argument beyond `_LARGE`: more than 90 further instructions, a loop through local memory among them
(`nvdisasm` shows 120 for sm_90 in all)."""
_LARGE = 105615.0
"""From here on sine and cosine reduce their argument by a product with 2/pi in 192 bits (`__nv_sinf`)."""
_CONVERSIONS_AT_ONCE = 4
"""Of integers up to 32 bits to floats or back in the time of one to or from 64 bits: 64 and 16 a clock on 9.0 (CUDA C++
Programming Guide, throughput of arithmetic instructions). Of 8.6, 8.9 and 12.0, which convert 64 bits slower, this is too fast."""
_FLOAT_SUM = "sum of floats"
_KIND_OF_UPDATE = {
    _ir.ATOMIC_OP.FADD: _FLOAT_SUM,
    _ir.ATOMIC_OP.UMAX: str(_ir.ATOMIC_OP.MAX),
    _ir.ATOMIC_OP.UMIN: str(_ir.ATOMIC_OP.MIN),
}
_UNDEFINED = 96.0
"""One of the values that a lane may hold which a load leaves undefined."""
_VECTOR = 64
"""At least the lanes of the widest vector instruction, unrolled."""


class Unsupported(Exception):
    """Compiles for the target, and cannot be interpreted."""


@following_joins
@with_a_gpus_nans
@approximating
@carrying_products
@triton_versions.called_with_cache_policy
class RepairedBuilder(triton_versions.InterpreterBuilder):  # type: ignore[misc]
    """What the rewritten kernel's operations end in; `memory` decides what an access does."""

    def __init__(self) -> None:
        super().__init__()
        self.options = _OPTIONS
        self.memory = Memory()
        self.count: Callable[[OperationKind, int, str], None] | None = None
        self.threads = 1
        """Of each program of this launch."""
        self.grid_dim = self.grid_idx = (0, 0, 0)
        self.pointees: tuple[Pointee, ...] = ()
        """What integers that become pointers may point at."""
        self.hints = Hints()
        self.numbers_in_lanes = self.undefined_lanes = False
        """Whether lanes that a load leaves undefined hold numbers in place of zeros; whether there were any."""
        self.addresses_as_numbers = False
        """Whether a pointer was made a number, which is another one on each machine and in each run."""
        self.fuses = False
        """Whether a product that is added to something is rounded with the sum only, as in a machine's `fma`."""
        self.foreign_nans = False
        """Whether this launch has met a NaN that no arithmetic of its own made, so that its bits may be handed on."""
        self.approximates: int | None = None
        """Not None: what a GPU approximates is off by a last place here and there, as this number decides."""
        self.choices: Choices | None = None
        """Where conditions are noted; None: nowhere."""
        self.regions = Regions()
        """What passes through the compiled kernel's parts take."""
        self._regions_met: dict[tuple[int, int, Side], Pass] = {}
        self.flow = Dataflow(self)
        """When each value can be there; followed where operations are counted."""
        self._divisions = Divisions()
        self._conflicts = BankConflicts()
        self.updates: dict[str, tuple[int, int]] = {}
        """By kind of atomic operation: the lowest and the highest address that it changed."""

    def create_ptr_to_int(self, val: Any, dst_ty: Any) -> Any:
        self.addresses_as_numbers = True
        return self.create_bitcast(val, dst_ty)

    def compiled_with(self, *, debug: bool, overflow: bool, warps: int) -> None:
        """The next launches' options; `tl.device_assert` is compiled in with `debug`, as Triton has it.

        `overflow`: then so is one for each sum, difference and product of integers below 64 bits, unless the option
        `sanitize_overflow` is switched off (triton/language/semantic.py, `binary_op_sanitize_overflow_impl`).
        """
        checking = _CHECKING_OVERFLOW if overflow else _CHECKING
        self.options = replace(checking if debug else _OPTIONS, num_warps=warps)

    def note_nans(self, given: Handle) -> Handle:
        """What was loaded, written in the text or made of bits."""
        if not self.foreign_nans and has_one_nan(given.dtype.scalar):
            self.foreign_nans = has_nan(given.data)
        return given

    def stored(self, value: Handle) -> Array:
        """The numbers of a block with the NaN that a GPU would store: until others are met all are of arithmetic."""
        kind = value.dtype.scalar
        return value.data if self.foreign_nans else canonical(value.data, kind)

    def lanes(self, data: Array) -> int:
        """How many values of this launch's programs an array stands for."""
        return int(data.size)

    def issued(self, data: Array, kind: Any) -> int:
        """How many lanes an operation takes: every thread repeats what is one number for the whole program.

        Integers that are the same in all threads have a unit of their own; a block of fewer lanes than threads does not.
        """
        lanes, programs = self.lanes(data), self.programs_running()
        one_number = lanes <= programs and not kind.is_floating()
        return lanes if one_number else max(lanes, self.threads * programs)

    def counted(self, kind: OperationKind, size: int, dtype: str) -> None:
        """Count operations of the programs that run, of each of them as many."""
        if self.count is not None:
            self.count(kind, size, dtype)
            self.flow.worked(kind, size / max(1, self.programs_running()), dtype)

    def running(self, data: Array) -> Array:
        """An array's values of the programs that run, as (programs, *shape)."""
        return data[None]

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

    def programs_running(self) -> int:
        """How many programs do what is done now."""
        return 1

    @property
    def active(self) -> Array | None:
        """Which of the programs that are interpreted together run now; None: all."""
        return None

    def run_as_compiled(self, regions: Regions) -> None:
        """What the code of the next launches takes."""
        self.regions, self._regions_met = regions, {}
        self.flow.launch_begins()

    def goes_round_by(self, *handles: Handle) -> None:
        """How often a loop runs depends on these."""
        self.flow.waits_for(*handles)
        if self.count is not None and is_loaded(*handles):
            self.count("by_values", self.programs_running(), "")

    def begins(self) -> None:
        """Some programs begin, together."""
        self.flow.begins()
        self._take(self.regions.outside)

    def passed(self, first: int, last: int, side: Side) -> None:
        """The programs that run now begin a part of the kernel's text."""
        if self.count is None:
            return
        place = first, last, side
        taken = self._regions_met.get(place)
        if taken is None:
            taken = self._regions_met[place] = self.regions.at(first, last, side)
        if taken:
            self._take(taken)

    def _take(self, taken: Pass) -> None:
        if self.count is None:
            return
        programs, issued = self.programs_running(), 0.0
        for kind, number in taken.items():
            self.count(kind, number * programs, "")
            issued += CLOCKS_OF_LANES.get(kind, 0) * number
            self.flow.stepped(kind, number)
        if issued:
            self.flow.stepped("issued", issued)

    def count_chains(self, programs: int) -> None:
        """Some programs have ended: count what they had to do one after another."""
        if self.count is not None:
            together, most = self.flow.ends(programs)
            self.count("chain", together, "")
            for kind, number in most.items():
                self.count("longest", number, kind)

    def step(self, kind: OperationKind) -> None:
        """Count one step of each program that does it."""
        if self.count is not None:
            self.count(kind, self.programs_running(), "")
            self.flow.stepped(kind)

    def waits_at_barrier(self) -> None:
        """Count a barrier, which takes a multiprocessor the longer the more warps come to it."""
        self.step("exchange")
        beyond = CLOCKS_AT_BARRIER * int(self.options.num_warps) - EXCHANGE_CLOCKS
        if self.count is not None and beyond > 0:
            self.count("shared", beyond * self.programs_running(), "")
            self.flow.stepped("shared", beyond)

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

    def chosen(self, choice: Choice, data: Array) -> None:
        """Note which way a condition came out, in the lanes of the programs that run."""
        choices = self.choices
        if choices is None or data.dtype != np.bool_ or choices.came_out_both_ways(choice):
            return
        held = self.running(data)
        choices.note(choice, holds=bool(held.any()), fails=not bool(held.all()))

    def create_grid_dependency_wait(self) -> None:
        """Nothing: launches follow one another here, and one with `launch_pdl` is refused before."""

    def create_grid_dependency_launch_dependents(self) -> None:
        """Nothing, as above."""

    def create_barrier(self) -> None:
        self.waits_at_barrier()
        self.flow.meets_barrier()
        self.memory.own.barrier()

    def binary_op(self, lhs: Handle, rhs: Handle, op: Any) -> Handle:
        kind, left, right = lhs.dtype.scalar, lhs.data, rhs.data
        if self.count is not None:
            size = max(self.issued(left, kind), self.issued(right, kind))
            long = kind.is_int() and kind.primitive_bitwidth == 64
            times = (_LONG_PRODUCT if op is np.multiply else _HALVES) if long else 1
            name = operand_name(kind)
            self.counted("fp" if kind.is_floating() else "int", times * size, name)
            if op is np.divide or op is remainder:
                self.counted("slot", size, name)
        if self.fuses:
            result = fused(lhs, rhs, op)
            if result is not None:
                return result
        if op in _LOGIC and left.dtype == right.dtype == np.bool_:
            return make(op(left, right), tl.int1)
        if left.dtype == np.bool_:
            # int1 is a one-bit integer that wraps around; numpy's booleans saturate.
            out = op(left.astype(np.int8), right.astype(np.int8))
            return make(out.astype(np.bool_) if out.dtype == np.bool_ else out & 1 != 0, tl.int1)
        if kind in _WIDENED:
            out = op(numerics.to_fp32(left, kind), numerics.to_fp32(right, kind))
            if out.dtype != np.bool_:
                return make(numerics.convert(out, tl.float32, kind), kind)
        else:
            out = op(left, right)
        if out.dtype == np.bool_:
            return make(out, tl.int1)
        if out.dtype.itemsize > left.dtype.itemsize:
            out = out.astype(left.dtype)
        return make(out, kind)

    def create_addptr(self, ptr: Handle, offset: Handle) -> Handle:
        # Stock Triton's, with one array made instead of three: blocks of pointers are the largest there are.
        away = offset.data.astype(np.uint64)
        away *= np.uint64(max(1, ptr.get_element_ty().primitive_bitwidth // 8))
        fits = np.broadcast_shapes(ptr.data.shape, away.shape) == away.shape
        return make(np.add(ptr.data, away, out=away if fits else None), ptr.dtype)

    def create_frem(self, lhs: Handle, rhs: Handle) -> Handle:
        # As the compiler has it for a GPU: not exact where the quotient is large.
        return self.binary_op(lhs, rhs, remainder)

    def create_maximumf(self, lhs: Handle, rhs: Handle) -> Handle:
        return self.binary_op(lhs, rhs, larger_or_nan)

    def create_maxnumf(self, lhs: Handle, rhs: Handle) -> Handle:
        return self.binary_op(lhs, rhs, larger)

    def create_minimumf(self, lhs: Handle, rhs: Handle) -> Handle:
        return self.binary_op(lhs, rhs, smaller_or_nan)

    def create_minnumf(self, lhs: Handle, rhs: Handle) -> Handle:
        return self.binary_op(lhs, rhs, smaller)

    def create_idiv(self, lhs: Handle, rhs: Handle) -> Handle:
        return self._divided(super().create_idiv, lhs, rhs)

    def create_srem(self, lhs: Handle, rhs: Handle) -> Handle:
        return self._divided(super().create_srem, lhs, rhs)

    def create_urem(self, lhs: Handle, rhs: Handle) -> Handle:
        return self._divided(super().create_urem, lhs, rhs)

    def create_shl(self, lhs: Handle, rhs: Handle) -> Handle:
        return undefined_beyond(super().create_shl(lhs, rhs), lhs, rhs)

    def create_lshr(self, lhs: Handle, rhs: Handle) -> Handle:
        return undefined_beyond(super().create_lshr(lhs, rhs), lhs, rhs)

    def create_ashr(self, lhs: Handle, rhs: Handle) -> Handle:
        return undefined_beyond(super().create_ashr(lhs, rhs), lhs, rhs)

    def _divided(self, divide: Callable[..., Handle], lhs: Handle, rhs: Handle) -> Handle:
        """Divided by zero an integer has all bits set on a GPU, and so has what remains of it."""
        kind = lhs.dtype.scalar
        if self.count is not None:
            size = max(self.lanes(lhs.data), self.lanes(rhs.data))
            # No unit of its own does it for all threads: each of them repeats what is one number for the program.
            size = max(size, self.threads * self.programs_running())
            self.counted("int", self._divisions.instructions(lhs, rhs) * size, operand_name(kind))
        result, zero = divide(lhs, rhs), rhs.data == 0
        if zero.any():
            result.data = np.where(zero, np.array(-1).astype(result.data.dtype), result.data)
        return result

    def require_inside(self, src: Handle, indices: Handle, axis: int) -> None:
        """Raises `MemoryFault` for a gather that reaches out of its block, of the programs that run."""
        at, size = self.running(indices.data), src.data.shape[axis]
        if at.size and (int(at.min()) < 0 or int(at.max()) >= size):
            raise MemoryFault(
                "out_of_bounds",
                f"tl.gather with indices from {int(at.min())} to {int(at.max())}, of a block with {size} "
                f"elements along that axis: what it reads then is undefined; clamp the indices first",
                {"size": size},
            )

    def create_gather(self, src: Handle, indices: Handle, axis: int) -> Handle:
        self.require_inside(src, indices, axis)
        self.gathers(indices.data[None], src, axis)
        return super().create_gather(src, indices, axis)

    def gathers(self, indices: Array, src: Handle, axis: int) -> None:
        """Count a gather; `indices`: (programs, *shape), `axis`: of that shape."""
        self.step("exchange")
        if self.count is None or not self.regions.gathers_in_shared:
            return
        shape = src.data.shape[src.data.ndim + 1 - indices.ndim :]
        clocks = round(self._conflicts.clocks(indices, shape, axis, src.data.itemsize))
        self.count("shared", clocks * self.programs_running(), "")
        self.flow.stepped("shared", clocks)

    def require_bins(self, data: Handle, bins: int, mask: Handle | None) -> None:
        """Raises `MemoryFault` for numbers without a bin, of the programs that run."""
        values = data.data if mask is None else np.where(mask.data, data.data, 0)
        held = self.running(values)
        if held.size and (int(held.min()) < 0 or int(held.max()) >= bins):
            raise MemoryFault(
                "out_of_bounds",
                f"tl.histogram with numbers from {int(held.min())} to {int(held.max())} and {bins} bins: where "
                f"those without a bin count is undefined; leave them out by mask=",
                {"bins": bins},
            )

    def create_histogram(self, data: Handle, bins: int, mask: Handle | None) -> Handle:
        self.require_bins(data, bins, mask)
        self.step("exchange")
        return super().create_histogram(data, bins, mask)

    def unary_op(self, arg: Handle, op: Any) -> Handle:
        kind = arg.dtype.scalar
        if self.count is not None:
            simple = op in (np.negative, np.abs, np.floor, np.ceil)
            size = self.issued(arg.data, kind)
            name = operand_name(kind)
            self.counted("fp" if simple else "special", size, name)
            if op in (np.sin, np.cos):
                large = self.running(np.abs(arg.data) > _LARGE)
                share = float(large.mean()) if large.size else 0.0
                slots = _SLOTS_OF_SINE + share * _SLOTS_OF_LARGE_SINE
                self.counted("slot", round(slots * size), name)
        if kind == tl.bfloat16:
            return make(numerics.fp32_to_bf16(op(numerics.bf16_to_fp32(arg.data))), kind)
        return super().unary_op(arg, op)

    def ternary_op(self, lhs: Handle, rhs: Handle, other: Handle, op: Any) -> Handle:
        kind = other.dtype.scalar
        if self.count is not None:
            self.counted(
                "fp" if kind.is_floating() else "int",
                self.issued(other.data, kind),
                operand_name(kind),
            )
        if kind == tl.bfloat16 and op is not np.where:
            values = (numerics.bf16_to_fp32(side.data) for side in (lhs, rhs, other))
            return make(numerics.fp32_to_bf16(op(*values)), kind)
        return super().ternary_op(lhs, rhs, other, op)

    def create_sqrt(self, arg: Handle) -> Handle:
        return self.unary_op(flushed(arg), np.sqrt)

    def create_rsqrt(self, arg: Handle) -> Handle:
        return self.unary_op(flushed(arg), reciprocal_root)

    def create_exp2(self, arg: Handle) -> Handle:
        return flushed(self.unary_op(arg, np.exp2))

    def create_floor(self, arg: Handle) -> Handle:
        return self.unary_op(flushed(arg), np.floor)

    def create_ceil(self, arg: Handle) -> Handle:
        return self.unary_op(flushed(arg), np.ceil)

    def create_fma(self, x: Handle, y: Handle, z: Handle) -> Handle:
        kind = z.dtype.scalar
        if self.count is not None:
            self.counted("fp", 2 * self.issued(z.data, kind), operand_name(kind))
        if kind == tl.bfloat16:
            a, b, c = (numerics.bf16_to_fp32(side.data).astype(np.float64) for side in (x, y, z))
            return make(numerics.fp32_to_bf16((a * b + c).astype(np.float32)), kind)
        return super().create_fma(x, y, z)

    def create_sin(self, arg: Handle) -> Handle:
        return self.unary_op(flushed(arg), np.sin)

    def create_erf(self, arg: Handle) -> Handle:
        return self._through_torch(torch.erf, (flushed(arg),), arg.dtype.scalar)

    def create_extern_elementwise(
        self, library: str, path: str, symbol: str, args: list[Handle], ret: Any, pure: bool
    ) -> Handle:
        function, flushing = libdevice.function_for(symbol), libdevice.flushing_of(symbol)
        kind = args[0].dtype.scalar if args else tl.int32
        if kind.is_floating() and self.count is not None:
            size = max(self.issued(arg.data, kind) for arg in args)
            wide = kind == tl.float64
            times = fp64_beyond_special(symbol) if wide else instructions_of(symbol)
            self.counted("fp", times * size, "fp64" if wide else "fp32")
        given = tuple(map(flushed, args)) if flushing.arguments else tuple(args)
        result = self._through_torch(function, given, ret.scalar)
        return flushed(result) if flushing.result else result

    def create_inline_asm(self, *_: Any) -> Handle:
        raise Unsupported(
            "inline assembly compiles but cannot be executed on the virtual device; write the "
            "operation with triton.language, or evaluate with --device cuda"
        )

    def _through_torch(
        self, function: Callable[..., torch.Tensor], args: tuple[Handle, ...], kind: Any
    ) -> Handle:
        if self.count is not None:
            given = args[0].dtype.scalar
            size = self.issued(args[0].data, given)
            self.counted("special", size, operand_name(args[0].dtype))
        data = np.broadcast_arrays(*(arg.data for arg in args))
        shape, size = data[0].shape, data[0].size
        values = (
            numerics.as_torch(_padded(item), arg.dtype.scalar)
            for item, arg in zip(data, args, strict=True)
        )
        result = function(*values).numpy()[:size].reshape(shape)
        return make(result.astype(stock._get_np_dtype(kind), copy=False), kind)

    # casts

    def cast_impl(self, src: Handle, dst_type: Any) -> Handle:
        source, destination = src.dtype.scalar, dst_type.scalar
        if source == destination:
            return src
        self._count_conversion(src, destination)
        if numerics.is_convertible(source) and numerics.is_convertible(destination):
            return make(numerics.convert(src.data, source, destination), destination)
        if source == tl.bfloat16 or source in numerics.FP8:
            src = make(numerics.to_fp32(src.data, source), tl.float32)
        elif destination == tl.bfloat16 or destination in numerics.FP8:
            values = src.data.astype(np.float32)
            return make(numerics.convert(values, tl.float32, destination), destination)
        return super().cast_impl(src, dst_type)

    def _count_conversion(self, src: Handle, destination: Any) -> None:
        """Between integers and floats, and to and from fp64: the special units do it; between others an instruction."""
        kinds = (src.dtype.scalar, destination)
        if self.count is None or not any(kind.is_floating() for kind in kinds):
            return
        lanes = self.lanes(src.data)
        if lanes <= self.programs_running():
            # One number for the whole program: once in each warp, or before the loop.
            return
        if any(kind.primitive_bitwidth == 64 for kind in kinds):
            self.counted("slot", lanes, "fp32")
        elif any(kind.is_int() and kind.primitive_bitwidth > 1 for kind in kinds):
            self.counted("slot", -(-lanes // _CONVERSIONS_AT_ONCE), "fp32")
        elif all(kind.is_floating() for kind in kinds):
            self.counted("fp", self.issued(src.data, tl.float32), "fp32")

    def create_bitcast(self, src: Handle, dst_type: Any) -> Handle:
        kind = src.dtype.scalar
        native = None if kind.is_ptr() else _NAN_OF_X86.get(kind)
        if native is not None and dst_type.scalar.is_int():
            ours, gpus = native
            bits = src.data.view(ours.dtype)
            made = bits == ours
            if made.any():
                return super().create_bitcast(
                    make(np.where(made, gpus, bits), src.dtype.scalar), dst_type
                )
        return self.note_nans(super().create_bitcast(src, dst_type))

    def create_fp_to_si(self, src: Handle, dst_type: Any) -> Handle:
        return self._fp_to_int(src, dst_type)

    def create_fp_to_ui(self, src: Handle, dst_type: Any) -> Handle:
        return self._fp_to_int(src, dst_type)

    def _fp_to_int(self, src: Handle, dst_type: Any) -> Handle:
        """Beyond the integers of 16, 32 or 64 bits a GPU gives the nearest of them, and 0 for NaN (`cvt.rzi`)."""
        wanted = np.dtype(stock._get_np_dtype(dst_type))
        if wanted.kind not in "iu":
            return self.cast_impl(src, dst_type)
        self._count_conversion(src, dst_type.scalar)
        kind = src.dtype.scalar
        values = src.data if kind in (tl.float32, tl.float64) else numerics.to_fp32(src.data, kind)
        # Those of 8 bits are cut out of 16.
        wide = wanted if wanted.itemsize >= 2 else np.dtype(f"{wanted.kind}2")
        limits = np.iinfo(wide)
        exact = np.trunc(np.nan_to_num(values.astype(np.float64), nan=0.0))
        low, high = exact <= float(limits.min), exact >= float(limits.max)
        result = np.where(low | high, 0.0, exact).astype(wide)
        result = np.where(high, limits.max, np.where(low, limits.min, result)).astype(wide)
        return make(result.astype(wanted), dst_type.scalar)

    def create_int_to_ptr(self, src: Handle, dst_type: Any) -> Handle:
        addresses = src.data.astype(np.uint64)
        return make(translated(addresses, self.pointees), dst_type.scalar)

    def create_fp_to_fp(self, src: Handle, dst_type: Any, rounding_mode: Any) -> Handle:
        nearest = rounding_mode is None or rounding_mode == _ir.ROUNDING_MODE.RTNE
        both = numerics.is_convertible(src.dtype.scalar) and numerics.is_convertible(
            dst_type.scalar
        )
        if nearest and both:
            return self.cast_impl(src, dst_type)
        return super().create_fp_to_fp(src, dst_type, rounding_mode)

    def create_reshape(self, arg: Handle, shape: Any, allow_reorder: bool) -> Handle:
        flat = arg.data.reshape(1, -1)
        flat = reordered(flat) if allow_reorder else flat
        return make(flat.reshape(shape), arg.dtype.scalar)

    def create_cat(self, lhs: Handle, rhs: Handle) -> Handle:
        """`can_reorder`: each thread puts its own elements of both together, so that they take turns."""
        return make(np.stack([lhs.data, rhs.data], axis=1).reshape(-1), lhs.dtype.scalar)

    # matrix products

    def create_dot(
        self, a: Handle, b: Handle, d: Handle, input_precision: Any, max_num_imprecise_acc: Any
    ) -> Handle:
        kind, out = a.dtype.scalar, d.dtype.scalar
        rounded = kind == tl.float32 and input_precision == INPUT.TF32
        if self.count is not None:
            name = dot_name(kind, input_precision)
            elements, cols = self.lanes(a.data), b.data.shape[-1]
            self.counted("dot", 2 * elements * cols, name)
            if name in SPLITTING:
                rows, inner = a.data.shape[-2:]
                factors = elements + elements // rows * cols
                self.count("split", SPLITTING[name].slots(factors, elements // inner * cols), name)
        if not kind.is_floating():
            return make(np.matmul(a.data, b.data, dtype=d.data.dtype) + d.data, out)
        if kind == tl.float64:
            return make(np.matmul(a.data, b.data) + d.data, out)
        left = numerics.to_fp32(a.data, kind)
        right = numerics.to_fp32(b.data, b.dtype.scalar)
        if out == tl.float16:
            return make(in_halves(left, right, d.data, kind), out)
        product = matrix_product(
            left, right, input_precision, rounded=rounded, exact=kind != tl.float32
        )
        total = product + numerics.to_fp32(d.data, out)
        return make(numerics.convert(total, tl.float32, out), out)

    # memory

    def create_masked_load(
        self, ptrs: Handle, mask: Handle, other: Handle, cache_policy: Any, is_volatile: Any
    ) -> Handle:
        element = ptrs.get_element_ty()
        kind = stock._get_np_dtype(element)
        self.step("load")
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


_NAN_OF_X86: dict[Any, tuple[Any, Any]] = {
    tl.float32: (np.uint32(0xFFC00000), np.uint32(0x7FFFFFFF)),
    tl.float16: (np.uint16(0xFE00), np.uint16(0x7FFF)),
}
"""What 0/0 is here, as bits, and what it is on a GPU."""


def reordered(rows: Array) -> Array:
    """`can_reorder`: each thread keeps its own elements, so that neighbours do not stay neighbours."""
    return np.concatenate([rows[:, ::2], rows[:, 1::2]], axis=1)


def exchanged(_: Array, new: Array) -> Array:
    """Of what is there and what comes, the latter."""
    return new


BF16_ATOMICS: dict[Any, Callable[[Array, Array], Array]] = {
    _ir.ATOMIC_OP.FADD: np.add,
    _ir.ATOMIC_OP.MAX: np.fmax,
    _ir.ATOMIC_OP.MIN: np.fmin,
    _ir.ATOMIC_OP.XCHG: exchanged,
}


def _padded(data: Array) -> Array:
    """Flat, in whole vectors: torch computes what is left of the last one by other means."""
    flat = data.reshape(-1)
    missing = -flat.size % _VECTOR
    return np.concatenate((flat, np.ones(missing, flat.dtype))) if missing else flat
