"""Casts between number formats, of bits and of addresses, each rounded as the GPU rounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as stock

from kernelagent.tools.virtual.arithmetic import numerics
from kernelagent.tools.virtual.arithmetic.elementwise import Handle, make
from kernelagent.tools.virtual.device.storages.addresses import Pointee, translated
from kernelagent.tools.virtual.operations.accesses import AccessingBuilder

_ir = stock._ir
_CONVERSIONS_AT_ONCE = 4
"""Of integers up to 32 bits to floats or back in the time of one to or from 64 bits: 64 and 16 a clock on 9.0 (CUDA C++
Programming Guide, throughput of arithmetic instructions). Of 8.6, 8.9 and 12.0, which convert 64 bits slower, this is too fast."""
_NAN_OF_X86: dict[Any, tuple[Any, Any]] = {
    tl.float32: (np.uint32(0xFFC00000), np.uint32(0x7FFFFFFF)),
    tl.float16: (np.uint16(0xFE00), np.uint16(0x7FFF)),
}
"""What 0/0 is here, as bits, and what it is on a GPU."""


class ConvertingBuilder(AccessingBuilder):
    """Where conversions end."""

    def __init__(self) -> None:
        super().__init__()
        self.pointees: tuple[Pointee, ...] = ()
        """What integers that become pointers may point at."""
        self.addresses_as_numbers = False
        """Whether a pointer was made a number, which is another one on each machine and in each run."""

    def create_ptr_to_int(self, val: Any, dst_ty: Any) -> Any:
        self.addresses_as_numbers = True
        return self.create_bitcast(val, dst_ty)

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
