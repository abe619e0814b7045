"""Triton's numpy builder with its arithmetic repaired: every operation rounds as the GPU rounds."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter as stock

from kernelagent.tools.virtual.arithmetic import assembly, libdevice, numerics, scaled
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
from kernelagent.tools.virtual.arithmetic.nans import with_a_gpus_nans
from kernelagent.tools.virtual.arithmetic.numerics import Array
from kernelagent.tools.virtual.arithmetic.products import (
    INPUT,
    dot_name,
    in_halves,
    matrix_product,
    operand_name,
)
from kernelagent.tools.virtual.arithmetic.shifts import undefined_beyond
from kernelagent.tools.virtual.cost.divisions import Divisions
from kernelagent.tools.virtual.cost.function_costs import fp64_beyond_special, instructions_of
from kernelagent.tools.virtual.cost.splitting import SPLITTING
from kernelagent.tools.virtual.executor.launch import Unsupported
from kernelagent.tools.virtual.interpreter.hints import Hints
from kernelagent.tools.virtual.kernel_text.choices import Choice, Choices
from kernelagent.tools.virtual.kernel_text.joined import following_joins
from kernelagent.tools.virtual.kernel_text.omissions import Omitting
from kernelagent.tools.virtual.operations.between_lanes import RearrangingBuilder

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
_VECTOR = 64
"""At least the lanes of the widest vector instruction, unrolled."""


@following_joins
@with_a_gpus_nans
@approximating
@carrying_products
class RepairedBuilder(RearrangingBuilder):
    """What the rewritten kernel's operations end in; `memory` decides what an access does."""

    def __init__(self) -> None:
        super().__init__()
        self.options = _OPTIONS
        self.grid_dim = self.grid_idx = (0, 0, 0)
        self.hints = Hints()
        self.fuses = False
        """Whether a product that is added to something is rounded with the sum only, as in a machine's `fma`."""
        self.approximates: int | None = None
        """Not None: what a GPU approximates is off by a last place here and there, as this number decides."""
        self.multiplies = True
        """Whether products have their values; otherwise they are counted only, and what they are added to stays as it is."""
        self.choices: Choices | None = None
        """Where conditions are noted; None: nowhere."""
        self.omitting: Omitting | None = None
        """What is known of parts that the next launches can be run without; None: they have all of theirs."""
        self.decides: Callable[[Array], Any] | None = None
        """In a function of single numbers that is given many: the one by which it decides; None: elsewhere."""
        self._divisions = Divisions()

    def compiled_with(self, *, debug: bool, overflow: bool, warps: int) -> None:
        """The next launches' options; `tl.device_assert` is compiled in with `debug`, as Triton has it.

        `overflow`: then so is one for each sum, difference and product of integers below 64 bits, unless the option
        `sanitize_overflow` is switched off (triton/language/semantic.py, `binary_op_sanitize_overflow_impl`).
        """
        checking = _CHECKING_OVERFLOW if overflow else _CHECKING
        self.options = replace(checking if debug else _OPTIONS, num_warps=warps)

    @contextlib.contextmanager
    def unheard(self) -> Iterator[None]:
        """Nobody hears of what is done inside."""
        memory, flow = self.memory, self.flow
        kept = self.count, self.choices, memory.observers, memory.own.watched, flow.on
        self.count, self.choices, memory.observers, memory.own.watched = None, None, (), False
        flow.on = False
        try:
            yield
        finally:
            self.count, self.choices, memory.observers, memory.own.watched, flow.on = kept

    def chosen(self, choice: Choice, data: Array) -> None:
        """Note which way a condition came out, in the lanes of the programs that run."""
        choices = self.choices
        if choices is None or data.dtype != np.bool_ or choices.came_out_both_ways(choice):
            return
        held = self.running(data)
        choices.note(choice, holds=bool(held.any()), fails=not bool(held.all()))

    def create_grid_dependency_wait(self) -> None:
        """Nothing: launches follow one another here, and one with `launch_pdl` waits first (`dependent_launch`)."""

    def create_grid_dependency_launch_dependents(self) -> None:
        """Nothing, as above."""

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

    def create_inline_asm(
        self, text: str, constraints: str, args: list[Handle], made: list[Any], _: bool, pack: int
    ) -> assembly.Result:
        """The instructions of `assembly`, and no others."""
        try:
            result = assembly.executed(text, constraints, args, made, pack)
        except assembly.NotExecuted as why:
            raise Unsupported(
                f"inline assembly compiles but cannot be executed on the virtual device ({why}); write the "
                f"operation with triton.language, or evaluate with --device cuda"
            ) from why
        kind = result.dtype
        self.counted(
            "fp" if kind.is_floating() else "int",
            self.issued(result.data, kind),
            operand_name(kind),
        )
        return result

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
        if not self.multiplies:
            before = np.broadcast_shapes(a.data.shape[:-2], b.data.shape[:-2], d.data.shape[:-2])
            return make(np.broadcast_to(d.data, (*before, *d.data.shape[-2:])), out)
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

    def create_dot_scaled(
        self, lhs: Handle, lhs_scale: Handle | None, lhs_format: Any, rhs: Handle, rhs_scale: Handle | None,
        rhs_format: Any, fast_math: bool, lhs_k_pack: bool, rhs_k_pack: bool, acc: Handle,
    ) -> Handle:  # fmt: skip
        """Triton's own brings every factor to fp16 first, where large ones of bf16 have no place."""
        kind = scaled.held_in(lhs_format, rhs_format)
        left = scaled.factor(
            lhs, lhs_scale, lhs_format, kind, packed_axis=-1 if lhs_k_pack else -2, along=-1
        )
        right = scaled.factor(
            rhs, rhs_scale, rhs_format, kind, packed_axis=-2 if rhs_k_pack else -1, along=-2
        )
        return self.create_dot(left, right, acc, INPUT.IEEE, 0)


def _padded(data: Array) -> Array:
    """Flat, in whole vectors: torch computes what is left of the last one by other means."""
    flat = data.reshape(-1)
    missing = -flat.size % _VECTOR
    return np.concatenate((flat, np.ones(missing, flat.dtype))) if missing else flat
