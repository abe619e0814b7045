"""The second look, in processes of its own: did the candidate's kernels do the work, and what do they cost?

Nothing measured here enters the verdict on correctness, and the judged process never sees an audit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from kernelagent.evaluation import Disclosure, Estimate, HeadroomFacts, KernelFacts, Timing
from kernelagent.tools.judge import accounting, device_profile, knock_out, observed
from kernelagent.tools.judge.blocks import Running
from kernelagent.tools.judge.candidate_process import CandidateProcess
from kernelagent.tools.judge.docket import Docket
from kernelagent.tools.judge.rejection import Rejected, compiled_by_torch
from kernelagent.tools.judge.verify import Findings
from kernelagent.tools.settings import coverage_floor

Start = Callable[[], CandidateProcess]


class Step(Protocol):
    def __call__(self, name: str, *, overhead: bool = False) -> AbstractContextManager[Running]: ...


@dataclass(frozen=True)
class Report:
    """What the audit adds to an accepted candidate."""

    kernels: tuple[KernelFacts, ...]
    declared: dict[str, object] | None
    faster: bool | None = None
    timing: Timing | None = None
    estimate: Estimate | None = None
    estimates: dict[str, Estimate] = field(default_factory=dict)
    timings: dict[str, Timing] = field(default_factory=dict)
    headroom: HeadroomFacts | None = None
    disclosures: tuple[Disclosure, ...] = ()


def look_again(
    docket: Docket,
    start: Start,
    findings: Findings,
    step: Step,
    *,
    declared: dict[str, object] | None,
    certificate: bool,
    attempts: int,
) -> Report:
    """Knock-out, then accounts (`virtual`) or measurement (`cuda`); raises `Rejected`."""
    if docket.device.kind == "cuda":
        return _on_cuda(
            docket, start, step, declared=declared, certificate=certificate, attempts=attempts
        )
    _survives_without_torch(docket, start, step)
    idle: dict[str, frozenset[int]] = {}
    with step("audit"), start() as process:
        _ready(docket, process)
        if docket.settings.policy != "any":
            idle = knock_out.knock_out(docket, process)
    with step("account"), start() as process:
        _ready(docket, process)
        judged = Counter(str(row["input_set"]) for row in findings.launches)
        account = accounting.account(docket, process, idle, judged)
    _policy_holds(docket.settings.policy, account)
    return Report(
        kernels=account.kernels or accounting.kernels_of(findings.launches),
        declared=declared,
        estimate=account.worst,
        estimates=account.estimates,
        headroom=account.headroom,
        disclosures=account.disclosures,
    )


def _on_cuda(
    docket: Docket,
    start: Start,
    step: Step,
    *,
    declared: dict[str, object] | None,
    certificate: bool,
    attempts: int,
) -> Report:
    """A traced forward, the knock-out by the runner's own launcher, then the clock.

    Never run on a GPU so far.
    """
    from kernelagent.tools.judge import measuring

    _survives_without_torch(docket, start, step)
    with step("profile"), start() as process:
        _ready(docket, process)
        seen = device_profile.look(docket, process)
        compiles = process.compiles
    if docket.settings.policy != "any":
        if not seen.kernels and compiles:
            raise compiled_by_torch()
        if not seen.kernels:
            raise Rejected("no_kernel", "the forward launched no Triton kernel of its own", {})
        with step("knock-out"), start() as process:
            # Before the file is imported, so that no CUDA graph holds what is launched.
            observed.suppress(process)
            _ready(docket, process)
            knock_out.require_wrong(docket, process)
    _coverage_holds(docket.settings.policy, seen.coverage, seen.why_not)
    fresh = partial(_fresh, docket, start)
    with step("measure") as running:
        measured = measuring.measure(
            docket, fresh, running, certificate=certificate, attempts=attempts
        )
    baseline = {
        "eager": measured.timing.speedup_eager,
        "compile": measured.timing.speedup_compile or measured.timing.speedup_eager,
    }
    chosen = baseline.get(docket.settings.baseline)
    decisive = chosen or min(baseline.values(), key=lambda ratio: ratio.low)
    return Report(
        kernels=seen.kernels,
        declared=declared,
        faster=decisive.low > docket.settings.min_speedup,
        timing=measured.timing,
        timings=measured.by_set,
        headroom=measured.headroom,
        disclosures=(*seen.disclosures, *measured.disclosures),
    )


def _coverage_holds(policy: str, coverage: float | None, why_not: str | None) -> None:
    floor = coverage_floor(policy)
    if floor is None:
        return
    if coverage is None:
        raise Rejected(
            "unverifiable", f"the share of device time that {policy} asks for is unknown: {why_not}"
        )
    if coverage < floor:
        raise Rejected(
            "kernel_not_contributing",
            f"the candidate's own kernels take {coverage:.0%} of the traced device time; the policy "
            f"{policy} asks for {floor:.0%}",
        )


def _survives_without_torch(docket: Docket, start: Start, step: Step) -> None:
    """Under `pure`, the reverse knock-out, in a process of its own."""
    if docket.settings.policy == "pure":
        with step("reverse knock-out"), start() as process:
            _ready(docket, process)
            knock_out.require_right_without_torch(docket, process)


@contextmanager
def _fresh(docket: Docket, start: Start) -> Iterator[CandidateProcess]:
    with start() as process:
        _ready(docket, process)
        yield process


def _ready(docket: Docket, process: CandidateProcess) -> None:
    process.load()
    docket.construct(process)
    process.use_weights(docket.oracle.given_weights)


def _policy_holds(policy: str, account: accounting.Account) -> None:
    floor = coverage_floor(policy)
    if floor is not None and account.coverage is None:
        said = account.disclosures[0].message if account.disclosures else "it could not be counted"
        raise Rejected("unverifiable", f"the share that {policy} asks for is unknown: {said}")
    if floor is not None and account.coverage is not None and account.coverage < floor:
        raise Rejected(
            "kernel_not_contributing",
            f"the candidate's own kernels take {account.coverage:.0%} of the estimated device time; the policy "
            f"{policy} asks for {floor:.0%}",
            {"torch": account.torch_operations},
        )
