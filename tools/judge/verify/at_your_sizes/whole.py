"""One whole call at sizes as large as there is time for, where a sample of programs tells nothing.

Several launches hand values from one to the next, a training step goes on to a backward: all programs of all launches
run, and what an ordinary call returns and leaves is compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from kernelagent.domain.evaluation import Disclosure
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.refusals import REFUSALS
from kernelagent.tools.judge.verify.at_your_sizes.larger_inputs import (
    FOR_A_PROBE,
    Affordable,
    Kind,
    Larger,
    LargerSizes,
    larger_inputs,
)
from kernelagent.tools.judge.verify.at_your_sizes.natural_trial import trial_at
from kernelagent.tools.judge.verify.beyond.reference_choices import ReferenceChoices
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.rejection import Rejected, raised_by_the_forward
from kernelagent.tools.judge.verify.verify import Verifier


@dataclass(frozen=True)
class _Tried:
    """One size: the work of the call in the interpreter's seconds, and how long its launches may take."""

    work: float
    seconds: float


_IN_A_TURN = (_Tried(5.0, 10.0),)
_AT_THE_END = (_Tried(96.0, 45.0), _Tried(24.0, 30.0), *_IN_A_TURN)
NOT_KNOWN = frozenset({"timeout", "unverifiable", "out_of_memory", "crash"})
"""It was verified at the sizes that are executed; what there is no time or no memory for here is no fault of its."""
_LONGEST = 400
"""Characters of what a candidate says itself."""
_MOST = Affordable(2e9)


def compared_whole(
    sizes: LargerSizes,
    start: Callable[[], CandidateProcess],
    findings: Findings,
    source: InputSource,
    *,
    kind: Kind,
) -> tuple[Disclosure, ...]:
    """What was compared, and what no call told before; raises `Rejected` as an ordinary call does.

    Empty where nothing larger than what was executed can be done in time.
    """
    not_taken: tuple[Disclosure, ...] = ()
    most = _MOST if kind.is_usual else FOR_A_PROBE
    for tried in _AT_THE_END if kind.is_usual and not sizes.in_a_turn else _IN_A_TURN:
        given = larger_inputs(sizes, source, (tried.work,), most=most, kind=kind)
        if given is None:
            continue
        try:
            return _compared(sizes.context, start, findings, given, tried.seconds)
        except Rejected as refused:
            if raised_by_the_forward(refused.reason) and not given.must_be_taken:
                # It may be written for the user's sizes, and raise at others as it is asked to.
                not_taken = not_taken or (_not_taken(source, refused),)
            elif refused.reason.code not in NOT_KNOWN:
                raise
    return not_taken


def _not_taken(source: InputSource, refused: Rejected) -> Disclosure:
    return Disclosure(
        "not_compared_at_your_sizes",
        f"no call of all its programs on input set {source.name!r} was compared that is larger than what was executed; it "
        f"need not take what there was time for: {refused.reason.message[:_LONGEST]}",
    )


def _compared(
    context: JudgeContext,
    start: Callable[[], CandidateProcess],
    findings: Findings,
    given: Larger,
    seconds: float,
) -> tuple[Disclosure, ...]:
    trial = trial_at(context, given)
    if trial is None:
        return ()
    # The reference's own choices are told by now: at these sizes following it takes seconds.
    here = Findings(kernels=findings.kernels, reference_choices=ReferenceChoices(most_calls=0))
    with start() as process:
        process.load()
        context.construct_at_full_size(process, given.oracle.module)
        process.command_executor({"kind": "mode", "mode": "execute", "seconds": seconds})
        verifier = Verifier.of(context, process, here)
        try:
            replace(verifier, oracle=given.oracle).once(trial, given.weights)
        except REFUSALS:
            # Of the reference, which is asked again for the noise of what was refused.
            return ()
        except Rejected as refused:
            raise Rejected(
                refused.reason.code,
                f"{given.where}: {refused.reason.message}",
                {**refused.reason.detail, "at_your_sizes": True},
            ) from refused
    order = "; programs ran in one order alone" if here.order_matters else ""
    compared = Disclosure(
        "compared_at_larger_sizes",
        f"one call of all programs was made on {given.where} as well, and its answer is right{order}",
    )
    others = [d for code, d in here.disclosures.items() if code not in findings.disclosures]
    return (compared, *(replace(d, message=f"{given.where}: {d.message}") for d in others))
