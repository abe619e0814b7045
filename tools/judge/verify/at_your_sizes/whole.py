"""One whole call at sizes as large as there is time for, where a sample of programs tells nothing.

Several launches hand values from one to the next, a training step goes on to a backward: all programs of all launches
run, and every check of an ordinary call is made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from kernelagent.domain.evaluation import Disclosure
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.steps.steps import scaled, single_step
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.one_trial import trial_on
from kernelagent.tools.judge.problem.trials.probes import REFUSALS
from kernelagent.tools.judge.problem.trials.rounds import Trial
from kernelagent.tools.judge.problem.trials.trials import fresh_seed
from kernelagent.tools.judge.verify.at_your_sizes.larger_inputs import Larger, larger_inputs
from kernelagent.tools.judge.verify.compare import compare
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.rejection import Rejected
from kernelagent.tools.judge.verify.verify import Verifier

_IN_A_TURN: tuple[float, ...] = (5.0,)
_AT_THE_END: tuple[float, ...] = (24.0, 5.0)
"""Work of the call, in seconds of the interpreter's."""
_MOST_BYTES = 1e9
"""That the reference's operations may read and write."""
_TIMES = 2.0
"""A right candidate may need so many times the seconds that its reference is taken for."""


def compared_whole(
    context: JudgeContext,
    start: Callable[[], CandidateProcess],
    findings: Findings,
    source: InputSource,
    *,
    in_a_turn: bool,
) -> Disclosure | None:
    """What was compared; raises `Rejected` as an ordinary call does.

    None where nothing larger than what was executed can be done in time.
    """
    works = _IN_A_TURN if in_a_turn else _AT_THE_END
    given = larger_inputs(context, source, works, most_bytes=_MOST_BYTES)
    trial = None if given is None else _trial(context, given)
    if given is None or trial is None:
        return None
    seen = Findings(kernels=findings.kernels)
    with start() as process:
        process.load()
        context.construct_at_full_size(process, given.oracle.module)
        process.command_executor({"kind": "mode", "mode": "execute", "seconds": _TIMES * works[0]})
        verifier = replace(Verifier.of(context, process, seen), oracle=given.oracle)
        try:
            verifier.once(trial, given.oracle.given_weights)
        except Rejected as refused:
            raise Rejected(
                refused.reason.code,
                f"{given.where}: {refused.reason.message}",
                {**refused.reason.detail, "at_your_sizes": True},
            ) from refused
    return Disclosure(
        "compared_at_larger_sizes",
        f"one call of all programs was made on {given.where} as well, and its answer is right",
    )


def _trial(context: JudgeContext, given: Larger) -> Trial | None:
    """None where the reference has no answer there."""
    generator = torch.Generator().manual_seed(fresh_seed())
    oracle, arguments = given.oracle, given.draw()
    try:
        if not context.trains:
            scale = compare.scales_of(oracle.in_float64_or_eager(arguments))
            return trial_on(oracle, given.name, "natural", arguments, scale, generator)
        step = single_step(oracle, arguments, generator)
        asking = oracle.asking(step)
        scale = scaled(compare.scales_of(asking.in_float64_or_eager(arguments)), step)
        trial = trial_on(asking, given.name, "natural", arguments, scale, generator)
    except REFUSALS:
        return None
    return replace(trial, step=replace(step, watched=True))
