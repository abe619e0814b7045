"""What a candidate does at the user's own sizes, where smaller ones were executed."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from kernelagent.domain.evaluation import Disclosure
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.verify.at_your_sizes.larger_inputs import (
    BATCHES,
    NATURAL,
    Kind,
    LargerSizes,
    has_structures,
)
from kernelagent.tools.judge.verify.at_your_sizes.never_executed import nothing_compared
from kernelagent.tools.judge.verify.at_your_sizes.sampled import SAMPLED, compared_by_sample
from kernelagent.tools.judge.verify.at_your_sizes.whole import NOT_KNOWN, compared_whole
from kernelagent.tools.judge.verify.beyond.allowance import Spans
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.rejection import Rejected

Start = Callable[[], CandidateProcess]
_MOST_SETS = 2
"""Of the input sets so many are compared, in a turn one."""
_RANDOM, _PATTERNED = Kind("natural", weights="random"), Kind("natural", weights="patterned")
_KINDS = (
    _RANDOM, Kind("mixed_rows"), Kind("structures"), Kind("mixed_rows"), Kind("camps"), Kind("large_logits"),
    _PATTERNED,
)  # fmt: skip
"""What is tried there: the length of a loop, the number of a block or a later row may decide what shows."""
_OF_STEPS = (
    _RANDOM, Kind("rowaffine"), Kind("structures"), Kind("row_patterns"), _PATTERNED, Kind("row_patterns"),
)  # fmt: skip
"""The same of training steps."""
_OF_OTHERS = Spans(seconds=8.0, in_a_turn=0.0, longest=40.0)
_WAS_COMPARED = (SAMPLED, "compared_at_larger_sizes")
_NOT_COMPARED = Disclosure(
    "not_compared_at_your_sizes",
    "its programs go by what others have done so far (a ticket, a lock), so that a sample of them tells nothing, and there was "
    "no time for a call of all of them: at your sizes its answer is not known",
)


def compare_at_your_sizes(
    context: JudgeContext,
    start: Start,
    findings: Findings,
    step: Callable[[str], AbstractContextManager[Any]],
    source: str,
    *,
    in_a_turn: bool,
) -> tuple[Disclosure, ...]:
    """What was compared, in input sets that are drawn; raises `Rejected` where an answer is wrong. `source`: the candidate.

    A sample of programs where that tells anything, and one call of all of them where it does not, as where programs go by
    what others have done so far, and at the end. Nothing on a GPU, where the user's sizes are run anyway, and where neither
    is done in time.
    """
    smaller = [inputs for inputs in context.sources if inputs.shrunk is not None]
    if context.device.kind != "virtual" or not smaller:
        return ()
    if in_a_turn and (context.level or findings.order_matters):
        # It took too long at larger sizes already; the last judging tries even so.
        return ()
    told: list[Disclosure] = []
    secrets.SystemRandom().shuffle(smaller)
    compare = partial(_compared, LargerSizes(context, in_a_turn), start, findings)
    asked = [(inputs, NATURAL) for inputs in smaller[: 1 if in_a_turn else _MOST_SETS]]
    if not in_a_turn and has_structures(context, smaller[0]):
        # What a batch has in common (sorted labels, padding) decides more the larger it is.
        asked.append((smaller[0], BATCHES))
    for inputs, kind in asked:
        with step("your sizes"):
            compared = _unless_not_known(partial(compare, inputs, kind=kind))
        told += [disclosure for disclosure in compared if disclosure not in told]
    if not in_a_turn and told:
        with step("your sizes"):
            known = {disclosure.code for disclosure in told}
            kinds = _OF_STEPS if context.trains else _KINDS
            told += _of_others(partial(compare, smaller[0], samples=SAMPLED in known), kinds, known)
    if findings.order_matters and not told:
        told.append(_NOT_COMPARED)
    replaced = context.facts.executed_arguments
    if replaced and not told and not in_a_turn:
        told.append(nothing_compared(source, replaced))
    return tuple(told)


def _unless_not_known(compare: Callable[[], tuple[Disclosure, ...]]) -> tuple[Disclosure, ...]:
    try:
        return compare()
    except Rejected as refused:
        if refused.reason.code not in NOT_KNOWN:
            raise
        return ()


def _of_others(
    compare: Callable[..., tuple[Disclosure, ...]], kinds: Iterable[Kind], known: Collection[str]
) -> list[Disclosure]:
    """What was compared on inputs of these kinds, as far as there is time; `known`: codes of what is told already."""
    allowance = _OF_OTHERS.allowance(sample=False, by_work=True)
    tried: dict[str, None] = {}
    others: dict[str, Disclosure] = {}
    for kind in kinds:
        if allowance.spent:
            break
        for disclosure in _unless_not_known(partial(compare, kind=kind)):
            if disclosure.code in _WAS_COMPARED:
                tried[str(kind)] = None
            elif disclosure.code not in (*known, _NOT_COMPARED.code):
                others.setdefault(disclosure.code, disclosure)
    if not tried:
        return []
    right = f"its answers at larger sizes to other inputs, or under other weights, are right as well: {', '.join(tried)}"
    return [Disclosure("compared_at_larger_sizes", right), *others.values()]


def _compared(
    sizes: LargerSizes,
    start: Start,
    findings: Findings,
    source: InputSource,
    *,
    kind: Kind,
    samples: bool = True,
) -> tuple[Disclosure, ...]:
    """`samples`: False where a sample is known to tell nothing, so that the reference is not asked for one."""
    by_sample = None
    if samples and not sizes.context.trains and not findings.order_matters:
        by_sample = compared_by_sample(sizes, start, findings, source, kind=kind)
    # How much programs store does not tell where: some may store what others have stored, or beside the result.
    is_enough = by_sample is not None and by_sample.is_all and sizes.in_a_turn
    if by_sample is not None and (is_enough or not kind.is_usual):
        return (by_sample.disclosure,)
    whole = compared_whole(sizes, start, findings, source, kind=kind)
    return (by_sample.disclosure, *whole) if by_sample is not None else whole
