"""Executes some launches from the compiled kernel's Triton IR as well, and requires that they store the same.

What the interpreter runs is the kernel's Python; what a GPU runs is what Triton's front end made of it, and the two
may read the same text otherwise.
"""

from __future__ import annotations

import copy
import mmap
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernelagent.tools.virtual.arithmetic.numerics import Array
from kernelagent.tools.virtual.compiled_ir.arguments import function_arguments
from kernelagent.tools.virtual.compiled_ir.comparing import compare
from kernelagent.tools.virtual.compiled_ir.execution import CompiledKernel, OutOfTime, Running
from kernelagent.tools.virtual.compiled_ir.memory import LaunchMemory, OutsideStorages
from kernelagent.tools.virtual.compiled_ir.reading import read_module
from kernelagent.tools.virtual.compiled_ir.unknown import Unknown
from kernelagent.tools.virtual.device.binding import Bound, Kernel
from kernelagent.tools.virtual.executor.compared_words import differs, outside, rounds
from kernelagent.tools.virtual.executor.launch import Launch
from kernelagent.tools.virtual.executor.requests import LaunchRequest, StorageRow
from kernelagent.tools.virtual.interpreter.interpreter import Program, all_programs

_LAUNCHES = 3
"""Of each compiled kernel that are compared, in each process: the first, and later ones that are drawn."""
_DRAWN = 0.5
_MOST_BYTES = 64 << 20
_SECONDS, _MOST_SECONDS = 0.03, 0.1
"""Of processor time, for the programs of one launch; more where their interpretation took long as well."""
_SHARE = 0.1
"""Of the seconds of its interpretation that a launch may take here."""
_SECONDS_ONCE, _SECONDS_AGAIN = 1.0, 0.15
"""Of all kernels of a candidate together, as far as each is compared for the first time, or for another one."""
_FIRST = 4.0
"""How much of its time the first program may take, which ends in any case."""
_MOST_PROGRAMS = 4096
"""Drawn of a large grid."""
_HALVES = ("xf16", "xbf16", " f16", " bf16", "<f16", "<bf16")
_CANNOT = (
    ArithmeticError, AttributeError, IndexError, KeyError, MemoryError, NotImplementedError, RecursionError, TypeError,
    ValueError,
)  # fmt: skip
"""What numpy raises for operations that are not executed as they are meant."""

Rerun = Callable[[Bound, Launch, Sequence[Program], bool], bool]
"""Interprets programs on another memory, at the end: one by one in this order; whether they ended in time."""


@dataclass(frozen=True)
class Usual:
    """A launch as it went in the interpreter."""

    kernel: Kernel
    request: LaunchRequest
    ordered: bool
    """Whether it matters which program comes first."""
    seconds: float
    """Its interpretation took."""
    rerun: Rerun


class Copy:
    """What the storages of a launch hold before it, at the places that they have in the shared memory."""

    def __init__(self, rows: Sequence[StorageRow], memory: Any) -> None:
        self.ranges = sorted((row.at, row.at + row.bytes) for row in rows if row.bytes)
        self.memory = mmap.mmap(-1, max(self.ranges[-1][1] if self.ranges else 0, mmap.PAGESIZE))
        self._take(self.held, memory)

    @property
    def held(self) -> Array:
        return np.frombuffer(self.memory, np.uint8)

    def again(self) -> Copy:
        """Another of the same contents."""
        twin = copy.copy(self)
        twin.memory = mmap.mmap(-1, len(self.memory))
        twin.held[:] = self.held
        return twin

    def of(self, memory: Any) -> Array:
        """What the storages hold by now, in the memory that was copied."""
        now = np.zeros(len(self.memory), np.uint8)
        self._take(now, memory)
        return now

    def _take(self, held: Array, memory: Any) -> None:
        for low, high in self.ranges:
            held[low:high] = np.frombuffer(memory, np.uint8, high - low, low)


