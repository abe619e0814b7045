"""What is refused when a kernel is compiled, though Triton compiles it."""

from __future__ import annotations

import pytest
import triton
import triton.language as tl

from kernelagent.tools.virtual.compiled.compiling import (
    CompileFailure,
    check_registers,
    compile_kernel,
    gpu_target,
    needs_hints,
)

SIGNATURE = {"x": "*fp32", "out": "*fp32", "N": "constexpr"}


@triton.jit
def turned(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.gather(tl.load(x + at), N - 1 - at, 0))


@triton.jit
def doubled(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(x + at) * 2.0)


def compiled(kernel, blocks, **options):
    target, options = gpu_target("sm_90"), {"num_ctas": blocks, **options}
    return compile_kernel(kernel, SIGNATURE, {(2,): 512}, {}, options, target)


@pytest.mark.long
def test_a_gather_in_a_cluster_of_blocks_is_refused_because_its_code_never_leaves_a_block():
    with pytest.raises(CompileFailure, match="use num_ctas=1") as refused:
        compiled(turned, 2)
    assert refused.value.code == "unverifiable"


def test_a_gather_in_one_block_and_a_cluster_without_one_are_compiled():
    assert "mapa" not in compiled(turned, 1).ptx
    assert compiled(doubled, 2).metadata["num_ctas"] == 2


def test_a_cluster_of_more_blocks_than_there_can_be_is_refused():
    with pytest.raises(CompileFailure, match="at most 16 blocks"):
        compiled(doubled, 32)


def test_registers_given_by_hand_that_no_multiprocessor_has_are_refused():
    made = compiled(doubled, 1, maxnreg=255, num_warps=32)
    check_registers(made, 1)
    with pytest.raises(CompileFailure, match="maxnreg=255 for 32 warps"):
        check_registers(made, 0)
    check_registers(compiled(doubled, 1), 0)


@triton.jit
def copies_rows(x_ptr, o_ptr, stride, M: tl.constexpr, N: tl.constexpr):
    at = x_ptr + tl.arange(0, M)[:, None] * stride + tl.arange(0, N)[None, :]
    at = tl.multiple_of(at, [16, 16])
    to = o_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(to, tl.load(at))


@pytest.mark.long
def test_a_hint_that_is_false_for_one_axis_is_left_out_for_that_axis_alone(tmp_path):
    # Of the rows it says what no column but the first fulfils; of the columns it makes loads wide.
    signature = {
        "x_ptr": "*fp16",
        "o_ptr": "*fp16",
        "stride": "i32",
        "M": "constexpr",
        "N": "constexpr",
    }
    given = (copies_rows, signature, {(3,): 16, (4,): 64}, {}, {}, gpu_target("sm_90"))
    with triton.knobs.cache.scope():
        # The machine's cache may have it from this file at another path, which is in the code's line table.
        triton.knobs.cache.dir = str(tmp_path)
        made = compile_kernel(*given)
    line = copies_rows.fn.__code__.co_firstlineno + 3
    assert not needs_hints(made, given, frozenset({(line, 0)}))
    assert needs_hints(made, given, frozenset({(line, 0), (line, 1)}))
