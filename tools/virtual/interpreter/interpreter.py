"""Runs a compiled kernel's Python source program by program on the CPU, in one reversible scope."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import torch
import triton.language as tl
from torch.utils._python_dispatch import _disable_current_modes
from triton.runtime import interpreter as stock
from triton.runtime.jit import JITFunction

from kernelagent.tools.virtual import triton_versions
from kernelagent.tools.virtual.arithmetic import numerics
from kernelagent.tools.virtual.compiled.code_regions import Regions
from kernelagent.tools.virtual.executor.launch import Launch, Observer
from kernelagent.tools.virtual.interpreter.language import Language
from kernelagent.tools.virtual.operations.builder import RepairedBuilder
from kernelagent.tools.virtual.provenance.journal import Doubts, Journal

Program = tuple[int, int, int]
_PRINTED_CHARACTERS = 4000


@dataclass(frozen=True)
class Scalar:
    """A number among a launch's arguments, and the type that the compiled kernel takes it in."""

    value: int | float
    kind: tl.dtype


@dataclass(frozen=True)
class CompiledIn:
    """A number among a launch's arguments that is a constant of the compiled kernel."""

    value: int | float


class Interpreter:
    """One per process: it owns the process's patched `triton.language` while a grid runs."""

    def __init__(self) -> None:
        self._language = Language()
        self.printed = ""
        """The beginning of what the last launch printed."""
        self._observers: tuple[Observer, ...] = ()

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
        count = 0
        with untraced(), captured_prints() as capped:
            try:
                with (
                    self.watched(observers),
                    self.prepared(function, arguments, launch) as kernel,
                    limit or contextlib.nullcontext(),
                ):
                    for observer in observers:
                        observer.launch_begins(launch)
                    for program in programs if programs is not None else all_programs(launch.grid):
                        kernel(program)
                        count += 1
                    for observer in observers:
                        observer.launch_ends(launch)
            finally:
                self.printed = capped.text
        return count

    @contextlib.contextmanager
    def prepared(
        self, function: JITFunction[Any], arguments: Mapping[str, Any], launch: Launch
    ) -> Iterator[Callable[[Program], None]]:
        """Inside, what is given runs one program; the observers hear of it."""
        with self._language.active():
            kernel = self._language.function(function, arguments)
            values = argument_values(function, arguments)
            self.builder.set_grid_dim(*launch.grid)
            self.builder.threads = launch.threads

            def run(program: Program) -> None:
                self.builder.grid_idx = program
                self.builder.memory.own.program_begins()
                for observer in self._observers:
                    observer.program_begins(program)
                self.builder.begins()
                with self._kept() as journal:
                    kernel(**values)
                    self.builder.count_chains(1)
                    doubts = self.builder.memory.own.overwrites.doubts
                    if journal is not None and doubts.fault is not None:
                        with self.builder.unheard():
                            journal.require_unused(doubts, lambda: kernel(**values))

            yield run

    @contextlib.contextmanager
    def _kept(self) -> Iterator[Journal | None]:
        """What the program inside does, where it is watched and may have to be run again."""
        memory = self.builder.memory
        watched = memory.own.watched and memory.mode == "execute"
        memory.journal = memory.own.overwrites.journal = Journal() if watched else None
        memory.own.overwrites.doubts = Doubts()
        try:
            yield memory.journal
        finally:
            memory.journal = memory.own.overwrites.journal = None

    @contextlib.contextmanager
    def prepared_together(
        self, function: JITFunction[Any], arguments: Mapping[str, Any], launch: Launch
    ) -> Iterator[Callable[[], None]]:
        """Inside, what is given runs the program that the builder's `grid_idx` names."""
        with self._language.active():
            kernel = self._language.function(function, arguments)
            values = argument_values(function, arguments)
            self.builder.set_grid_dim(*launch.grid)
            self.builder.threads = launch.threads

            def run() -> None:
                with np.errstate(all="ignore"):
                    kernel(**values)

            yield run

    def run_as_compiled(self, regions: Regions) -> None:
        """What the compiled code of the next launches takes."""
        self.builder.run_as_compiled(regions)

    def leave(self) -> None:
        """Nothing is left to put back: `run` does that itself, and compiling may follow at once."""

    @contextlib.contextmanager
    def watched(self, observers: Sequence[Observer]) -> Iterator[None]:
        """Observers in place."""
        builder = self.builder
        self._observers = tuple(observers)
        builder.memory.observers = tuple(item for item in observers if not _deaf(item, "accesses"))
        builder.count = _counter([item for item in observers if not _deaf(item, "operations")])
        if builder.count is not None:
            builder.flow.attach()
        try:
            yield
        finally:
            self._observers = builder.memory.observers = ()
            builder.count = None
            builder.flow.detach()


