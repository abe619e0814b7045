"""One call beyond the verdict's own, and how it went: nobody is refused for a wrong answer there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from kernelagent.domain.errors import ProblemError
from kernelagent.tools.calls.complex_numbers import parts_first
from kernelagent.tools.calls.surroundings import USUAL
from kernelagent.tools.calls.torch_dtypes import widened
from kernelagent.tools.calls.training_step import TrainingStep
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.one_trial import trial_on
from kernelagent.tools.judge.problem.trials.probes import (
    share_nonfinite,
    with_tensors,
)
from kernelagent.tools.judge.problem.trials.rounds import Trial
from kernelagent.tools.judge.problem.trials.trials import fresh_seed
from kernelagent.tools.judge.verify.compare import compare
from kernelagent.tools.judge.verify.compare.small_results import lost_results, zeros_of_other_sign
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.process.answers import Answer
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.rejection import Rejected
from kernelagent.tools.judge.verify.side_effects import SideEffects

_TOLD = frozenset({"runtime_error", "out_of_bounds", "unverifiable", "data_race", "crash"})
_BEYOND = "beyond"
"""In place of a probe's name: of none that the verdict itself has."""
TIMEOUT = "timeout"
_TIME = "time"
"""What a refusal means, where no more is known than that the time was up."""
NO_ANSWER = (ProblemError, RuntimeError, ValueError, ArithmeticError)
"""What a reference raises that has no answer."""


@dataclass(frozen=True)
class Asked:
    """How one call went."""

    code: str | None = None
    wrong: str | None = None
    """None where the answers agree, or where the time was up before there was one."""
    late: bool = False
    """Whether the time was up: nothing is known of the answer."""
    lost: str | None = None
    """What is wrong in results too small for that to show."""
    zeros: str | None = None
    """Which zeros have another sign."""
    what: str = "result differs"
    """What is wrong, as a sentence goes on."""

    @property
    def agrees(self) -> bool:
        return self.wrong is None and not self.late


def without_end(refused: Rejected) -> Asked:
    """What is told of a call that did not end, and the candidate's process with it; any other refusal is raised again."""
    if refused.reason.code != TIMEOUT:
        raise refused
    return Asked(TIMEOUT, refused.reason.message[:300])


def ask(
    context: JudgeContext,
    process: CandidateProcess,
    findings: Findings,
    source: InputSource,
    arguments: Arguments,
    probe: str,
    *,
    weights: Mapping[str, torch.Tensor] | None = None,
    step: TrainingStep | None = None,
    nonfinite: float = 1.0,
    own_state: str = "",
) -> Asked | None:
    """None where the reference itself has no answer, not the same one twice, or more of it is NaN or infinite.

    It has none either where its answer depends on which of its writes to one place comes last.

    `weights`: other than the given ones; `step`: the call is a training step. `nonfinite`: the largest share of an
    output that may be. `own_state`: a buffer of the module's own that is given in the place of an input.
    What there was no time for is noted in `findings`, by the name `probe` has for it.
    """
    weights = context.oracle.given_weights if weights is None else weights
    oracle = context.oracle.beside()
    oracle.use_weights(weights)
    oracle = oracle if step is None else oracle.asking(step)
    oracle = oracle.given_its_own(own_state)
    try:
        again = oracle.eager(arguments)
        if share_nonfinite(again) > nonfinite:
            return None
        if oracle.order_of_writes_shows(arguments):
            return None
        generator = torch.Generator().manual_seed(fresh_seed())
        trial = trial_on(oracle, source.name, _BEYOND, arguments, {}, generator)
    except NO_ANSWER:
        return None
    expected = trial.expected
    if not same_answers(expected.output, again):
        return None
    process.hold(weights)
    _forget_launches(context, process)
    try:
        asked = replace(USUAL, own_state=own_state)
        answer = process.call(arguments, step=step, surroundings=asked)
        if not (expected.state64 or own_state or step):
            process.still_holds(weights)
        rows = process.take_launches() if context.device.kind == "virtual" else []
    except Rejected as refused:
        if refused.reason.code not in _TOLD:
            raise
        if refused.reason.detail.get("means") == _TIME:
            return _not_in_time(findings, probe)
        return Asked(refused.reason.code, refused.reason.message[:300])
    for row in rows:
        if fault := row.get("fault"):
            if fault["detail"].get("means") == _TIME:
                return _not_in_time(findings, probe)
            return Asked(str(fault["code"]), str(fault["message"])[:300])
    compared = compare.compare(answer.output, trial.compared, input_set=source.name, probe=probe)
    reason = compared.reason
    if reason is not None:
        return Asked(
            reason.code, f"{reason.message[:300]}{_of_its_own(expected.output, expected.output64)}"
        )
    if expected.state64 and not (own_state or step):
        left = _left_otherwise(SideEffects(process, findings, oracle), trial, weights)
        if left is not None:
            return left
    three = answer.output, expected.output, expected.output64
    return Asked(lost=lost_results(*three), zeros=zeros_of_other_sign(*three))


def _left_otherwise(
    effects: SideEffects, trial: Trial, weights: Mapping[str, torch.Tensor]
) -> Asked | None:
    """Where the state after the call is another than the reference leaves."""
    try:
        effects.state_updated(trial, weights)
    except Rejected as refused:
        if refused.reason.code != "state_not_updated":
            raise
        return Asked(refused.reason.code, refused.reason.message[:300], what="state differs")
    return None


def _not_in_time(findings: Findings, probe: str) -> Asked:
    """Running out of time is no answer, so it is no other one than the module's."""
    findings.note_untried(probe)
    return Asked(late=True)


def _of_its_own(own: object, exact: object) -> str:
    """What is expected is float64's answer; where the module's own is none, that must stand beside it."""
    if share_nonfinite(own) <= share_nonfinite(exact):
        return ""
    return " (expected is the answer in float64; some of what your module answers in its own type is NaN or infinite)"


def with_changed(arguments: Arguments, tensors: Mapping[str, torch.Tensor]) -> Arguments:
    """The arguments with these tensors in the places of their names."""
    args, kwargs = with_tensors(arguments, tensors)
    return args, kwargs


def answers(
    context: JudgeContext,
    process: CandidateProcess,
    arguments: Arguments,
    step: TrainingStep | None = None,
) -> bool:
    """Whether the candidate answers at all; `step`: the call is a training step."""
    return answer_of(context, process, arguments, step) is not None


def answer_of(
    context: JudgeContext,
    process: CandidateProcess,
    arguments: Arguments,
    step: TrainingStep | None = None,
) -> Answer | None:
    """The candidate's own; None where it has none."""
    process.use_weights(context.oracle.given_weights)
    _forget_launches(context, process)
    try:
        answer = process.call(arguments, step=step)
        rows = process.take_launches() if context.device.kind == "virtual" else []
    except Rejected as refused:
        if refused.reason.code not in _TOLD:
            raise
        return None
    return None if any(row.get("fault") for row in rows) else answer


def _forget_launches(context: JudgeContext, process: CandidateProcess) -> None:
    """Those of an earlier call that was refused: a fault among them is not the next call's."""
    if context.device.kind == "virtual":
        process.take_launches()


def same_answers(left: object, right: object) -> bool:
    """Whether all tensors of both hold the same, NaN in the same places."""
    pairs = zip(compare.leaves(left), compare.leaves(right), strict=True)
    return all(
        torch.equal(_widened(a).nan_to_num(), _widened(b).nan_to_num())
        and torch.equal(_widened(a).isnan(), _widened(b).isnan())
        for (_, a), (_, b) in pairs
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)
    )


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    return parts_first(widened(tensor))
