"""What the judge found out about one candidate: the record behind `kernelagent.evaluation/1`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from kernelagent.domain.estimated import Estimated
from kernelagent.domain.tables.rejection_codes import CODES

Verdict = Literal["accepted", "rejected", "error"]
Baseline = Literal["eager", "compile", "best"]
SCHEMA = "kernelagent.evaluation/1"


@dataclass(frozen=True)
class Reason:
    """Why a candidate was not accepted."""

    code: str
    message: str
    """One sentence with the fact."""
    detail: dict[str, Any] = field(default_factory=dict)
    """Where and how: first mismatch, launch, the candidate's line."""

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise ValueError(f"unknown rejection code {self.code!r}")

    @property
    def in_one_line(self) -> str:
        """Code and the message's first line."""
        return f"{self.code}: {self.message.strip().splitlines()[0]}"


OUT_OF_TIME = "the time for it ran out before all were tried"
"""The words of the disclosure `envelope` where that is so."""
NO_TIME_TO_ESTIMATE = "no_time_to_estimate"
"""The code of the disclosure that there is no estimate, where this machine's time was up and nothing else was wrong."""
WITHOUT_ESTIMATE = frozenset({"not_estimated", "host_time", NO_TIME_TO_ESTIMATE})
"""The codes of all disclosures that say why there is none."""


@dataclass(frozen=True)
class Disclosure:
    """Something a careful reader of an acceptance wants to know."""

    code: str
    message: str


@dataclass(frozen=True)
class Stage:
    """One step of an evaluation and how long it took."""

    name: str
    status: Literal["passed", "failed", "skipped", "running"]
    """`running` only while it is told to a listener, never in an evaluation."""
    seconds: float
    overhead: bool = False
    """True: our own work, neither triton compiling, nor the candidate running, nor the judge's checks."""
    progress: tuple[int, int] | None = None
    """With `running`: the blocks that are done, and how many there will be at least."""


@dataclass(frozen=True)
class DeviceFacts:
    """The device a verdict holds for."""

    kind: Literal["cuda", "virtual"]
    name: str
    target: str
    """For example `sm_90`."""
    torch: str
    triton: str
    driver: str | None = None
    multiprocessors: int | None = None
    """Streaming multiprocessors; None here and below: not known."""
    shared_bytes: int | None = None
    """The most shared memory one Triton program can have."""
    l2_bytes: int | None = None
    dram_bytes_per_s: float | None = None
    """Peak bandwidth of device memory, as the maker publishes it."""
    gpu: str | None = None
    """The short name `virtual` was asked for, such as `h100`; None on `cuda` and in older records."""
    operations_per_s: tuple[tuple[str, float], ...] = ()
    """Peak rates the maker publishes: dense products on tensor cores by operand type, and `fp32` of the
    other units; a multiply-add counts twice. Empty in older records, here and below None."""
    launch_us: float | None = None
    """What the estimate adds for each launch of a Triton kernel."""


@dataclass(frozen=True)
class Case:
    """One comparison of one output: errors and budgets against the float64 oracle (docs/how-verification-works.md)."""

    input_set: str
    probe: str
    output: str
    rms_error: float
    rms_budget: float
    max_error: float
    max_budget: float
    passed: bool


@dataclass(frozen=True)
class Correctness:
    """How near the candidate came to the oracle on every case tried."""

    trials: int
    cases: tuple[Case, ...]
    error: float
    """RMS error of the case nearest to (or furthest over) its budget."""
    budget: float
    """That case's RMS budget."""
    gradients: tuple[str, ...] = ()
    """What verified gradients were taken of; empty unless in mode `train`."""


