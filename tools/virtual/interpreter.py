"""Runs a compiled kernel's Python source program by program on the CPU, in one reversible scope."""

from __future__ import annotations

import contextlib
import io
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
import triton.language as tl
from torch.utils._python_dispatch import _disable_current_modes
from triton.runtime import interpreter as stock
from triton.runtime.jit import JITFunction

from kernelagent.tools.virtual.builder import RepairedBuilder
from kernelagent.tools.virtual.language import Language
from kernelagent.tools.virtual.launch import Launch, Observer

Program = tuple[int, int, int]
_PRINTED_CHARACTERS = 4000


class Interpreter:
    """One per process: it owns the process's patched `triton.language` while a grid runs."""

    def __init__(self) -> None:
        self._language = Language()
        self.printed = ""
        """The beginning of what the last launch printed."""

    @property
    def builder(self) -> RepairedBuilder:
        return self._language.builder

    def run(
        self,
        function: JITFunction[Any],
        arguments: Mapping[str, Any],
        launch: Launch,
        *,
        programs: Iterable[Program] | None = None,
        observers: Sequence[Observer] = (),
        limit: AbstractContextManager[None] | None = None,
    ) -> int:
        """Run the grid, or the given programs of it; returns how many ran. Observers may raise.

        `limit` is entered last and left first, so that what it raises finds the scope whole.
        """
        builder, count = self.builder, 0
        with self._watched(observers), self._quiet(), self._language.active():
            kernel = self._language.function(function)
            constant = {p.name for p in function.params if p.is_constexpr}
            values = {
                name: value if name in constant else _converted(value)
                for name, value in arguments.items()
            }
            builder.set_grid_dim(*launch.grid)
            with limit or contextlib.nullcontext():
                for observer in observers:
                    observer.launch_begins(launch)
                for program in programs if programs is not None else _all(launch.grid):
                    builder.grid_idx = program
                    for observer in observers:
                        observer.program_begins(program)
                    kernel(**values)
                    count += 1
                for observer in observers:
                    observer.launch_ends(launch)
        return count

    def leave(self) -> None:
        """Nothing is left to put back: `run` does that itself, and compiling may follow at once."""

    @contextlib.contextmanager
    def _watched(self, observers: Sequence[Observer]) -> Iterator[None]:
        """Observers in place; torch calls that the interpreter makes are not the caller's."""
        builder = self.builder
        builder.memory.observers = tuple(one for one in observers if not _deaf(one, "accesses"))
        builder.count = _counter([one for one in observers if not _deaf(one, "operations")])
        try:
            with _disable_current_modes(), torch._C.DisableTorchFunction():
                yield
        finally:
            builder.memory.observers, builder.count = (), None

    @contextlib.contextmanager
    def _quiet(self) -> Iterator[None]:
        capped = _Capped()
        try:
            with contextlib.redirect_stdout(capped):
                yield
        finally:
            more = f"\n[{capped.lost} more characters]" if capped.lost else ""
            self.printed = capped.kept + more


def _deaf(observer: Observer, what: str) -> bool:
    """Instruments may say what they have no use for, which spares the work of telling them."""
    return bool(getattr(observer, f"ignores_{what}", False))


def _counter(observers: Sequence[Observer]) -> Callable[[Any, int, str], None] | None:
    if len(observers) < 2:
        return observers[0].operation if observers else None

    def count(kind: Any, number: int, dtype: str) -> None:
        for observer in observers:
            observer.operation(kind, number, dtype)

    return count


class _Capped(io.TextIOBase):
    """Keeps the beginning of what a kernel prints."""

    def __init__(self) -> None:
        self.kept = ""
        self.lost = 0

    def write(self, text: str) -> int:
        room = max(0, _PRINTED_CHARACTERS - len(self.kept))
        self.kept += text[:room]
        self.lost += max(0, len(text) - room)
        return len(text)


def _converted(value: Any) -> Any:
    """A launch argument as the kernel sees it; a float is an fp32 scalar, as on the GPU."""
    if isinstance(value, float):
        return tl.tensor(stock.TensorHandle(np.array([value], np.float32), tl.float32), tl.float32)
    if isinstance(value, tuple):
        return tl.tuple([_converted(item) for item in value])
    return stock._implicit_cvt(value)


def _all(grid: Program) -> Iterable[Program]:
    # x varies fastest, as the hardware hands programs out.
    for z, y, x in itertools.product(range(grid[2]), range(grid[1]), range(grid[0])):
        yield x, y, z
