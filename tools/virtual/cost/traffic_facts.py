"""What one launch moved and computed, as it was counted."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class TrafficFacts:
    """What one launch moves and computes, scaled to its whole grid where only a part of it ran."""

    programs: int
    programs_run: int
    """How many of them were interpreted."""
    requested_load_bytes: int
    """Bytes that unmasked lanes ask for."""
    requested_store_bytes: int
    """Atomics included."""
    lanes: int
    masked_lanes: int
    """Lanes of accesses that were switched off: they move nothing and still occupy the machine."""
    load_sector_bytes: int
    """Bytes in the sectors each access touches, summed: what an uncoalesced access costs L2."""
    store_sector_bytes: int
    l1_bytes: int
    """Part of `load_sector_bytes` that L1 serves: small tensors which are read again and again."""
    distinct_load_bytes: int
    """Bytes in the sectors read at all: what one pass would load."""
    distinct_store_bytes: int
    dram_load_bytes: int
    dram_store_bytes: int
    atomics: int
    """Atomic operations, up to 32 lanes of one access to one address counting once, as one warp has no more."""
    hottest_atomics: int
    """Those that go to the busiest address."""
    fp_operations: int
    """Floating point, fp64 excluded; a fused multiply-add counts twice."""
    fp64_operations: int
    int_operations: int
    """Mostly addresses, of which the compiler removes many: only what is beyond them is charged."""
    special_operations: int
    """exp, log, sqrt and the like; a division counts as one floating point operation."""
    dot_flops: dict[str, int] = field(default_factory=dict)
    """Floating point operations of `tl.dot` by operand type: `bf16`, `fp16`, `tf32`, `tf32x3`, ..."""
    argument_reads: dict[str, float] = field(default_factory=dict)
    """How often each argument's bytes are read on average, by name, of those that are read at all."""
    loads: int = 0
    """Load operations of all programs, however many lanes each has."""
    rounds: int = 0
    """Rounds of loops, of all programs."""
    exchanges: int = 0
    """Barriers, reductions, scans, gathers and histograms: threads wait for what others computed."""

    copies: int = 0
    """Those of the loads that go through a tensor descriptor."""
    copied_bytes: int = 0
    """Bytes that these ask for."""
    chain_clocks: int = 0
    """Clocks of what each program has to do one after another, see `dataflow`, of all programs."""
    longest_chain_clocks: int = 0
    """The same, of the program that has most of it among those that ran."""
    most_bytes: int = 0
    """Bytes in the sectors that one program touches, of tensors that no L1 holds: of the one that touches most of them."""
    most_loads: int = 0
    """Loads of the program that has most of them among those that ran; the next three likewise."""
    most_copies: int = 0
    most_rounds: int = 0
    most_exchanges: int = 0
    most_work: int = 0
    """Lanes times clocks of floating point operations, at least, of the program that has most of them; see `dataflow`."""
    special_slots: int = 0
    """What special operations and divisions of floats take of the special units beyond one turn each; fp64 excluded."""
    issued_fp: int = 0
    """`fp_operations` as the compiled code has them, those that several lanes repeat included; the next two likewise."""
    issued_int: int = 0
    issued_special: int = 0
    shared_clocks: int = 0
    """Of a multiprocessor's shared memory and shuffles, at least, for changes of layout, gathers and the like."""
    most_shared_clocks: int = 0
    """The same, of the program that has most of it among those that ran."""
    loading_rounds: int = 0
    """Rounds of loops that load something."""
    most_loading_rounds: int = 0
    loops_by_values: int = 0
    """How often programs came to a loop whose rounds are as many as loaded values say."""
    hottest_updates: int = 0
    """Lanes of atomics that go to the busiest address, those of one warp each for itself."""
    hottest_requests: int = 0
    """Atomics of 32 lanes at most that go to the busiest sector of 32 bytes."""
    combining_clocks: int = 0
    """Of sums and running sums over several warps, beyond what each has as an exchange."""
    most_combining_clocks: int = 0
    """The same, of the program that has most of it among those that ran."""
    asked_bytes: dict[str, int] = field(default_factory=dict)
    """Bytes that loads ask for, of all threads and switched off or not, by the line that they stand on."""
    most_asked_bytes: dict[str, int] = field(default_factory=dict)
    """The same, of the program that has most of that line."""
    share_first: float = 1.0
    """The share of the sectors that a program loads which it has not loaded before."""
    share_on: dict[str, float] = field(default_factory=dict)
    """The share of the lanes of loads that are not switched off, by the line that they stand on."""
    share_met: dict[str, float] = field(default_factory=dict)
    """The same, of loads of which one lane at least is not."""
    split_slots: int = 0
    """Lanes' instructions that split fp32 factors for tensor cores and mend the sums, see `splitting`."""

    own_again: dict[str, int] = field(default_factory=dict)
    """Bytes that programs load again of what each has to itself, by the bits of how many bytes it moved in between."""
    own_share: float = 1.0
    """Of all bytes that a program moves, those of tensors that each program has to itself."""

    @property
    def flops(self) -> int:
        """Every floating point operation: of products, elementwise and of reductions, special ones as one."""
        plain = self.fp_operations + self.fp64_operations + self.special_operations
        return sum(self.dot_flops.values()) + plain

    @property
    def dram_bytes(self) -> int:
        """Bytes between L2 and DRAM, both ways."""
        return self.dram_load_bytes + self.dram_store_bytes