@dataclass(frozen=True)
class KernelFacts:
    """One Triton kernel of the candidate; None where the tier in use cannot know."""

    name: str
    launches: int
    grid: tuple[int, int, int] | None = None
    line: int | None = None
    """First line of the kernel in the candidate's source."""
    share_of_device_time: float | None = None
    """On `virtual` a share of the estimate, said to be so by `tier`."""
    num_warps: int | None = None
    num_stages: int | None = None
    """Rounds that its loops load ahead, where they say so themselves, else those of the launch."""
    registers: int | None = None
    spills: int | None = None
    """Spilling instructions (local loads and stores) in the machine code."""
    shared_bytes: int | None = None
    occupancy: float | None = None
    """Share of the device's resident threads one kernel can fill, 0 to 1."""
    occupancy_limiter: str | None = None
    tensor_core: str | None = None
    """Family of matrix instructions used, for example `wgmma`; None when there are none."""
    load_widths: dict[str, int] = field(default_factory=dict)
    """Count of global load instructions by width in bits."""
    loaded_bytes: int | None = None
    stored_bytes: int | None = None
    fewest_loaded_bytes: int | None = None
    """Distinct bytes the launch reads: what one pass would load."""
    argument_reads: dict[str, float] = field(default_factory=dict)
    """How often an argument's bytes are read, by the kernel's name for it; of those that make most of what is read again."""
    dram_bytes: int | None = None
    flops: int | None = None
    """Counted on `virtual`: products, elementwise and reductions; a multiply-add counts twice."""
    estimate_us: float | None = None
    bound: str | None = None
    tier: str = "compiler"
    """Where the facts come from: `compiler`, `counted`, `cupti`, `ncu`, joined by `+`; or `launches`."""
    waves: float | None = None
    """Programs over those the whole device holds at once; the last part of a wave leaves some idle."""
    barriers: int | None = None
    """Instructions that wait for the other threads of a program."""
    device_us: float | None = None
    """Traced on `cuda`: the device's time in all its launches of one steady forward."""
    counters: dict[str, float] = field(default_factory=dict)
    """From ncu, where permitted: percent of the peak by unit, hit rates, achieved occupancy."""
    stall: str | None = None
    """From ncu: what its warps wait for most."""
    spills_us: float | None = None
    """What spills add to `estimate_us`, by the same estimate; None here and below where there is none."""
    stages_us: float | None = None
    """What too few stages add to it: loads that products wait for."""
    rows_aligned: bool | None = None
    """Whether the rows of any tensor of several rows among its arguments begin at multiples of 16 bytes; None: not known."""
    product_types: tuple[str, ...] = ()
    """Operand types of its products as counted, for example `fp32`, `bf16` or `tf32x3`."""
    num_ctas: int | None = None
    """Blocks of a program, each on a multiprocessor of its own."""
    spill_lines: tuple[int, ...] = ()
    """The fewest lines of the candidate's source that have more than half of the spills; none where these are many."""


@dataclass(frozen=True)
class Interval:
    """A measured ratio with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Timing:
    """Measured times on `cuda`; absent where nothing was timed."""

    candidate_us: float
    eager_us: float
    speedup_eager: Interval
    compile_us: float | None = None
    speedup_compile: Interval | None = None
    noise_floor: Interval | None = None
    """The eager baseline against itself, measured the same way."""
    attempts: int = 1
    as_called_us: float | None = None
    device_us: float | None = None
    compile: dict[str, float] = field(default_factory=dict)
    """Microseconds by torch.compile mode."""
    peak_bytes: int | None = None
    """Most device memory the candidate's process held while it was timed."""
    eager_peak_bytes: int | None = None


@dataclass(frozen=True)
class Estimate:
    """A prediction from counted traffic and compiler facts: never a measurement, never a speedup."""

    candidate_us: float
    eager_us: float
    bound: str
    """What limits the candidate most: `dram`, `l2`, `dot`, `fp`, `special`, `atomics` or `launch`."""
    ratio: float
    """eager_us / candidate_us; what differences mean, the interval of `speedup` says."""
    shapes: str
    """The shapes the estimate holds for."""
    candidate: Estimated | None = None
    """The candidate's time with its 80 % interval; None here and below in older records."""
    eager: Estimated | None = None
    compile: Estimated | None = None
    """The reference under `torch.compile`."""
    speedup: Estimated | None = None
    """Eager over the candidate, with the interval of such ratios: what the two share cancels."""
    speedup_compile: Estimated | None = None
    """`torch.compile` over the candidate."""
    label: Literal["estimate"] = "estimate"