@dataclass
class Compared:
    """What is known of the compiled kernels of one candidate, by their handles."""

    times: dict[int, int] = field(default_factory=dict)
    """How many launches of each were compared."""
    why_not: dict[int, str] = field(default_factory=dict)
    """Those that are compared no more, and why."""
    rounds: dict[int, str] = field(default_factory=dict)
    """Those whose results differ by what may be rounding, in words."""
    seconds: float = 0.0
    """Spent on all of it."""
    _ready: dict[int, CompiledKernel] = field(default_factory=dict)

    def begins(self, request: LaunchRequest, memory: Any) -> Copy | None:
        """Keep what the launch begins with; None where it is not compared."""
        handle, rows = request.handle, request.storages
        times = self.times.get(handle, 0)
        if times >= _LAUNCHES or handle in self.why_not or any(row.empty for row in rows):
            return None
        if times and random.random() > _DRAWN:
            return None
        if max((row.at + row.bytes for row in rows), default=0) > _MOST_BYTES:
            self.why_not[handle] = "its tensors are large"
        elif self.seconds > (_SECONDS_AGAIN if times else _SECONDS_ONCE):
            self.why_not[handle] = "there was no time for it"
        if handle in self.why_not:
            return None
        began = time.process_time()
        kept = Copy(rows, memory)
        self.seconds += time.process_time() - began
        return kept

    def ends(self, kept: Copy, memory: Any, usual: Usual) -> None:
        """Raises `MemoryFault` where the compiled code stores something else than is in `memory` now."""
        began, handle = time.process_time(), usual.request.handle
        try:
            self._compare(kept, memory, usual)
            self.times[handle] = self.times.get(handle, 0) + 1
        except Unknown as unknown:
            self.why_not[handle] = str(unknown)
        except _CANNOT as error:
            self.why_not[handle] = f"{type(error).__name__}: {error}"[:200]
        finally:
            self.seconds += time.process_time() - began

    def _compare(self, kept: Copy, memory: Any, usual: Usual) -> None:
        kernel, request = usual.kernel, usual.request
        ready = self._ready.get(request.handle)
        if ready is None:
            ready = CompiledKernel(read_module(kernel.compiled.ttir))
            self._ready[request.handle] = ready
        own = kept.again()
        bound = Bound(lambda row: (own.memory, row.at), kernel, request)
        launch = bound.record(0, request.grid)
        arguments = function_arguments(
            ready.module.entry, bound.arguments, kernel.function.arg_names, _compiled_in(kernel)
        )
        held = LaunchMemory(own.held, own.ranges)
        limit = min(max(_SECONDS, _SHARE * usual.seconds), _MOST_SECONDS)
        began = time.process_time()
        running = Running(held, request.grid, launch.pointees, began + _FIRST * limit)
        ordered = usual.ordered or "tt.atomic" in kernel.compiled.ttir
        done: list[Program] = []
        whole = 0
        try:
            for place in _programs(request.grid, ordered=ordered):
                running.place = place
                ready.run(running, arguments)
                done.append(place)
                whole, running.until = len(held.stored), began + limit
        except OutOfTime as late:
            if not done:
                raise Unknown("a program of it takes too long") from late
        except OutsideStorages as error:
            raise outside(kernel, ready.module, error.location) from error
        interpreted = self._interpreted(kept, memory, usual, done, ordered)
        compiled = own.held
        for item in held.stored[whole:]:
            # Of a program that did not end in time.
            compiled[item.touched()] = interpreted[item.touched()]
        halves = any(name in kernel.compiled.ttir for name in _HALVES)
        outcome = compare(compiled, interpreted, held.stored[:whole], halves=halves)
        base = int(compiled.ctypes.data)
        if outcome.difference is not None:
            raise differs(kernel, ready.module, launch, base, outcome.difference)
        if outcome.rounded is not None:
            self.rounds[request.handle] = rounds(
                kernel, ready.module, launch, base, outcome.rounded
            )

    def _interpreted(
        self, kept: Copy, memory: Any, usual: Usual, done: Sequence[Program], ordered: bool
    ) -> Array:
        """What the same programs leave in the interpreter: of all of them as the launch left it."""
        x, y, z = usual.request.grid
        if len(done) == x * y * z and not usual.ordered:
            return kept.of(memory)
        again = Bound(lambda row: (kept.memory, row.at), usual.kernel, usual.request)
        if not usual.rerun(again, again.record(0, usual.request.grid), done, ordered):
            raise Unknown("its programs take too long")
        return kept.held


def _compiled_in(kernel: Kernel) -> set[str]:
    names = kernel.function.arg_names
    constant = {p.name for p in kernel.function.params if p.is_constexpr}
    return constant | {name for at, name in enumerate(names) if (at,) in kernel.constants}


def _programs(grid: Program, *, ordered: bool) -> Iterator[Program]:
    """All in their order, or in a drawn one, because time may end early."""
    every = all_programs(grid)
    if ordered:
        yield from every
    else:
        count = len(every)
        yield from (every[at] for at in random.sample(range(count), min(count, _MOST_PROGRAMS)))
