"""The two builders that run a launch, together and one by one: what is said to both of them before it, and asked after it."""

from __future__ import annotations

from typing import Any

from kernelagent.tools.virtual.arithmetic.orders import ORDER
from kernelagent.tools.virtual.batched.language import BatchedLanguage
from kernelagent.tools.virtual.compiled.code_regions import Regions
from kernelagent.tools.virtual.compiled.fetched_ahead import Ahead
from kernelagent.tools.virtual.compiled.memory_operations import Threads
from kernelagent.tools.virtual.compiled.thread_layouts import Layouts
from kernelagent.tools.virtual.interpreter.interpreter import Interpreter
from kernelagent.tools.virtual.interpreter.memory import StoreMode
from kernelagent.tools.virtual.kernel_text.choices import Choices
from kernelagent.tools.virtual.kernel_text.omissions import Omitting
from kernelagent.tools.virtual.provenance.never_written import Watch


class BothBuilders:
    """The reference, which runs programs one by one, and the language that runs them together."""

    def __init__(self, most_together: int, most_runs: int) -> None:
        self.reference = Interpreter()
        self.most_together = most_together
        """The most programs of a chunk; 0: the reference runs everything."""
        self.language = BatchedLanguage()
        self.language.builder.memory.most_runs = most_runs
        self.hints = self.reference.builder.hints = self.language.builder.hints
        """What the kernel of the last launch told the compiler."""
        self.sizes: dict[Any, int] = {}
        self.refused: dict[Any, str] = {}

    def store_as(self, mode: StoreMode, *, one_value_each: bool) -> None:
        """What the next launches' stores do; whether lanes of one store may disagree."""
        self.reference.builder.memory.mode = self.language.builder.memory.mode = mode
        for memory in (self.reference.builder.memory, self.language.builder.memory):
            memory.watch_lanes = one_value_each
        self.reference.builder.memory.own.watched = one_value_each

    def spread_lanes(self, threads: Threads) -> None:
        """Which threads have the lanes of the next launches' accesses."""
        self.reference.builder.memory.own.threads = threads
        self.language.builder.memory.threads = threads

    def run_as_compiled(self, regions: Regions) -> None:
        """What the compiled code of the next launches takes."""
        for builder in (self.reference.builder, self.language.builder):
            builder.run_as_compiled(regions)

    def fetch_ahead(self, ahead: Ahead) -> None:
        """Which loads of the next launches are made rounds ahead, among stores of their loop."""
        self.reference.builder.memory.own.ahead = ahead

    def fill_lanes(self, *, numbers: bool) -> None:
        """What the next launch's loads leave in undefined lanes: numbers, or zeros."""
        for builder in (self.reference.builder, self.language.builder):
            builder.numbers_in_lanes, builder.undefined_lanes = numbers, False
            builder.updates, builder.addresses_as_numbers = {}, False
            builder.foreign_nans = False
        self.reference.builder.memory.lanes_meet = False

    def watch_fresh(self, fresh: Watch | None) -> None:
        """Who is told of the next launches' loads and stores, to know which loads find what nobody has written."""
        self.reference.builder.memory.fresh = self.language.builder.memory.fresh = fresh

    def note_choices(self, choices: Choices | None) -> None:
        """Where the next launches' conditions are noted; None: nowhere."""
        for builder in (self.reference.builder, self.language.builder):
            builder.choices = choices

    def omit(self, omitting: Omitting | None) -> None:
        """Which part the next launches run without, and where those that they have are noted."""
        for builder in (self.reference.builder, self.language.builder):
            builder.omitting = omitting

    def compiled_with(self, *, debug: bool, overflow: bool, warps: int) -> None:
        """Whether the next launches' `tl.device_assert` are compiled in, with them those against overflow; and their warps."""
        for builder in (self.reference.builder, self.language.builder):
            builder.compiled_with(debug=debug, overflow=overflow, warps=warps)

    def round_as(
        self, order: str | None, layouts: Layouts, *, fuses: bool, errs: int | None = None
    ) -> None:
        """How the next launches round: in which order they add, and whether products are fused with sums.

        `errs`: the key of errors in what a GPU approximates.
        """
        ORDER.name, ORDER.layouts = order, layouts
        for builder in (self.reference.builder, self.language.builder):
            builder.fuses, builder.approximates = fuses, errs

    def multiply(self, *, values: bool) -> None:
        """Whether the next launches' products have their values, or are counted only."""
        for builder in (self.reference.builder, self.language.builder):
            builder.multiplies = values

    @property
    def undefined_lanes(self) -> bool:
        """Whether the last launch had lanes that a load left undefined."""
        return self.reference.builder.undefined_lanes or self.language.builder.undefined_lanes

    @property
    def addresses_as_numbers(self) -> bool:
        """Whether the last launch made a pointer a number."""
        builders = (self.reference.builder, self.language.builder)
        return any(builder.addresses_as_numbers for builder in builders)

    @property
    def float_sums(self) -> bool:
        """Whether atomics of the last launch added up floating point numbers."""
        return self.reference.builder.float_sums or self.language.builder.float_sums

    @property
    def order_matters(self) -> bool:
        """Whether programs of the last launch used an atomic's value, as far as they ran together, or changed
        the same places by atomics of different kinds, or by several lanes of one whose value was used."""
        mixed = self.reference.builder.mixes_updates or self.language.builder.mixes_updates
        lanes = self.reference.builder.memory.lanes_meet
        return mixed or lanes or self.language.builder.memory.order_matters
