"""Compiles a kernel for the fake device and launches it through triton's own driver; prints what came out."""

from __future__ import annotations

import ctypes
import json
import struct
import sys

import numpy as np
import triton
import triton.language as tl
from triton.backends.nvidia.driver import CudaDriver
from triton.language.extra import libdevice

BLOCKS, ROWS = 3, 4096


@triton.jit
def doubled(value):
    return value + value


@triton.jit
def scaled_exp(x, y, count, scale, SIZE: tl.constexpr):
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    inside = at < count
    value = libdevice.exp(tl.load(x + at, mask=inside, other=0.0)) * scale
    tl.store(y + at, doubled(value), mask=inside)


@triton.jit
def merged(left, left_count, right, right_count):
    return left + right, left_count + right_count


@triton.jit
def summed(x, count, out, ROWS: tl.constexpr):
    """Over a number of blocks that is known only here: of all values, along rows, and counted."""
    rows, columns = tl.arange(0, ROWS)[:, None], tl.arange(0, 2)[None, :]
    total = tl.zeros((2,), tl.float32)
    counted = 0.0
    for block in range(tl.load(count)):
        values = tl.load(x + block * 2 * ROWS + rows * 2 + columns)
        one = tl.sum(values, axis=0)
        again, number = tl.reduce((values, values * 0 + 1), 0, merged)
        total += tl.where(again == one, one, float("nan"))
        counted += tl.max(number, axis=0)
        if tl.max(tl.cumsum(values, axis=0)) < tl.max(one):
            counted += float("nan")
    tl.store(out + tl.arange(0, 2), total)
    tl.store(out + 2, counted)


class Memory:
    """Device memory for triton: an address and a type, as a tensor has them."""

    dtype = "fp32"

    def __init__(self, driver: ctypes.CDLL, values: np.ndarray) -> None:
        place = ctypes.c_uint64()
        assert driver.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(values.nbytes)) == 0
        self._address, self.count = place.value, values.size
        ctypes.memmove(self._address, values.ctypes.data, values.nbytes)

    def data_ptr(self) -> int:
        return self._address

    def read(self) -> list[float]:
        text = ctypes.string_at(self._address, 4 * self.count)
        return list(struct.unpack(f"<{self.count}f", text))


class Elsewhere(Memory):
    """Memory that is not the device's."""

    def __init__(self) -> None:
        self._kept = np.zeros(8, np.float32)
        self._address, self.count = self._kept.ctypes.data, 8


def main() -> None:
    # Not found by itself: a CPU build of torch says that there is no CUDA.
    triton.runtime.driver.set_active(CudaDriver())
    driver = ctypes.CDLL("libcuda.so.1")
    given = np.linspace(-1, 1, 10, dtype=np.float32)
    x, y = Memory(driver, given), Memory(driver, np.zeros(10, np.float32))
    scaled_exp[(3,)](x, y, 10, 0.5, SIZE=4)
    try:
        scaled_exp[(3,)](Elsewhere(), y, 10, 0.5, SIZE=4)
        refused = ""
    except ValueError as error:
        refused = str(error)
    many = np.full(2 * BLOCKS * ROWS, 0.1, np.float32)
    count, out = (
        Memory(driver, np.array([BLOCKS], np.int32)),
        Memory(driver, np.zeros(3, np.float32)),
    )
    count.dtype = "i32"
    summed[(1,)](Memory(driver, many), count, out, ROWS=ROWS)
    told = {"given": given.tolist(), "got": y.read(), "refused": refused, "sums": out.read()}
    print(json.dumps(told))  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