@contextlib.contextmanager
def untraced() -> Iterator[None]:
    """Torch calls that the interpreter makes are not the caller's."""
    with _disable_current_modes(), torch._C.DisableTorchFunction():
        yield


@contextlib.contextmanager
def captured_prints() -> Iterator[Capped]:
    """Yields the object that takes what kernels print inside."""
    capped = Capped()
    with contextlib.redirect_stdout(capped):
        yield capped


def argument_values(function: JITFunction[Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A launch's arguments as the kernel's Python takes them."""
    constant = {p.name for p in function.params if p.is_constexpr}
    return {
        name: value if name in constant and not isinstance(value, CompiledIn) else _converted(value)
        for name, value in arguments.items()
    }


def _deaf(observer: Observer, what: str) -> bool:
    """Whether the observer ignores this kind of event; it is then not called for it."""
    return bool(getattr(observer, f"ignores_{what}", False))


def _counter(observers: Sequence[Observer]) -> Callable[[Any, int, str], None] | None:
    if len(observers) < 2:
        return observers[0].operation if observers else None

    def count(kind: Any, number: int, dtype: str) -> None:
        for observer in observers:
            observer.operation(kind, number, dtype)

    return count


class Capped(io.TextIOBase):
    """Keeps the beginning of what a kernel prints."""

    def __init__(self) -> None:
        self.kept = ""
        self.lost = 0

    @property
    def text(self) -> str:
        """What is kept, and how much is not."""
        return self.kept + (f"\n[{self.lost} more characters]" if self.lost else "")

    def write(self, text: str) -> int:
        room = max(0, _PRINTED_CHARACTERS - len(self.kept))
        self.kept += text[:room]
        self.lost += max(0, len(text) - room)
        return len(text)


def _converted(value: Any) -> Any:
    """A launch argument as the kernel sees it; a float is an fp32 scalar, as on the GPU."""
    if isinstance(value, CompiledIn):
        return value.value
    if isinstance(value, Scalar):
        return _number(value)
    if isinstance(value, float):
        return tl.tensor(stock.TensorHandle(np.array([value], np.float32), tl.float32), tl.float32)
    if isinstance(value, tuple):
        items = [_converted(item) for item in value]
        kinds = [item.type if hasattr(item, "type") else tl.constexpr(item).type for item in items]
        return tl.tuple(items, tl.tuple_type(kinds, getattr(value, "_fields", None)))
    return triton_versions.converted(value)


def _number(scalar: Scalar) -> Any:
    if scalar.kind.is_floating():
        wide = np.float64 if scalar.kind == tl.float64 else np.float32
        data = np.array([scalar.value], wide)
        if scalar.kind not in (tl.float32, tl.float64):
            data = numerics.convert(data, tl.float32, scalar.kind)
    else:
        bits = int(scalar.value) % (1 << 64)
        data = np.array([bits], np.uint64).astype(stock._get_np_dtype(scalar.kind))
        if scalar.kind == tl.int1:
            data = np.array([bool(scalar.value)])
    return tl.tensor(stock.TensorHandle(data, scalar.kind), scalar.kind)


def all_programs(grid: Program) -> Sequence[Program]:
    """Every program of a grid; x varies fastest, as the hardware hands programs out."""
    return _Grid(grid)


class _Grid(Sequence[Program]):
    """Programs by number, none of them made before it is asked for."""

    def __init__(self, grid: Program) -> None:
        self._x, self._y, self._z = grid

    def __len__(self) -> int:
        return self._x * self._y * self._z

    @overload
    def __getitem__(self, place: int) -> Program: ...
    @overload
    def __getitem__(self, place: slice) -> list[Program]: ...
    def __getitem__(self, place: int | slice) -> Program | list[Program]:
        if isinstance(place, slice):
            return [self[item] for item in range(*place.indices(len(self)))]
        if not 0 <= place < len(self):
            raise IndexError(place)
        return place % self._x, place // self._x % self._y, place // (self._x * self._y)
