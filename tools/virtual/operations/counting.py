"""What the operations of a launch cost, counted as they are made: the base of the builders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernelagent.tools.virtual import triton_versions
from kernelagent.tools.virtual.arithmetic.elementwise import Handle
from kernelagent.tools.virtual.arithmetic.numerics import Array
from kernelagent.tools.virtual.compiled.code_regions import Asked, Pass, Regions, Side
from kernelagent.tools.virtual.cost.dataflow import (
    CLOCKS_AT_BARRIER,
    CLOCKS_OF_LANES,
    EXCHANGE_CLOCKS,
    Dataflow,
    is_loaded,
)
from kernelagent.tools.virtual.executor.launch import OperationKind
from kernelagent.tools.virtual.kernel_text.lines import line_now

_PARTS = 1 << 16
"""Of a whole load, so that shares are counted as whole numbers."""


class CountingBuilder(triton_versions.InterpreterBuilder):  # type: ignore[misc]
    """Where the operations of some programs are counted."""

    def __init__(self) -> None:
        super().__init__()
        self.count: Callable[[OperationKind, int, str], None] | None = None
        self.threads = 1
        """Of each program of this launch."""
        self.lanes_for_each = 1.0
        """Of a function that elements go different ways through: how many go through it, or wait, for each that is computed."""
        self.regions = Regions()
        """What passes through the compiled kernel's parts take."""
        self._regions_met: dict[tuple[int, int, Side], tuple[Pass, Asked]] = {}
        self.flow = Dataflow(self)
        """When each value can be there; followed where operations are counted."""

    def lanes(self, data: Array) -> int:
        """How many values of this launch's programs an array stands for."""
        return int(data.size) if data.size == 1 else int(data.size * self.lanes_for_each)

    def issued(self, data: Array, kind: Any) -> int:
        """How many lanes an operation takes: every thread repeats what is one number for the whole program.

        Integers that are the same in all threads have a unit of their own; a block of fewer lanes than threads does not.
        """
        lanes, programs = self.lanes(data), self.programs_running()
        one_number = lanes <= programs and not kind.is_floating()
        return lanes if one_number else max(lanes, self.threads * programs)

    def counted(self, kind: OperationKind, size: int, dtype: str) -> None:
        """Count operations of the programs that run, of each of them as many."""
        if self.count is not None:
            self.count(kind, size, dtype)
            self.flow.worked(kind, size / max(1, self.programs_running()), dtype)

    def running(self, data: Array) -> Array:
        """An array's values of the programs that run, as (programs, *shape)."""
        return data[None]

    def programs_running(self) -> int:
        """How many programs do what is done now."""
        return 1

    @property
    def active(self) -> Array | None:
        """Which of the programs that are interpreted together run now; None: all."""
        return None

    def run_as_compiled(self, regions: Regions) -> None:
        """What the code of the next launches takes."""
        self.regions, self._regions_met = regions, {}
        self.flow.launch_begins()

    def goes_round_by(self, *handles: Handle) -> None:
        """How often a loop runs depends on these."""
        self.flow.waits_for(*handles)
        if self.count is not None and is_loaded(*handles):
            self.count("by_values", self.programs_running(), "")

    def begins(self) -> None:
        """Some programs begin, together."""
        self.flow.begins()
        self._take(self.regions.outside)
        self._ask(self.regions.asked.get(None, {}))

    def passed(self, first: int, last: int, side: Side) -> None:
        """The programs that run now begin a part of the kernel's text."""
        if self.count is None:
            return
        place = first, last, side
        met = self._regions_met.get(place)
        if met is None:
            regions = self.regions
            met = regions.at(first, last, side), regions.asked_at(first, last, side)
            self._regions_met[place] = met
        taken, asked = met
        if taken:
            self._take(taken)
        if asked:
            self._ask(asked)

    def _take(self, taken: Pass) -> None:
        if self.count is None:
            return
        programs, issued = self.programs_running(), 0.0
        for kind, number in taken.items():
            self.count(kind, number * programs, "")
            issued += CLOCKS_OF_LANES.get(kind, 0) * number
            self.flow.stepped(kind, number)
        if issued:
            self.flow.stepped("issued", issued)

    def _ask(self, asked: Asked) -> None:
        if self.count is None:
            return
        programs = self.programs_running()
        for line, number in asked.items():
            self.count("asked", number * programs, line)
            self.flow.stepped(f"asked {line}", number)

    def loads(self, mask: Array | None) -> None:
        """Count a load, and on its line how much of it is not switched off; a mask may stand for many programs."""
        self.step("load")
        if self.count is None:
            return
        line, programs = line_now(), self.programs_running()
        on = met = 1.0
        if mask is not None and mask.size:
            held = self.running(mask)
            held = held.reshape(held.shape[0], -1)
            on, met = float(held.mean()), float(held.any(axis=1).mean())
        self.count("times", _PARTS * programs, line)
        self.count("on", round(_PARTS * on * programs), line)
        self.count("met", round(_PARTS * met * programs), line)

    def count_chains(self, programs: int) -> None:
        """Some programs have ended: count what they had to do one after another."""
        if self.count is not None:
            together, most = self.flow.ends(programs)
            self.count("chain", together, "")
            for kind, number in most.items():
                self.count("longest", number, kind)

    def step(self, kind: OperationKind) -> None:
        """Count one step of each program that does it."""
        if self.count is not None:
            self.count(kind, self.programs_running(), "")
            self.flow.stepped(kind)

    def waits_at_barrier(self) -> None:
        """Count a barrier, which takes a multiprocessor the longer the more warps come to it."""
        self.step("exchange")
        beyond = CLOCKS_AT_BARRIER * int(self.options.num_warps) - EXCHANGE_CLOCKS
        if self.count is not None and beyond > 0:
            self.count("shared", beyond * self.programs_running(), "")
            self.flow.stepped("shared", beyond)
