"""The emitted file itself, put on the user's module and called: what a user runs, where the verdict is of `ModelNew` alone.

It runs in a candidate's process, which has the user's module in it as well. A candidate that behaves there
gains nothing: it has been judged by itself before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kernelagent.domain.evaluation import Disclosure, Evaluation, Reason
from kernelagent.domain.serialization import to_data
from kernelagent.tools.calls.surroundings import USUAL, Deck, Surroundings
from kernelagent.tools.judge.envelope import envelope
from kernelagent.tools.judge.problem import describe
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.steps.training import AT_OTHER_SIZES, training_rounds
from kernelagent.tools.judge.problem.trials.trials import WHERE_SIZES_SHOW, rounds
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.rejection import Rejected
from kernelagent.tools.judge.verify.verify import Verifier

_NOT_OF_THE_FILE = frozenset(
    {"crash", "timeout", "unverifiable", "out_of_memory", "forbidden_access", "tampering"}
)
"""Of a process that has the user's code in it as well, which may do any of this."""
_OTHERWISE = (
    "put on your module as the emitted file puts it there, it goes otherwise than by itself"
)
_TOLD = frozenset({"attributes_left", "state_in_other_tensors", "memory_not_shared"})


class _Usual(Deck):
    """Every call is made as a user's program usually makes it: in others the drop-in may ask the original."""

    def __init__(self) -> None:
        super().__init__(binds=False)

    def next(self, *, keeps_state: bool) -> Surroundings:
        return USUAL


def tried_as_emitted(
    context: JudgeContext, start: Callable[[], CandidateProcess], evaluation: Evaluation
) -> Evaluation:
    """The acceptance with what is to be told of the file; refused where the user's module answers otherwise.

    `start`: a fresh process with the file's text and the user's problem.
    """
    findings = Findings()
    try:
        with start() as process:
            process.load()
            rows = process.construct(
                "emitted",
                _given(context),
                training=context.training,
                keeps_random_state=context.keeps_random_state,
            )
            context.require_same_state(rows)
            _call(context, process, findings)
            told = [d for d in findings.disclosures.values() if d.code in _TOLD]
            told += _of_the_original(context, process, findings)
    except Rejected as refused:
        reason = refused.reason
        if reason.code not in _NOT_OF_THE_FILE:
            message = f"{_OTHERWISE}: {reason.message}"
            reason = Reason(reason.code, message, {**reason.detail, "emitted": True})
            return replace(evaluation, verdict="rejected", reason=reason)
        message = f"the emitted file was not put on your module here: {reason.message}"
        told = [Disclosure("emitted_not_tried", message)]
    finally:
        context.oracle.use_weights(context.oracle.given_weights)
    known = {disclosure.code for disclosure in evaluation.disclosures}
    fresh = (disclosure for disclosure in told if disclosure.code not in known)
    return replace(evaluation, disclosures=(*evaluation.disclosures, *fresh))


def _of_the_original(
    context: JudgeContext, process: CandidateProcess, findings: Findings
) -> list[Disclosure]:
    """Input sets that no kernel answers; raises `Rejected` where the drop-in does not say why."""
    asleep = [s.name for s in context.sources if not any(findings.kernels.get(s.name, ()))]
    if asleep and process.by_original:
        message = (
            f"in the emitted module your own forward answers input set {', '.join(asleep)} "
            f"({', '.join(process.by_original)})"
        )
        return [Disclosure("original_answers", message)]
    if asleep and context.settings.policy != "any":
        raise Rejected("no_kernel", f"no kernel runs on input set {', '.join(asleep)}")
    return []


def _call(context: JudgeContext, process: CandidateProcess, findings: Findings) -> None:
    usual = Verifier.of(context, process, findings)
    verifier = replace(usual, needs_kernel=False, deck=_Usual())
    oracle, sources = context.oracle, context.sources
    for item in rounds(oracle, sources, {}, plan=WHERE_SIZES_SHOW):
        verifier.run(item)
    if context.trains:
        for item in training_rounds(oracle, sources, {}, plan=AT_OTHER_SIZES):
            verifier.run(item)


def _given(context: JudgeContext) -> Mapping[str, Any]:
    """What the file is told of the sizes that are executed here, and the buffers that no state has."""
    module = context.oracle.module
    unsaved = {
        name: buffer for name, buffer in module.named_buffers() if name not in module.state_dict()
    }
    executed: dict[str, Any] = {}
    if any(source.shrunk is not None for source in context.sources) or context.whole is not None:
        executed["input_sets"] = [
            envelope.input_set(context, source.name, source.draw(0)) for source in context.sources
        ]
    if context.whole is not None:
        executed |= envelope.read_in(context, context.sources, module)
        executed["state"] = {
            fact.name: {
                "dtype": fact.dtype,
                "shape": list(fact.shape),
                "strides": list(fact.strides),
            }
            for fact in describe.state_facts(module)
        }
    arguments = None if context.whole is None else context.problem.init_args()
    return {"arguments": arguments, "unsaved": unsaved, "executed": to_data(executed)}
