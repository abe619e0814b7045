from __future__ import annotations

import pytest

from benchmarks.cost_kernels import matmul
from kernelagent.tools.virtual.compiled.compiling import CompileFailure, compile_kernel, gpu_target
from kernelagent.tools.virtual.compiled.shared_buffers import (
    SharedBuffer,
    largest_of,
    shared_buffers,
)
from tests.tools.virtual.cost.test_sass import source_of

TTGIR = """
#loc = loc("/tmp/candidate.py":10:1)
#loc2 = loc("/tmp/candidate.py":14:3)
#loc3 = loc("a"(#loc2))
    %a = ttg.local_alloc : () -> !ttg.memdesc<3x64x32xbf16, #shared, #smem, mutable> loc(#loc3)
    %b = ttg.local_alloc %x : (tensor<32x8xf8E4M3FN>) -> !ttg.memdesc<32x8xf8E4M3FN, #shared1, #smem> loc(#loc2)
    %c = ttg.local_load %b : !ttg.memdesc<32x8xf8E4M3FN, #shared1, #smem> -> tensor<32x8xf8E4M3FN> loc(#loc2)
"""


def test_allocations_are_read_with_their_bytes_and_lines_the_largest_first() -> None:
    first, second = shared_buffers(TTGIR, "candidate.py")
    assert first == SharedBuffer((3, 64, 32), "bfloat16", 12288, 14)
    assert second == SharedBuffer((32, 8), "float8", 256, 14)
    assert first.in_words() == "bfloat16[3x64x32] (12288 bytes, line 14)"


def test_equal_ones_are_said_once_and_small_ones_are_counted() -> None:
    sizes = (64, 64, 32, 16, 8, 4)
    buffers = tuple(SharedBuffer((size,), "int8", size, None) for size in sizes)
    words = largest_of(buffers)
    assert words == (
        "2 times int8[64] (64 bytes), int8[32] (32 bytes), int8[16] (16 bytes), 2 smaller ones"
    )
    assert largest_of(()) == ""


@pytest.mark.long
def test_a_kernel_that_needs_too_much_is_told_what_it_holds() -> None:
    names = matmul.arg_names
    sizes = {"M": 128, "N": 256, "K": 128, "FUSED": False}
    signature = {
        **dict.fromkeys(("a", "b", "bias", "out"), "*bf16"),
        **dict.fromkeys(("columns", "depth"), "i32"),
        **dict.fromkeys(sizes, "constexpr"),
    }
    aligned = {(names.index(name),): [["tt.divisibility", 16]] for name in names[:6]}
    constants = {(names.index(name),): size for name, size in sizes.items()}
    options = {"num_warps": 8, "num_stages": 4}
    with pytest.raises(CompileFailure) as caught:
        compile_kernel(matmul, signature, constants, aligned, options, gpu_target("sm_90"))
    message = str(caught.value)
    assert "bfloat16[4x128x256] (262144 bytes, line " in message
    line = int(message.split("262144 bytes, line ")[1].split(")")[0])
    assert source_of(matmul, line).startswith("total = tl.dot(")
