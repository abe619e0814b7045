"""Kernels that an executor has compiled are there for the next one of the same candidate, and for no other."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kernelagent.tools.judge.verify.process.compiled_kernels import CompiledKernels


@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, 2 * tl.load(x + at, at < n), at < n)


@contextmanager
def compiling_in(cache: Path):
    hits = []
    with triton.knobs.cache.scope(), triton.knobs.compilation.scope():
        triton.knobs.cache.dir = str(cache)
        triton.knobs.compilation.listener = lambda **told: hits.append(told["cache_hit"])
        yield hits


def compile_double(block: int = 128):
    source = ASTSource(double, {"x": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {(2,): block})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32))


@pytest.fixture
def kernels(tmp_path):
    return CompiledKernels(tmp_path / "kept")


@pytest.mark.long
def test_the_next_executor_of_a_candidate_compiles_nothing_again(tmp_path, kernels):
    first, second, other = (tmp_path / name for name in ("first", "second", "other"))
    with compiling_in(first) as hits:
        compiled = compile_double()
    assert hits == [False]
    kernels.keep(first, "its text")
    kernels.copy_to(second, "its text")
    kernels.copy_to(other, "another text")
    assert not other.exists()
    with compiling_in(second) as hits:
        again = compile_double()
    assert hits == [True]
    assert again.asm["cubin"] == compiled.asm["cubin"]
    assert again.asm["ttgir"] == compiled.asm["ttgir"]


def test_what_a_later_executor_compiles_besides_is_added(tmp_path, kernels):
    for number, block in enumerate((128, 256)):
        cache = tmp_path / str(number)
        kernels.copy_to(cache, "its text")
        with compiling_in(cache):
            compile_double(block)
        kernels.keep(cache, "its text")
    last = tmp_path / "last"
    kernels.copy_to(last, "its text")
    with compiling_in(last) as hits:
        compile_double(128)
        compile_double(256)
    assert hits == [True, True]


def test_what_an_executor_changes_in_its_copy_reaches_no_other(tmp_path, kernels):
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    with compiling_in(first):
        compile_double()
    kernels.keep(first, "its text")
    kernels.copy_to(second, "its text")
    for cubin in second.glob("*/*.cubin"):
        cubin.write_bytes(b"another")
    kernels.keep(second, "its text")
    kernels.copy_to(third, "its text")
    assert all(c.read_bytes() != b"another" for c in third.glob("*/*.cubin"))


def test_only_the_kernels_of_the_latest_candidates_are_kept(tmp_path, kernels):
    for number in range(12):
        entry = tmp_path / f"cache{number}" / "hash"
        entry.mkdir(parents=True)
        (entry / "kernel.cubin").write_bytes(b"x")
        kernels.keep(entry.parent, f"text {number}")
    assert len(list((tmp_path / "kept").iterdir())) == 8
    kernels.copy_to(tmp_path / "again", "text 0")
    assert not (tmp_path / "again").exists()
