"""Runs a compiled kernel's Python source program by program on the CPU, in one reversible scope.

While the scope is open `triton.language` is patched and nothing can be compiled in this process;
`Interpreter.leave` puts everything back.
"""

from __future__ import annotations

import inspect
import itertools
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import triton.language as tl
import triton.language.extra.cuda.libdevice as cuda_libdevice
import triton.language.extra.libdevice as libdevice_stub
from torch.utils._python_dispatch import _disable_current_modes
from triton.language.semantic import TritonSemantic
from triton.runtime import interpreter as stock
from triton.runtime.jit import JITFunction

from kernelagent.tools.virtual.builder import RepairedBuilder, operand_name
from kernelagent.tools.virtual.launch import Launch, Observer, OperationKind
from kernelagent.tools.virtual.numerics import bf16_to_fp32, fp32_to_bf16

Program = tuple[int, int, int]


class Interpreter:
    """One per process: it owns the process's patched `triton.language` while it is open."""

    def __init__(self) -> None:
        self.builder = RepairedBuilder()
        self._scope: Any = None
        self._stub_bodies: list[tuple[Any, Any]] = []
        self._rewritten: dict[Any, Callable[..., Any]] = {}
        stock.interpreter_builder = self.builder
        stock.interpreter_semantic = TritonSemantic(self.builder)
        stock._get_np_dtype = _memoised(stock._get_np_dtype)
        _repair_reductions(self.builder)

    def run(
        self,
        function: JITFunction[Any],
        arguments: Mapping[str, Any],
        launch: Launch,
        *,
        programs: Iterable[Program] | None = None,
        observers: Sequence[Observer] = (),
    ) -> int:
        """Run the grid, or the given programs of it; returns how many ran. Observers may raise."""
        self._enter()
        kernel = self._rewrite(function.fn)
        constant = {p.name for p in function.params if p.is_constexpr}
        values = {
            name: value if name in constant else stock._implicit_cvt(value)
            for name, value in arguments.items()
        }
        self._watch(observers)
        self.builder.set_grid_dim(*launch.grid)
        count = 0
        for observer in observers:
            observer.launch_begins(launch)
        try:
            with (
                _disable_current_modes(),
                torch._C.DisableTorchFunction(),
                np.errstate(all="ignore"),
            ):
                for program in programs if programs is not None else _all(launch.grid):
                    self.builder.grid_idx = program
                    for observer in observers:
                        observer.program_begins(program)
                    kernel(**values)
                    count += 1
        finally:
            self._watch(())
        for observer in observers:
            observer.launch_ends(launch)
        return count

    def _watch(self, observers: Sequence[Observer]) -> None:
        def count(kind: OperationKind, number: int, dtype: str) -> None:
            for observer in observers:
                observer.operation(kind, number, dtype)

        self.builder.memory.observers = tuple(observers)
        self.builder.count = count if observers else None

    def leave(self) -> None:
        """Restore `triton.language`, so that this process can compile again."""
        if self._scope is None:
            return
        for function, body in self._stub_bodies:
            function.__code__ = body
        self._stub_bodies.clear()
        self._scope.restore()
        self._scope = None

    def _enter(self) -> None:
        if self._scope is not None:
            return
        scope, builder = stock._LangPatchScope(), self.builder
        for language in (tl, tl.core):
            stock._patch_builtin(language, builder, scope)
            stock._patch_builtin(language.tensor, builder, scope)
            if language is tl:
                stock._patch_builtin(tl.math, builder, scope)
            stock._patch_lang_tensor(language.tensor, scope)
            stock._patch_lang_core(language, scope)
        stock._patch_builtin(tl.core.tensor_descriptor_base, builder, scope)
        stock._patch_builtin(cuda_libdevice, builder, scope)
        for kind in (JITFunction, stock.InterpretedFunction):
            scope.set_attr(kind, "__call__", lambda f, *a, **k: self._rewrite(f.fn)(*a, **k))
        self._give_stubs_a_body()
        self._scope = scope

    def _give_stubs_a_body(self) -> None:
        """libdevice's stubs are empty and may be imported by name: change the function, not the name."""
        vars(libdevice_stub)["_libdevice_call"] = _libdevice_call
        for name, function in list(vars(libdevice_stub).items()):
            ours = isinstance(function, types.FunctionType)
            if not ours or function.__module__ != libdevice_stub.__name__:
                continue
            if name not in _STUB_BODIES:
                _STUB_BODIES[name] = _stub_body(name, function)
            self._stub_bodies.append((function, function.__code__))
            function.__code__ = _STUB_BODIES[name]

    def _rewrite(self, function: Any) -> Callable[..., Any]:
        if function not in self._rewritten:
            self._rewritten[function] = stock.FunctionRewriter(function).rewrite_ast()
        return self._rewritten[function]


_STUB_BODIES: dict[str, types.CodeType] = {}


def _stub_body(name: str, function: types.FunctionType) -> types.CodeType:
    names = ", ".join(inspect.signature(function).parameters)
    source = f"def {name}({names}): return _libdevice_call({name!r}, ({names},))"
    made: dict[str, Any] = {}
    exec(source, made)
    code: types.CodeType = made[name].__code__
    return code


def _libdevice_call(name: str, arguments: tuple[Any, ...]) -> Any:
    return getattr(cuda_libdevice, name)(*arguments)


def _all(grid: tuple[int, int, int]) -> Iterable[Program]:
    # x varies fastest, as the hardware hands programs out.
    for z, y, x in itertools.product(range(grid[2]), range(grid[1]), range(grid[0])):
        yield x, y, z


def _memoised(slow: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The stock lookup builds a dictionary of seventeen entries on every call."""
    known: dict[int, tuple[Any, Any]] = {}

    def lookup(kind: Any) -> Any:
        found = known.get(id(kind))
        if found is None:
            if len(known) > 4096:
                known.clear()
            # The key is an address, so the type itself is kept alive beside the answer.
            found = known[id(kind)] = (kind, slow(kind))
        return found[1]

    return lookup


def _repair_reductions(builder: RepairedBuilder) -> None:
    """Reductions and scans of bfloat16 compute on values, not on bit patterns."""
    for kind, names in (
        (stock.ReduceOps, ("sum", "min_max")),
        (stock.ScanOps, ("cumsum", "cumprod")),
    ):
        for name in names:
            original = getattr(kind, name)
            if not getattr(original, "repaired", False):
                setattr(kind, name, _on_values(original, builder))


def _on_values(original: Callable[..., Any], builder: RepairedBuilder) -> Callable[..., Any]:
    def repaired(self: Any, given: Any, *args: Any, **kwargs: Any) -> Any:
        tensor = given[0] if isinstance(given, tuple) else given
        if builder.count is not None:
            builder.count("fp", tensor.handle.data.size, operand_name(tensor.dtype))
        if tensor.dtype.scalar != tl.bfloat16:
            return original(self, given, *args, **kwargs)
        handle = stock.TensorHandle(bf16_to_fp32(tensor.handle.data), tl.float32)
        as_float = tl.tensor(handle, tl.block_type(tl.float32, list(tensor.shape)))

        def back(result: Any) -> Any:
            if result.dtype.scalar != tl.float32:
                return result
            bits = fp32_to_bf16(result.handle.data)
            return self.to_tensor(bits if result.shape else bits.ravel()[0], tl.bfloat16)

        found = original(self, as_float, *args, **kwargs)
        return type(found)(map(back, found)) if isinstance(found, tuple | list) else back(found)

    repaired.repaired = True  # type: ignore[attr-defined]
    return repaired
