"""The audit, in separate processes: did the candidate's kernels do the work, and what do they cost?

It rejects a candidate whose kernels did not contribute; whether values are right was decided before.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from kernelagent.domain.configuration.judge_settings import coverage_floor
from kernelagent.domain.evaluation import Disclosure, Estimate, HeadroomFacts, KernelFacts, Timing
from kernelagent.tools.judge.bounds import cost_estimate as accounting
from kernelagent.tools.judge.bounds import host_time
from kernelagent.tools.judge.bounds.real_work import make_ready
from kernelagent.tools.judge.contribution import knock_out
from kernelagent.tools.judge.contribution.hidden_values import (
    OnHiddenValues,
    require_right_on_hidden_values,
)
from kernelagent.tools.judge.contribution.left_to_kernels import (
    computing,
    reference_rows,
    require_nothing_foreign,
    require_nothing_of_torch,
    require_part_of_the_work,
)
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.trials import draw, fresh_seed
from kernelagent.tools.judge.timing import device_profile, observed
from kernelagent.tools.judge.timing.blocks import Running
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.rejection import Rejected, compiled_by_torch

_TABLES = Disclosure(
    "not_estimated",
    "no estimate: a kernel reads addresses from a table, and what is counted on tensors without "
    "contents has none",
)
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


def check_contribution(
    context: JudgeContext,
    start: Start,
    findings: Findings,
    step: Step,
    *,
    slow: bool,
    declared: dict[str, object] | None,
    certificate: bool,
    attempts: int,
) -> Report:
    """Knock-out, then accounts (`virtual`) or measurement (`cuda`); raises `Rejected`.

    `slow`: `looks_slow` where it was judged.
    """
    if context.device.kind == "cuda":
        return _on_cuda(
            context, start, step, declared=declared, certificate=certificate, attempts=attempts
        )
    _survives_without_torch(context, start, step)
    # An adaptive writer may have learnt which programs are counted in its turns.
    sample = fresh_seed() if certificate else context.sample
    account, result = audited(context, start, findings, step, sample, slow=slow)
    _policy_holds(context.settings.policy, account)
    return Report(
        kernels=account.kernels or accounting.kernels_of(findings.launches),
        declared=declared,
        estimate=account.worst,
        estimates=account.estimates,
        headroom=account.headroom,
        disclosures=(*account.disclosures, *(() if result is None else result.disclosures)),
    )


def audited(
    context: JudgeContext,
    start: Start,
    findings: Findings,
    step: Step,
    sample: int,
    *,
    slow: bool,
) -> tuple[accounting.Account, knock_out.KnockedOut | None]:
    """On `virtual`: the knock-out, where kernels are asked for, and what everything costs; raises `Rejected`."""
    result = None
    with step("audit"), start() as process:
        make_ready(context, process)
        if context.settings.policy != "any":
            result = knock_out.knock_out(context, process)
    if result is not None:
        _something_is_left(context, result, findings)
    idle = {} if result is None else result.idle
    judged = Counter(str(row["input_set"]) for row in findings.launches)
    with step("account"):
        account = accounting.account(context, start, idle, judged, sample)
        if result is not None:
            account = _without_hidden_work(account, result)
        if any(row.get("tables") for row in findings.launches):
            account = accounting.Account(disclosures=(_TABLES,))
        taken = host_time.counted(context, findings)
        if taken is None:
            taken = host_time.busy(context, start, findings)
        if taken is None and slow:
            taken = host_time.host_time(context, start)
        if taken is not None:
            account = account.without_estimates(taken)
    return account, result


def _on_cuda(
    context: JudgeContext,
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
    from kernelagent.tools.judge.timing import measuring

    _survives_without_torch(context, start, step)
    with step("profile"), start() as process:
        make_ready(context, process)
        seen = device_profile.look(context, process)
        compiles = process.compiles
    if context.settings.policy != "any":
        if not seen.kernels and compiles:
            raise compiled_by_torch()
        if not seen.kernels and seen.failures:
            raise Rejected("compile_error", seen.failures[0].message, seen.failures[0].detail)
        if not seen.kernels:
            raise Rejected("no_kernel", "the forward launched no Triton kernel of its own", {})
        with step("knock-out"), start() as process:
            # Before the file is imported, so that no CUDA graph holds what is launched.
            observed.suppress(process)
            make_ready(context, process)
            knock_out.require_wrong(context, process)
    _coverage_holds(context.settings.policy, seen.coverage, seen.why_not)
    fresh = partial(_fresh, context, start)
    with step("measure") as running:
        measured = measuring.measure(
            context, fresh, running, certificate=certificate, attempts=attempts
        )
    baseline = {
        "eager": measured.timing.speedup_eager,
        "compile": measured.timing.speedup_compile or measured.timing.speedup_eager,
    }
    chosen = baseline.get(context.settings.baseline)
    decisive = chosen or min(baseline.values(), key=lambda ratio: ratio.low)
    return Report(
        kernels=seen.kernels,
        declared=declared,
        faster=decisive.low > context.settings.min_speedup,
        timing=measured.timing,
        timings=measured.by_set,
        headroom=measured.headroom,
        disclosures=(*seen.disclosures, *measured.disclosures),
    )


def _something_is_left(
    context: JudgeContext, knocked_out: knock_out.KnockedOut, findings: Findings
) -> None:
    for source in context.sources_with_results:
        repeated = knocked_out.hidden.get(source.name)
        _part_is_left(context, source, knocked_out.evidence[source.name], repeated)
        if repeated is not None:
            _launched_what_it_was_judged_with(source, repeated.kernels, findings)


def looks_slow(context: JudgeContext, process: CandidateProcess, findings: Findings) -> bool:
    """Whether the forward took long on the host in every judged call; on `cuda` the clock tells."""
    if context.device.kind != "virtual":
        return False
    per_set = Counter(str(row["input_set"]) for row in findings.launches)
    return host_time.looks_slow(process, max(per_set.values(), default=0))


def proof_at_the_end(context: JudgeContext, process: CandidateProcess) -> None:
    """The same proof of work where the candidate was judged, in the last calls of that process.

    Finds a candidate that changes its behaviour after a certain number of calls. Raises `Rejected`.
    """
    process.require_nothing_left()
    if context.device.kind != "virtual" or context.settings.policy == "any":
        return
    source = secrets.choice(context.sources_with_results)
    _part_is_left(context, source, knock_out.require_kernels_matter(context, process, source))
    require_right_on_hidden_values(context, process, source)


def _launched_what_it_was_judged_with(
    source: InputSource, kernels: frozenset[str], findings: Findings
) -> None:
    """In the judged calls nothing watches torch: a candidate can tell those calls from this one."""
    judged = findings.kernels.get(source.name, set())
    if judged and kernels not in judged:
        usual = max(sorted(names) for names in judged)
        raise Rejected(
            "kernel_not_contributing",
            f"with torch's operations watched, the forward launched "
            f"{', '.join(sorted(kernels)) or 'nothing'}; no judged call launched just that (for example "
            f"{', '.join(usual)}): launch the same kernels in every call",
            {"input_set": source.name},
        )


def _part_is_left(
    context: JudgeContext,
    source: InputSource,
    evidence: knock_out.Evidence,
    repeated: OnHiddenValues | None = None,
) -> None:
    """Raises `Rejected` where the kernels are left no part of the work, or under `pure` not all of it.

    The same is asked of what torch did in the `repeated` forward, where the executor itself did it.
    """
    if context.settings.policy == "pure":
        require_nothing_foreign(evidence.foreign)
        if repeated is not None:
            require_nothing_of_torch(repeated.torch_rows)
        return
    arguments = draw(source)
    reference = reference_rows(context, arguments)
    for rows in evidence.calls[:-1]:
        require_part_of_the_work(rows, reference, ())
    require_part_of_the_work(evidence.torch_rows, reference, evidence.foreign)
    if repeated is not None:
        require_part_of_the_work(repeated.torch_rows, reference, ())


def _without_hidden_work(
    account: accounting.Account, knocked_out: knock_out.KnockedOut
) -> accounting.Account:
    """Drop the estimate if torch runs other operations on meta tensors than in a real call."""
    real = {
        row.name for item in knocked_out.evidence.values() for row in computing(item.torch_rows)
    }
    if account.torch_operations is None or real <= set(account.torch_operations):
        return account
    more = ", ".join(sorted(real - set(account.torch_operations)))
    message = (
        f"no estimate: torch computes {more} in a real call, but not on tensors without contents"
    )
    return accounting.Account(disclosures=(Disclosure("not_estimated", message),))


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


def _survives_without_torch(context: JudgeContext, start: Start, step: Step) -> None:
    """Under `pure`, the reverse knock-out, in a process of its own."""
    if context.settings.policy == "pure":
        with step("reverse knock-out"), start() as process:
            make_ready(context, process)
            knock_out.require_right_without_torch(context, process)


@contextmanager
def _fresh(context: JudgeContext, start: Start) -> Iterator[CandidateProcess]:
    with start() as process:
        make_ready(context, process)
        yield process


def _policy_holds(policy: str, account: accounting.Account) -> None:
    floor = coverage_floor(policy)
    if floor is not None and account.coverage is None:
        message = (
            account.disclosures[0].message if account.disclosures else "it could not be counted"
        )
        raise Rejected("unverifiable", f"the share that {policy} asks for is unknown: {message}")
    if floor is not None and account.coverage is not None and account.coverage < floor:
        raise Rejected(
            "kernel_not_contributing",
            f"the candidate's own kernels take {account.coverage:.0%} of the estimated device time; the policy "
            f"{policy} asks for {floor:.0%}",
            {"torch": account.torch_operations},
        )
