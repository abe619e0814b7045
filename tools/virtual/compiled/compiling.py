"""Compiles one specialisation of a kernel for a GPU that is not there, with the real compiler and ptxas."""

from __future__ import annotations

import contextlib
import linecache
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler.errors import CompilationError
from triton.language.semantic import TritonSemantic
from triton.runtime.errors import OutOfResources, PTXASError
from triton.runtime.jit import JITFunction

from kernelagent.domain.errors import UsageError
from kernelagent.tools.virtual.compiled.barriers import Barriers
from kernelagent.tools.virtual.compiled.code_regions import Regions, regions_of
from kernelagent.tools.virtual.compiled.memory_operations import Lines, Threads, memory_operations
from kernelagent.tools.virtual.compiled.shared_buffers import (
    SharedBuffer,
    largest_of,
    shared_buffers,
)
from kernelagent.tools.virtual.compiled.thread_layouts import Layouts, layouts_of
from kernelagent.tools.virtual.interpreter.hints import NAMES

# Triton 3.10 changes the default, and with it the code that is generated.
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")

SHARED_BYTES = {80: 166912, 86: 101376, 89: 101376, 90: 232448, 100: 232448, 120: 101376}
"""Shared memory one block may use, by compute capability (CUDA C++ Programming Guide, appendix)."""
MAX_THREADS = 1024
_MAX_BLOCKS_OF_A_CLUSTER = 16
"""Where the launcher asks for more than the portable eight (CUDA C++ Programming Guide, thread block clusters)."""
_LINE = re.compile(r'":(\d+):')
"""The line in a place as the compiler writes it."""
_NO_BLOCK_POINTERS = "Block pointers have been removed"
"""As Triton says it from the version on that has none."""
_MAX_GRID = (2**31 - 1, 65535, 65535)
_TOLD = (
    "num_warps", "num_stages", "num_ctas", "shared", "name", "debug", "global_scratch_size", "global_scratch_align",
    "enable_fp_fusion", "sanitize_overflow", "launch_cooperative_grid", "maxnreg",
)  # fmt: skip
"""What a launch asks of a compiled kernel."""


