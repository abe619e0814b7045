"""Under whichever Triton is installed: every module imports, and every operation of its builder is executed."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import triton

from kernelagent.tools import virtual
from kernelagent.tools.virtual import triton_versions
from kernelagent.tools.virtual.batched.builder import BatchedBuilder
from kernelagent.tools.virtual.batched.interpreter import BatchedInterpreter
from kernelagent.tools.virtual.operations.builder import RepairedBuilder
from tests.tools.virtual import operation_kernels as kernels
from tests.tools.virtual import test_batched as batched

BITS = torch.float8_e5m2
INT, UNSIGNED = torch.int32, torch.uint32
NEVER_ASKED = {
    "create_block_with_parent": "compiled code only",
    "create_name_loc": "compiled code only",
    "get_insertion_point": "compiled code only",
    "get_loc": "compiled code only",
    "get_void_ty": "compiled code only",
    "create_tensor_descriptor_type": "compiled code only",
    "create_reduce": "tools/virtual/arithmetic/reductions.py has it",
    "create_reduce_ret": "tools/virtual/arithmetic/reductions.py has it",
    "create_scan": "tools/virtual/arithmetic/reductions.py has it",
    "create_scan_ret": "tools/virtual/arithmetic/reductions.py has it",
    "create_map_elementwise": "tools/virtual/interpreter/mapping.py has it",
    "create_map_elementwise_ret": "tools/virtual/interpreter/mapping.py has it",
    "get_fp8e4b15_ty": "formats that no GPU of ours has",
    "get_fp8e4b8_ty": "formats that no GPU of ours has",
    "get_fp8e5b16_ty": "formats that no GPU of ours has",
    "create_inline_asm": "tests/tools/virtual/arithmetic/test_assembly.py has it",
    "create_descriptor_reduce": "not executed by any version's interpreter",
    "create_grid_dependency_wait": "not executed by any version's interpreter",
    "create_grid_dependency_launch_dependents": "not executed by any version's interpreter",
}
"""Operations that the language asks a compiler's builder for and ours is not asked for, and why."""


def _numbers(dtype: torch.dtype, *, low: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(low)
    return torch.randint(low, 1 << 20, (3, 32), generator=generator).to(dtype)


def _whole(dtype: torch.dtype, low: int) -> Any:
    named = {"x": _numbers(dtype, low=low), "y": _numbers(dtype, low=1)}
    out = torch.zeros(3, 12, 32, dtype=torch.int64)
    return kernels.whole_numbers, (3,), {**named, "out": out, "N": 32}


def _scaled() -> Any:
    a, b = batched.values(16, 64).to(BITS), batched.values(64, 16).to(BITS)
    scales = torch.full((16, 2), 127, dtype=torch.uint8)
    named = {"a": a, "b": b, "s": scales, "t": scales.clone(), "out": torch.zeros(16, 16)}
    return kernels.scaled_product, (1,), {**named, "M": 16, "K": 64}


OPERATIONS: dict[str, Callable[[], Any]] = {
    "signed numbers": lambda: _whole(INT, -(1 << 20)),
    "unsigned numbers": lambda: _whole(UNSIGNED, 1),
    "fractions": lambda: (
        kernels.fractions,
        (3,),
        {"x": batched.values(3, 32), "y": batched.values(3, 32, seed=1) + 9,
         "out": torch.zeros(3, 15, 32), "N": 32},
    ),
    "others": lambda: (
        kernels.others, (3,), {"x": batched.values(3, 16), "out": torch.zeros(3, 32), "N": 16}),
    "rows by their numbers": lambda: (
        kernels.scattered_rows,
        (1,),
        {"x": batched.values(16, 8), "out": torch.zeros(16, 8),
         "rows": torch.tensor([3, 1, 0, 15, 7, 8, 9, 2], dtype=INT), "M": 16, "N": 8},
    ),
    "a product of scaled numbers": _scaled,
    "atomics that pass on": lambda: (
        kernels.passed_on, (3,),
        {"x": 2 * batched.whole(0, 9, 3), "out": torch.zeros(3, dtype=INT)}),
}  # fmt: skip
SINCE = {"a product of scaled numbers": (3, 8), "atomics that pass on": (3, 9)}


def _here(cases: dict[str, Any]) -> list[Any]:
    """Those that the installed Triton has; the others are skipped by name."""
    return [
        pytest.param(
            what,
            marks=pytest.mark.skipif(
                triton_versions.version() < SINCE.get(what, (0, 0)),
                reason=f"interpreted since Triton {'.'.join(map(str, SINCE.get(what, ())))}",
            ),
        )
        for what in cases
    ]


@pytest.mark.parametrize("what", _here(OPERATIONS))
def test_every_operation_gives_the_same_bits_together_and_one_by_one(what):
    kernel, grid, named = OPERATIONS[what]()
    alone, at_once = batched.both(
        BatchedInterpreter(most_together=0), BatchedInterpreter(), kernel, grid, named=named
    )
    assert at_once.fault is alone.fault is None
    assert at_once.tensors == alone.tensors
    assert at_once.traffic == alone.traffic


def test_every_module_of_the_virtual_device_imports():
    names = [
        item.name
        for item in pkgutil.walk_packages(virtual.__path__, f"{virtual.__name__}.")
        if not item.ispkg
    ]
    assert len(names) > 50
    for name in names:
        importlib.import_module(name)


@pytest.mark.long
def test_every_operation_that_the_installed_language_asks_for_is_executed(monkeypatch):
    language = Path(triton.__file__).parent / "language"
    texts = [(language / f"{name}.py").read_text() for name in ("semantic", "core", "math")]
    asked = set(re.findall(r"builder\.((?:create|get)_\w+)", "".join(texts)))
    seen: set[str] = set()

    def noting(name: str, inner: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any, **kwargs: Any) -> Any:
            seen.add(name)
            return inner(*args, **kwargs)

        return noted

    for builder in (BatchedBuilder, RepairedBuilder):
        for name in asked:
            if hasattr(builder, name):
                monkeypatch.setattr(builder, name, noting(name, getattr(builder, name)))
    cases = {**batched.TOGETHER, **batched.ORDERED, **OPERATIONS}
    if batched.HAS_BLOCK_POINTERS:
        cases |= batched.BLOCK_POINTERS
    for what, made in cases.items():
        if triton_versions.version() >= SINCE.get(what, (0, 0)):
            kernel, grid, named = made()
            interpreter = BatchedInterpreter()
            interpreter.compiled_with(debug=True, overflow=False, warps=4)
            batched.run(interpreter, kernel, grid, named)
    refused = set() if triton_versions.SCALES else {"create_dot_scaled"}
    assert sorted(asked - seen - refused - NEVER_ASKED.keys()) == []


@pytest.mark.skipif(triton_versions.SCALES, reason="Triton 3.8 and newer interpret it")
def test_a_product_of_scaled_numbers_is_refused_in_words_by_an_older_triton():
    kernel, grid, named = _scaled()
    seen = batched.run(BatchedInterpreter(), kernel, grid, named)
    assert "tl.dot_scaled is executed on the virtual device from Triton 3.8 on" in str(seen.fault)
