"""One source in many configurations, ranked: estimated on `virtual`, timed on `cuda`; nothing is verified."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kernelagent.domain.evaluation import Reason
from kernelagent.domain.replies.tool_calls import Benched, Swept, SweptRow
from kernelagent.tools.judge.bounds.quick_check import quick_check
from kernelagent.tools.judge.bounds.real_work import make_ready
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.timing import device_profile
from kernelagent.tools.judge.timing.measuring import measure
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.rejection import Rejected
from kernelagent.tools.judge.workbench.axes import Value, changed_lines, with_values

Starts = Callable[[str, float], Callable[[], CandidateProcess]]
"""Of a source and the seconds that are left, what starts a process of it."""


def sweep(
    context: JudgeContext,
    starts: Starts,
    source: str,
    tried: list[dict[str, Value]],
    seconds: float,
) -> Swept:
    """Fastest first; those for which time did not suffice are counted. Raises `NoSuchAxis`."""
    began = time.monotonic()
    texts = [with_values(source, values) for values in tried]
    rows: list[SweptRow] = []
    for values, text in zip(tried, texts, strict=True):
        left = seconds - (time.monotonic() - began)
        if left <= 0:
            break
        rows.append(_row(context, starts(text, left), values))
    ranked = sorted(rows, key=_rank)
    best = texts[tried.index(ranked[0].values)] if ranked and ranked[0].us is not None else ""
    return Swept(
        rows=tuple(ranked),
        measured=context.device.kind == "cuda",
        untried=len(tried) - len(rows),
        best=best,
        changed=changed_lines(source, best) if best else (),
    )


def bench(context: JudgeContext, start: Callable[[], CandidateProcess]) -> Benched:
    """The candidate's time on a GPU, not verified; a failure is a value. Never run on a GPU so far."""
    try:
        timing = measure(
            context, lambda: _ready(context, start), certificate=False, attempts=1
        ).timing
        with _ready(context, start) as process:
            kernels = device_profile.look(context, process).kernels
    except Rejected as refused:
        return Benched(fault=refused.reason)
    return Benched(timing, kernels)


def _rank(row: SweptRow) -> tuple[bool, float, float, int]:
    """By time; where the host decides that, by what the kernels take, then by what they spill."""
    device = sum(kernel.estimate_us or 0.0 for kernel in row.kernels)
    spills = sum(kernel.spills or 0 for kernel in row.kernels)
    return row.us is None, row.us or 0.0, device, spills


def _row(
    context: JudgeContext, start: Callable[[], CandidateProcess], values: dict[str, Value]
) -> SweptRow:
    by_values: tuple[str, ...] = ()
    if context.device.kind == "cuda":
        benched = bench(context, start)
        fault, kernels = benched.fault, benched.kernels
        us = None if benched.timing is None else benched.timing.candidate_us
    else:
        checked = quick_check(context, start)
        fault, kernels, by_values = checked.fault, checked.kernels, checked.loops_by_values
        us = None if checked.estimate is None else checked.estimate.candidate_us
    if us is None and fault is None:
        fault = Reason("unverifiable", "there is no time for it")
    return SweptRow(values, us, kernels, fault, by_values)


@contextmanager
def _ready(
    context: JudgeContext, start: Callable[[], CandidateProcess]
) -> Iterator[CandidateProcess]:
    with start() as process:
        make_ready(context, process)
        yield process
