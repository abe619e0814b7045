"""What a candidate does at the user's own sizes, where smaller ones were executed."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from kernelagent.domain.evaluation import Disclosure
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.verify.at_your_sizes.larger_inputs import has_structures
from kernelagent.tools.judge.verify.at_your_sizes.sampled import compared_by_sample
from kernelagent.tools.judge.verify.at_your_sizes.whole import NOT_KNOWN, compared_whole
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.rejection import Rejected

Start = Callable[[], CandidateProcess]
_MOST_SETS = 2
"""Of the input sets so many are compared, in a turn one."""


def compare_at_your_sizes(
    context: JudgeContext,
    start: Start,
    findings: Findings,
    step: Callable[[str], AbstractContextManager[Any]],
    *,
    in_a_turn: bool,
) -> tuple[Disclosure, ...]:
    """What was compared, in input sets that are drawn; raises `Rejected` where an answer is wrong.

    A sample of programs where that tells anything, else one call of all of them. Nothing on a GPU, where the user's
    sizes are run anyway, where programs wait for one another, and where neither is done in time.
    """
    smaller = [source for source in context.sources if source.shrunk is not None]
    if context.device.kind != "virtual" or findings.order_matters or not smaller:
        return ()
    if context.level and in_a_turn:
        # It took too long at larger sizes already; the last judging tries even so.
        return ()
    told: list[Disclosure] = []
    secrets.SystemRandom().shuffle(smaller)
    compare = partial(_compared, context, start, findings, in_a_turn=in_a_turn)
    asked = [(source, False) for source in smaller[: 1 if in_a_turn else _MOST_SETS]]
    if not in_a_turn and has_structures(context, smaller[0]):
        # What a batch has in common (sorted labels, padding) decides more the larger it is.
        asked.append((smaller[0], True))
    for source, structured in asked:
        with step("your sizes"):
            try:
                compared = compare(source, structured=structured)
            except Rejected as refused:
                if refused.reason.code not in NOT_KNOWN:
                    raise
                continue
        told += [disclosure for disclosure in compared if disclosure not in told]
    return tuple(told)


def _compared(
    context: JudgeContext,
    start: Start,
    findings: Findings,
    source: InputSource,
    *,
    in_a_turn: bool,
    structured: bool,
) -> tuple[Disclosure, ...]:
    how = {"in_a_turn": in_a_turn, "structured": structured}
    by_sample = None
    if not context.trains:
        by_sample = compared_by_sample(context, start, findings, source, **how)
    if by_sample is not None and by_sample.is_all:
        return (by_sample.disclosure,)
    whole = compared_whole(context, start, findings, source, **how)
    if not whole and by_sample is not None:
        return (by_sample.disclosure,)
    return whole
