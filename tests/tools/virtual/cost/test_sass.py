from __future__ import annotations

import inspect

import pytest
import triton
import triton.language as tl

from benchmarks.cost_kernels import add, matmul
from kernelagent.domain.errors import EnvironmentFault, UsageError
from kernelagent.tools.virtual.compiled import disassembling
from kernelagent.tools.virtual.compiled.compiling import Compiled, compile_kernel, gpu_target
from kernelagent.tools.virtual.compiled.sass import MachineFacts, facts_of_cubin, resident_programs
from kernelagent.tools.virtual.cost.ceilings import ceilings_for

_DIVISIBLE = [["tt.divisibility", 16]]


@triton.jit
def scatter_exponentials(x, out, count, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at * 3, mask=at < n)
    tl.atomic_add(out + at, tl.exp(value), mask=at < n)
    tl.store(count + tl.program_id(0), tl.sum(value, 0))


def compiled(kernel, signature, constants, target, num_warps=4, divisible=True) -> Compiled:
    names = kernel.arg_names
    return compile_kernel(
        kernel,
        {**signature, **dict.fromkeys(constants, "constexpr")},
        {(names.index(name),): value for name, value in constants.items()},
        {(names.index(name),): _DIVISIBLE for name in signature} if divisible else {},
        {"num_warps": num_warps},
        gpu_target(target),
    )


def facts(made: Compiled, target: str) -> MachineFacts:
    return facts_of_cubin(made.cubin, made.metadata, target)


def matmul_facts(target: str, m: int, n: int, k: int, num_warps: int) -> MachineFacts:
    pointers = dict.fromkeys(("a", "b", "bias", "out"), "*bf16")
    signature = pointers | dict.fromkeys(("columns", "depth"), "i32")
    constants = {"M": m, "N": n, "K": k, "FUSED": False}
    return facts(compiled(matmul, signature, constants, target, num_warps), target)


def source_of(kernel, line: int) -> str:
    lines, first = inspect.getsourcelines(kernel.fn)
    return lines[line - first].strip()


def add_facts(divisible: bool, dtype: str = "fp32") -> MachineFacts:
    signature = dict.fromkeys(("x", "y", "out"), f"*{dtype}") | {"n": "i32"}
    made = compiled(add, signature, {"BLOCK": 1024}, "sm_90", divisible=divisible)
    return facts(made, "sm_90")


@pytest.mark.long
@pytest.mark.parametrize(
    ("target", "family"),
    [("sm_80", "mma.sync"), ("sm_90", "wgmma"), ("sm_100", "tcgen05"), ("sm_120", "mma.sync")],
)
def test_each_target_uses_its_own_tensor_cores(target: str, family: str):
    result = matmul_facts(target, 128, 128, 64, 8)
    assert result.tensor_core == family
    assert result.spills == 0
    assert result.load_widths.get("128", 0) + result.bulk_copies > 0
    assert result.barriers > 0


@pytest.mark.long
def test_tiles_too_small_for_wgmma_fall_back_to_an_older_family():
    assert matmul_facts("sm_90", 32, 32, 32, 4).tensor_core == "mma.sync"


@pytest.mark.long
def test_an_accumulator_too_large_for_the_registers_spills_inside_the_loop():
    result = matmul_facts("sm_90", 256, 256, 64, 4)
    assert result.spills > 100
    assert 0 < result.looped_spills < result.spills
    assert result.stack_bytes > 0
    spilling = [source_of(matmul, line) for line in result.spill_lines]
    assert any(line.startswith("total = tl.dot(") for line in spilling)


@pytest.mark.long
def test_aligned_neighbours_load_and_store_sixteen_bytes_a_thread():
    result = add_facts(divisible=True)
    assert set(result.load_widths) == set(result.store_widths) == {"128"}
    assert result.tensor_core is None
    assert result.spills == result.looped_spills == result.stack_bytes == 0


@pytest.mark.long
def test_unknown_alignment_loads_one_element_at_a_time():
    assert set(add_facts(divisible=False).load_widths) == {"32"}
    assert set(add_facts(divisible=False, dtype="bf16").load_widths) == {"16"}


@pytest.mark.long
def test_special_functions_and_atomics_are_counted():
    signature = dict.fromkeys(("x", "out", "count"), "*fp32") | {"n": "i32"}
    result = facts(compiled(scatter_exponentials, signature, {"BLOCK": 512}, "sm_90"), "sm_90")
    assert result.special_functions == 512 // (4 * 32)
    assert result.atomics > 0
    assert result.instructions > result.special_functions + result.atomics


@pytest.mark.long
def test_equal_code_is_disassembled_once(monkeypatch: pytest.MonkeyPatch):
    made = compiled(
        add, dict.fromkeys(("x", "y", "out"), "*fp16") | {"n": "i32"}, {"BLOCK": 128}, "sm_90"
    )
    first = facts(made, "sm_90")
    monkeypatch.setattr(disassembling, "_run", lambda *_: pytest.fail("disassembled again"))
    assert facts(made, "sm_90") == first


def test_a_missing_disassembler_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.setattr(disassembling, "_binaries", lambda: tmp_path)
    with pytest.raises(EnvironmentFault, match="cuobjdump is missing from triton's wheel"):
        facts_of_cubin(b"never seen before", {"num_warps": 4, "shared": 0, "num_ctas": 1}, "sm_90")


def test_what_is_no_cubin_is_said_to_be_unreadable():
    with pytest.raises(EnvironmentFault, match="cannot read a compiled kernel"):
        facts_of_cubin(b"not a cubin", {"num_warps": 4, "shared": 0, "num_ctas": 1}, "sm_90")


def test_an_unknown_target_is_refused():
    with pytest.raises(UsageError, match="sm_70"):
        facts_of_cubin(b"", {"num_warps": 4, "shared": 0, "num_ctas": 1}, "sm_70")


@pytest.mark.parametrize(
    ("registers", "shared", "num_warps", "resident", "limiter"),
    [
        (32, 0, 4, 16, "threads"),
        (32, 0, 1, 32, "blocks"),
        (128, 0, 4, 4, "registers"),
        (255, 0, 8, 1, "registers"),
        (32, 100_000, 4, 2, "shared memory"),
        (32, 227 << 10, 4, 1, "shared memory"),
        (40, 0, 4, 12, "registers"),
    ],
)
def test_residency_follows_the_first_limit_reached(
    registers: int, shared: int, num_warps: int, resident: int, limiter: str
):
    result = resident_programs(registers, shared, num_warps, ceilings_for("sm_90"))
    assert result == (resident, limiter)
