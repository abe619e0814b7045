"""The log of one candidate's launches: what happened in each, and the row that the judge is told of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from triton.backends.compiler import GPUTarget

from kernelagent.domain.serialization import to_data
from kernelagent.tools.virtual.batched.job import HowRun
from kernelagent.tools.virtual.compiled.compiling import Compiled
from kernelagent.tools.virtual.compiled.float_places import places_by_floats
from kernelagent.tools.virtual.compiled.loop_stages import loop_stages
from kernelagent.tools.virtual.compiled.short_sums import sums_in_16_bits
from kernelagent.tools.virtual.compiled.whole_sums import sums_whole_numbers_in_floats
from kernelagent.tools.virtual.device.binding import Kernel
from kernelagent.tools.virtual.device.codec import encode
from kernelagent.tools.virtual.executor.launch import Launch
from kernelagent.tools.virtual.kernel_text.choices import Choices
from kernelagent.tools.virtual.provenance.never_written import Watch


@dataclass
class Logged:
    """One launch as it happened."""

    launch: Launch
    kernel: Kernel
    seconds: float = 0.0
    fault: dict[str, Any] | None = None
    traffic: Any = None
    printed: str = ""
    how: HowRun | None = None
    """Which of its programs were interpreted together, and why not all."""
    altered: dict[str, Any] | None = None
    """Under `alter`: how many bytes were replaced, and operands of unknown origin."""
    choices: Choices | None = None
    """Where it was executed as it is: which way its conditions came out."""
    fresh: Watch | None = None
    """The same: what it loaded of fresh memory that nobody had written."""
    stored: tuple[int, ...] = ()
    """The same: the storages that it stored to, by their place in the request."""


class LaunchLog:
    """Holds the compiled kernels and the log of one candidate."""

    def __init__(self, target: GPUTarget) -> None:
        self.kernels: list[Kernel] = []
        self.log: list[Logged] = []
        self.order_matters: set[int] = set()
        self._undefined_lanes: set[int] = set()
        self._float_sums: set[int] = set()
        self._addresses_as_numbers: set[int] = set()
        self.compared: Any = None
        """What was found of the compiled kernels that were executed as well (`compared.Compared`)."""
        self._target = target

    def add(self, kernel: Kernel) -> int:
        """Keep a compiled specialisation; returns its handle."""
        self.kernels.append(kernel)
        return len(self.kernels) - 1

    def resources(self, handle: int) -> dict[str, int]:
        """Registers and spills of a compiled kernel."""
        facts = self._facts(self.kernels[handle].compiled)
        return {"registers": facts.registers, "spills": facts.spills}

    def code(self, handle: int, form: str) -> list[tuple[int | None, str]]:
        """The instructions of a compiled kernel, `sass` or `ptx`, each with its source line."""
        from kernelagent.tools.virtual.compiled.listing import instructions

        compiled = self.kernels[handle].compiled
        listed = instructions(compiled, "ptx" if form == "ptx" else "sass")
        return [(item.line, item.text) for item in listed]

    def _facts(self, compiled: Compiled) -> Any:
        from kernelagent.tools.virtual.compiled.sass import facts_of_cubin

        target = f"sm_{self._target.arch}"
        return facts_of_cubin(compiled.cubin, compiled.metadata, target, compiled.ptx)

    def rows(self, with_facts: bool) -> list[dict[str, Any]]:
        """The log as JSON; machine facts cost a disassembly a kernel."""
        return [self._row(logged, with_facts) for logged in self.log]

    def _row(self, logged: Logged, with_facts: bool) -> dict[str, Any]:
        launch, compiled = logged.launch, logged.kernel.compiled
        row: dict[str, Any] = {
            "kernel": launch.kernel,
            "line": launch.line,
            "grid": list(launch.grid),
            "options": launch.options,
            "stages": loop_stages(compiled.ttir, int(launch.options["num_stages"])),
            "constexprs": {name: encode(value) for name, value in launch.constexprs.items()},
            "tensors": [
                {"name": t.name, "shape": list(t.shape), "dtype": t.dtype} for t in launch.tensors
            ],
            "metadata": to_data(dict(compiled.metadata)),
            "compile_s": compiled.seconds,
            "interpret_s": logged.seconds,
            "handle": self.kernels.index(logged.kernel),
        }
        if logged.fault is not None:
            row["fault"] = logged.fault
        if logged.printed:
            row["printed"] = logged.printed
        if logged.how is not None:
            row["interpreted"] = {
                "together": logged.how.together,
                "one_by_one": logged.how.alone,
                "because": dict(logged.how.reasons),
            }
        if logged.altered is not None:
            row["altered"] = logged.altered
        if launch.pointees:
            row["tables"] = True
        if logged.choices is not None and logged.choices.seen:
            row["choices"] = [[*choice, ways] for choice, ways in logged.choices.seen.items()]
        if logged.fresh is not None and logged.fresh.loads:
            row["unwritten"] = [[line, count] for line, count in logged.fresh.loads.items()]
        if row["handle"] in self.order_matters:
            row["order_matters"] = True
        if row["handle"] in self._undefined_lanes:
            row["undefined_lanes"] = True
        if row["handle"] in self._float_sums:
            row["float_sums"] = True
        if row["handle"] in self._addresses_as_numbers:
            row["addresses_as_numbers"] = True
        if (short := sums_in_16_bits(compiled.ttir)) is not None:
            row["short_sums"] = short
        if (line := places_by_floats(compiled.ttir)) is not None:
            row["float_places"] = line
        if sums_whole_numbers_in_floats(compiled.ttir):
            row["whole_sums"] = True
        if self.compared is not None:
            row |= self._of_compared(row["handle"])
        if logged.traffic is not None:
            row["traffic"] = to_data(logged.traffic)
        if with_facts:
            row["machine"] = to_data(self._facts(compiled))
        return row

    def _of_compared(self, handle: int) -> dict[str, Any]:
        told: dict[str, Any] = {}
        if self.compared.times.get(handle):
            told["compared"] = True
        elif handle in self.compared.why_not:
            told["not_compared"] = self.compared.why_not[handle]
        if handle in self.compared.rounds:
            told["rounds_otherwise"] = self.compared.rounds[handle]
        return told