class CompileFailure(Exception):
    """Triton or ptxas refuses; `code` is a rejection code, `line` the candidate's."""

    def __init__(
        self,
        code: str,
        message: str,
        line: int | None = None,
        detail: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.line = line
        self.detail = detail or ({"line": line} if line else {})


@dataclass(frozen=True)
class Compiled:
    """What compiling gave; equal inputs give equal binaries."""

    kernel: str
    line: int
    metadata: Mapping[str, Any]
    """num_warps, num_stages, num_ctas, shared (bytes), name, debug and more of what a launch asks."""
    cubin: bytes
    ptx: str
    seconds: float
    ahead: frozenset[tuple[Lines, int]] = frozenset()
    """Where loads stand that a pipelined loop makes rounds before they are used, and in which line that loop."""
    threads: Threads = field(default_factory=Threads)
    layouts: Layouts = field(default_factory=Layouts)
    """How its threads share out the blocks that it reduces."""
    ttir: str = ""
    """What Triton's front end made of its text."""
    regions: Regions = field(default_factory=Regions)
    """What passes through its parts take."""


def gpu_target(target: str) -> GPUTarget:
    """`sm_90` as Triton's own record; raises `UsageError` for what is not known."""
    number = target.removeprefix("sm_")
    if not number.isdigit() or int(number) not in SHARED_BYTES:
        known = ", ".join(f"sm_{arch}" for arch in SHARED_BYTES)
        raise UsageError(f"the virtual device cannot stand in for {target!r}; it knows {known}")
    return GPUTarget("cuda", int(number), 32)


def compile_kernel(
    function: JITFunction[Any],
    signature: Mapping[str, Any],
    constants: Mapping[Any, Any],
    attributes: Mapping[Any, Any],
    options: Mapping[str, Any],
    target: GPUTarget,
) -> Compiled:
    """Compile for `target`; raises `CompileFailure` in words a kernel writer can act on."""
    began = time.perf_counter()
    source = ASTSource(function, dict(signature), dict(constants), dict(attributes))
    try:
        made = triton.compile(source, target=target, options=dict(options))
    except CompilationError as error:
        raise _explained(function, error) from error
    except PTXASError as error:
        raise CompileFailure("compile_error", f"`{_name(function)}`: ptxas: {error}") from error
    except OutOfResources as error:
        raise CompileFailure("out_of_resources", f"`{_name(function)}`: {error}") from error
    except (AssertionError, ValueError, TypeError, RuntimeError, KeyError) as error:
        message = str(error).strip() or type(error).__name__
        raise CompileFailure("compile_error", f"`{_name(function)}`: {message[:1500]}") from error
    metadata = {name: getattr(made.metadata, name) for name in _TOLD}
    file = Path(function.fn.__code__.co_filename).name
    _fits(function, metadata, target, lambda: shared_buffers(made.asm["ttgir"], file))
    _fits_a_cluster(function, metadata["num_ctas"])
    _gathers_in_one_block(function, made.asm["ttgir"], metadata)
    operations = memory_operations(made.asm["ttgir"])
    return Compiled(
        kernel=_name(function),
        line=_line(function),
        metadata=metadata,
        cubin=made.asm["cubin"],
        ptx=made.asm["ptx"],
        seconds=time.perf_counter() - began,
        ahead=operations.fetched_ahead(),
        threads=Threads.of(
            operations.every,
            metadata["num_ctas"],
            Barriers(made.asm["ptx"], metadata["num_warps"], metadata["num_ctas"]),
        ),
        layouts=layouts_of(made.asm["ttgir"]),
        ttir=made.asm["ttir"],
        regions=regions_of(made.asm["ttgir"], file, made.asm.get("source", "")),
    )


def needs_hints(
    compiled: Compiled, given: tuple[Any, ...], where: frozenset[tuple[int, int]]
) -> bool:
    """Whether `compile_kernel(*given)` makes other code where the hints on these lines are left out, for these axes."""
    with tempfile.TemporaryDirectory() as folder, _without_hints(where), triton.knobs.cache.scope():
        # Of its own, because Triton's cache knows no difference between the two.
        triton.knobs.cache.dir = folder
        return compile_kernel(*given).cubin != compiled.cubin


@contextlib.contextmanager
def _without_hints(where: frozenset[tuple[int, int]]) -> Iterator[None]:
    kept = {name: getattr(TritonSemantic, name) for name in NAMES}

    def without(original: Any) -> Any:
        def hint(self: Any, x: Any, values: Any) -> Any:
            place = _LINE.search(str(self.builder.get_loc()))
            line = int(place[1]) if place else 0
            if not any((line, axis) in where for axis in range(len(values))):
                return original(self, x, values)
            held = [1 if (line, axis) in where else value for axis, value in enumerate(values)]
            return original(self, x, held) if any(value != 1 for value in held) else x

        return hint

    for name, original in kept.items():
        setattr(TritonSemantic, name, without(original))
    try:
        yield
    finally:
        for name, original in kept.items():
            setattr(TritonSemantic, name, original)


def check_grid(kernel: str, grid: tuple[int, int, int]) -> None:
    """Raises `CompileFailure` for a grid the driver would refuse."""
    for axis, size, most in zip("xyz", grid, _MAX_GRID, strict=True):
        if not 1 <= size <= most:
            raise CompileFailure(
                "out_of_resources",
                f"`{kernel}`: grid {grid}: {axis} must be between 1 and {most}, not {size}",
            )


def check_cooperative(compiled: Compiled, programs: int, resident: int, limiter: str) -> None:
    """Raises `CompileFailure` for a cooperative launch of more blocks than are `resident` on the GPU at a time.

    The driver refuses those (CUDA Driver API, `cuLaunchKernelEx`: CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE).
    """
    blocks = programs * int(compiled.metadata["num_ctas"])
    if compiled.metadata["launch_cooperative_grid"] and blocks > resident:
        raise CompileFailure(
            "out_of_resources",
            f"`{compiled.kernel}` is launched with launch_cooperative_grid=True and {blocks} blocks, and the GPU "
            f"holds {resident} at a time (the limit is its {limiter}): the launch fails; launch at most so many "
            f"and let each do more, or leave the option out",
            detail={"required": blocks, "limit": resident, "resource": "resident blocks"},
        )


def _fits(
    function: JITFunction[Any],
    metadata: Mapping[str, Any],
    target: GPUTarget,
    buffers: Callable[[], tuple[SharedBuffer, ...]],
) -> None:
    name, limit = _name(function), SHARED_BYTES[target.arch]
    if metadata["shared"] > limit:
        # Those of a cluster are spread over its blocks in ways that their types do not say.
        largest = largest_of(buffers()) if metadata["num_ctas"] == 1 else ""
        held = f"; the largest that it holds there: {largest}" if largest else ""
        raise CompileFailure(
            "out_of_resources",
            f"`{name}` needs {metadata['shared']} bytes of shared memory, sm_{target.arch} has "
            f"{limit}: use smaller blocks or fewer stages{held}",
            detail={"required": metadata["shared"], "limit": limit, "resource": "shared memory"},
        )
    threads = metadata["num_warps"] * 32
    if threads > MAX_THREADS:
        raise CompileFailure(
            "out_of_resources",
            f"`{name}` asks for {threads} threads a block, the limit is {MAX_THREADS}: use at most "
            f"{MAX_THREADS // 32} warps",
            detail={"required": threads, "limit": MAX_THREADS, "resource": "threads"},
        )


def check_registers(compiled: Compiled, resident: int) -> None:
    """Raises `CompileFailure` where not one block finds the registers it was given by hand.

    ptxas keeps to `maxnreg` whatever the threads need together; the launch then fails (CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES).
    """
    if compiled.metadata["maxnreg"] and resident < 1:
        raise CompileFailure(
            "out_of_resources",
            f"`{compiled.kernel}` is compiled with maxnreg={compiled.metadata['maxnreg']} for "
            f"{compiled.metadata['num_warps']} warps, which need more registers than a multiprocessor has: the launch "
            f"fails; use a smaller maxnreg, or fewer warps",
            detail={"resource": "registers"},
        )


def _gathers_in_one_block(
    function: JITFunction[Any], text: str, metadata: Mapping[str, Any]
) -> None:
    """Triton 3.9's code for `tl.gather` reads a block's own shared memory alone: there is no `mapa` in its PTX."""
    if metadata["num_ctas"] > 1 and "tt.gather" in text:
        raise CompileFailure(
            "unverifiable",
            f"`{_name(function)}` uses tl.gather with num_ctas={metadata['num_ctas']}: the code that Triton makes of it "
            f"reads, in each block of a cluster, what that block holds alone: use num_ctas=1",
        )


def _fits_a_cluster(function: JITFunction[Any], blocks: int) -> None:
    if blocks > _MAX_BLOCKS_OF_A_CLUSTER:
        raise CompileFailure(
            "out_of_resources",
            f"`{_name(function)}` asks for num_ctas={blocks}: a cluster has at most {_MAX_BLOCKS_OF_A_CLUSTER} blocks",
            detail={"required": blocks, "limit": _MAX_BLOCKS_OF_A_CLUSTER, "resource": "cluster"},
        )


def _explained(function: JITFunction[Any], error: CompilationError) -> CompileFailure:
    chain = [error]
    while isinstance(inner := chain[-1].__cause__, CompilationError):
        chain.append(inner)
    deepest = chain[-1]
    message = (deepest.error_message or "").strip() or str(deepest.__cause__ or deepest).strip()
    if _NO_BLOCK_POINTERS in message:
        message += ": write tl.make_tensor_descriptor, or pointers and masks, in their place"
    # What fails inside Triton's own library was called from somewhere in the candidate.
    places = [place for item in chain if (place := _place(function, item)) is not None]
    line, text = places[-1] if places else (None, "")
    at = f" at line {line}" if line else ""
    shown = f"\n    {text}" if text else ""
    return CompileFailure(
        "compile_error", f"`{_name(function)}` does not compile{at}: {message[:1500]}{shown}", line
    )


def _place(function: JITFunction[Any], error: CompilationError) -> tuple[int, str] | None:
    """Line number and text in the file of `function`; None for what stands in another file."""
    lines = (error.src or "").splitlines()
    node = getattr(error, "node", None)
    if node is None or not 0 < node.lineno <= len(lines):
        return None
    text = lines[node.lineno - 1].strip()
    if error.src == function.src:
        return _line(function) - 1 + _decorators(function) + node.lineno, text
    file = linecache.getlines(function.fn.__code__.co_filename)
    starts = [number for number, line in enumerate(file) if line.rstrip() == lines[0].rstrip()]
    return (starts[0] + node.lineno, text) if len(starts) == 1 else None


def _name(function: JITFunction[Any]) -> str:
    return str(function.fn.__name__)


def _line(function: JITFunction[Any]) -> int:
    return int(function.fn.__code__.co_firstlineno)


def _decorators(function: JITFunction[Any]) -> int:
    """Lines between the first decorator and the `def`; errors count from the `def`."""
    return next(
        (i for i, text in enumerate(function.raw_src) if text.lstrip().startswith("def ")), 0
    )