@dataclass(frozen=True)
class HeadroomFacts:
    """How close a candidate is to the lower bound of its problem's time on this device.

    The lower bound does not depend on any candidate: it is the fewest bytes and operations that the reference needs,
    divided by the device's peak rates. If the candidate's time is an estimate, the bound shares that estimate's
    assumptions and includes one launch.
    """

    input_set: str
    """The set with the most left."""
    fewest_bytes: int
    fewest_flops: dict[str, int]
    """Of matrix products by operand type; a multiply-add counts twice."""
    least_us: float
    binds: Literal["dram", "math", "launch"]
    attained: float
    """Share of the possible speed; above 1 only where caches were warm or a ceiling is wrong."""
    left: float
    """Share of the candidate's time that could still be saved, 0 to 1."""
    ceilings: Literal["data sheet", "measured"] = "data sheet"


@dataclass(frozen=True)
class InputSetResult:
    """One row per input set."""

    name: str
    arguments: str
    executed: str | None = None
    """The shrunk shapes that were run instead; None when run as given."""
    passed: bool = False
    timing: Timing | None = None
    estimate: Estimate | None = None


@dataclass(frozen=True)
class Hashes:
    """SHA-256 of what the verdict is about."""

    problem: str
    candidate: str
    harness: str


@dataclass(frozen=True)
class Evaluation:
    """The verdict on one candidate, with its evidence.

    `reason` exists unless accepted; `timing` only on `cuda`; `estimate` only on `virtual`.
    """

    verdict: Verdict
    device: DeviceFacts
    stages: tuple[Stage, ...] = ()
    reason: Reason | None = None
    correctness: Correctness | None = None
    kernels: tuple[KernelFacts, ...] = ()
    timing: Timing | None = None
    estimate: Estimate | None = None
    headroom: HeadroomFacts | None = None
    disclosures: tuple[Disclosure, ...] = ()
    faster: bool | None = None
    baseline: Baseline = "eager"
    policy: str = "triton"
    mode: Literal["eval", "train"] = "eval"
    sandbox: str = "none"
    envelope: dict[str, Any] = field(default_factory=dict)
    hashes: Hashes | None = None
    precision: str = ""
    matmul_precision: str = ""
    """What torch allows products of float32: `highest`, `high` or `medium`; empty in older records."""
    input_sets: tuple[InputSetResult, ...] = ()
    schema: str = SCHEMA

    def __post_init__(self) -> None:
        if (self.verdict == "accepted") == (self.reason is not None):
            raise ValueError("an evaluation has a reason exactly when it is not accepted")
        if self.timing is not None and self.device.kind != "cuda":
            raise ValueError("only a cuda device times")
        if self.estimate is not None and self.device.kind != "virtual":
            raise ValueError("a measured device needs no estimate")

    def __str__(self) -> str:
        """For `print`: the verdict, why, and the number; everything is in the fields."""
        lines = [f"{self.verdict} on {self.device.name} ({self.device.kind})"]
        if self.reason is not None:
            lines.append(self.reason.in_one_line)
        if self.timing is not None:
            s = self.timing.speedup_eager
            lines.append(f"{s.value:.2f}x eager, 95 % interval {s.low:.2f} to {s.high:.2f}")
        if self.estimate is not None:
            e = self.estimate
            lines.append(
                f"not timed; estimate {e.candidate_us:.1f} µs a call, eager {e.eager_us:.1f} µs"
            )
        lines += [f"note: {item.message}" for item in self.disclosures]
        return "\n".join(lines)

    @property
    def accepted(self) -> bool:
        return self.verdict == "accepted"

    @property
    def score(self) -> float:
        """What candidates are ranked by: 0 unless accepted, else the speedup's lower end.

        On `virtual` the estimate's ratio ranks; nothing but the ranking may use it.
        """
        if not self.accepted:
            return 0.0
        if self.timing is not None:
            return self.timing.speedup_eager.low
        return self.estimate.ratio if self.estimate is not None else 1.0
