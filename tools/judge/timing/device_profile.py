"""The launches, compiler facts and traced kernel times of one steady forward of each input set on a GPU.

Happens in the audited process, so nothing of it enters a time. Tried on the CPU as the device; the
tracing of a GPU's kernels never ran so far.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from kernelagent.domain.evaluation import Disclosure, KernelFacts
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.trials.trials import draw
from kernelagent.tools.judge.timing.observed import NotCompiled, Observed, observe
from kernelagent.tools.judge.timing.tracing import (
    TracedForward,
    library_share,
    own_kernels,
    traced_forward,
)
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess


@dataclass(frozen=True)
class DeviceProfile:
    """The kernels behind the input set that they cover least, and what to say beside them."""

    kernels: tuple[KernelFacts, ...] = ()
    coverage: float | None = None
    """Smallest share of the device time in the candidate's own kernels; None: nothing was traced."""
    disclosures: tuple[Disclosure, ...] = ()
    failures: tuple[NotCompiled, ...] = ()
    """Of all input sets."""
    why_not: str | None = None
    """Why there is no trace, in one line."""


def look(context: JudgeContext, process: CandidateProcess) -> DeviceProfile:
    """Trace every input set; where tracing does not work, the launches and the compiler's facts stay."""
    seen: list[tuple[Observed, TracedForward | None]] = []
    for source in context.sources:
        arguments = draw(source)
        # A random prefix: the candidate cannot label torch's work as a launch of its own without knowing it.
        prefix = f"kernelagent {secrets.token_hex(8)} "
        result = observe(process, arguments, prefix, context.device.target)
        traced = traced_forward(result.events, result.launches, prefix, result.known)
        seen.append((result, traced if traced.kernels else None))
    return summed_up(seen)


def summed_up(seen: list[tuple[Observed, TracedForward | None]]) -> DeviceProfile:
    """The input set in which the candidate's kernels have the smallest share of the device time."""
    failures = tuple(failure for result, _ in seen for failure in result.failures)
    untraced = next(((result, None) for result, traced in seen if traced is None), None)
    if untraced is not None:
        why_not = untraced[0].no_trace or "torch.profiler saw no kernel (is CUPTI forbidden here?)"
        return DeviceProfile(
            kernels=own_kernels(untraced[0], None),
            disclosures=(Disclosure("not_traced", f"no device time by kernel: {why_not}"),),
            failures=failures,
            why_not=why_not,
        )
    traced_sets = [(result, traced) for result, traced in seen if traced is not None]
    result, traced = min(traced_sets, key=lambda item: item[1].coverage)
    return DeviceProfile(
        kernels=own_kernels(result, traced),
        coverage=traced.coverage,
        disclosures=(*library_share(traced), *_unseen(traced)),
        failures=failures,
    )


def _unseen(traced: TracedForward) -> tuple[Disclosure, ...]:
    if not traced.unseen:
        return ()
    return (
        Disclosure(
            "launches_not_traced",
            f"{traced.unseen} launch(es) of the candidate's do not show in the trace, so that the "
            f"share of its kernels is too small",
        ),
    )
