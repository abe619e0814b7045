"""A candidate compiled and counted at the user's sizes in seconds, and not verified: a look before a turn.

What it says enters no verdict: the candidate can see that its tensors hold nothing.
"""

from __future__ import annotations

from kernelagent.domain.evaluation import Reason
from kernelagent.domain.replies.tool_calls import Checked
from kernelagent.tools.judge.bounds.counted_calls import count_without_contents, looping_by_values
from kernelagent.tools.judge.bounds.counted_costs import CountedCosts, costs_of
from kernelagent.tools.judge.bounds.real_work import (
    NEEDS_VALUES,
    Start,
    make_ready,
    reference_rows,
    reference_stops,
    step_at_full_size,
)
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.timing import device_profile
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.rejection import Rejected


def quick_check(context: JudgeContext, start: Start) -> Checked:
    """Registers, spills, shared memory, occupancy, waves and the estimate; a failure is a value.

    `start`: a process of the candidate, nothing loaded.
    """
    try:
        with start() as process:
            if context.device.kind == "cuda":
                return _on_cuda(context, process)
            return _counted(context, process)
    except Rejected as refused:
        return Checked(refused.reason)


def _counted(context: JudgeContext, process: CandidateProcess) -> Checked:
    process.load()
    if context.whole is None:
        context.require_same_state(context.construct(process))
    else:
        context.construct_at_full_size(process)
    counted: list[CountedCosts] = []
    by_values: dict[str, None] = {}
    for source in context.sources:
        step = step_at_full_size(context, source)
        call = count_without_contents(process, source.full, step, sample=context.sample, brief=True)
        if not call.launches:
            return Checked(Reason("no_kernel", "the forward launched no Triton kernel"))
        try:
            rows = call.torch_rows, reference_rows(context, source)
        except NEEDS_VALUES as error:
            why = reference_stops(source.name, error)
            return Checked(Reason("unverifiable", f"it compiles, and nothing was counted: {why}"))
        by_values |= dict.fromkeys(looping_by_values(call.launches))
        promised = context.judge_device.promised
        counted.append(costs_of(context, source, call.launches, rows, promised, frozenset()))
    worst = min(counted, key=lambda item: item.estimate.ratio)
    names = (name for item in counted for name in item.torch_operations)
    operations = tuple(dict.fromkeys(names))
    return Checked(None, worst.kernels, worst.estimate, operations, tuple(by_values))


def _on_cuda(context: JudgeContext, process: CandidateProcess) -> Checked:
    """One traced forward. Never run on a GPU so far."""
    make_ready(context, process)
    return Checked(kernels=device_profile.look(context, process).kernels)
