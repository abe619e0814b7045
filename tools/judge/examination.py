"""One candidate's judging at one size: every call compared, then whether its kernels do the work, then what it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from kernelagent.tools.judge.bounds.real_work import make_ready
from kernelagent.tools.judge.contribution.at_hidden_sizes import (
    AT_THE_END,
    IN_A_TURN,
    audit_hidden_sizes,
)
from kernelagent.tools.judge.contribution.check import (
    Report,
    check_contribution,
    looks_slow,
    proof_at_the_end,
)
from kernelagent.tools.judge.envelope import envelope
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.steps.training import (
    STEPS_AT_THE_END,
    STEPS_OF_A_TURN,
    training_rounds,
)
from kernelagent.tools.judge.problem.trials.corners import corner_rounds
from kernelagent.tools.judge.problem.trials.far_rounds import (
    FAR_ON_AT_THE_END,
    FAR_ON_IN_A_TURN,
    far_rounds,
)
from kernelagent.tools.judge.problem.trials.planting.literals import literals_of
from kernelagent.tools.judge.problem.trials.rounds import Rounds
from kernelagent.tools.judge.problem.trials.solved_integers import solved_rounds
from kernelagent.tools.judge.problem.trials.trials import PLAN_AT_THE_END, PLAN_OF_A_TURN, rounds
from kernelagent.tools.judge.problem.wrong_steps.search import showing_rounds
from kernelagent.tools.judge.problem.wrong_steps.shown import Shown
from kernelagent.tools.judge.stages import Stages
from kernelagent.tools.judge.verify.at_your_sizes.comparing import compare_at_your_sizes
from kernelagent.tools.judge.verify.beyond.beyond import Fixed, beyond
from kernelagent.tools.judge.verify.beyond.kernel_parts import NOT_ASKED, KernelPartsNotShown
from kernelagent.tools.judge.verify.beyond.reference_choices import file_of_forward
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.other_methods import other_methods
from kernelagent.tools.judge.verify.parameters import compare_parameters
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.rejection import Rejected
from kernelagent.tools.judge.verify.verify import Verifier

_FIRST_ORDER = (
    "first_order_only",
    "gradients were verified, gradients of gradients (create_graph=True) were not",
)
Purpose = Literal["turn", "verdict", "certificate"]
"""A turn's winner is judged again, so that of what only tells a sample is asked in a turn; a verdict has all of it, on
a turn's calls; a certificate has more of these, too."""
_SEARCH: Mapping[Purpose, tuple[int, float]] = {
    "turn": (2, 1.0),
    "verdict": (4, 2.0),
    "certificate": (8, 10.0),
}
"""Calls that are looked for because they show more of the reference, and seconds of processor time for that."""


_PARTS_S: Mapping[Purpose, float] = {"turn": 2.0, "verdict": 4.0, "certificate": 10.0}
"""How long judged calls are made again without a part of a kernel."""


def findings_for(context: JudgeContext, purpose: Purpose) -> Findings:
    """Nothing has been seen yet."""
    file = file_of_forward(context.oracle.module)
    return Findings(shown=Shown.of(file, most_seconds=_SEARCH[purpose][1]))


@dataclass(frozen=True)
class Examination:
    """What is asked with; nothing of the candidate runs here."""

    context: JudgeContext
    source: str
    purpose: Purpose
    stages: Stages
    findings: Findings
    start: Callable[[], CandidateProcess]
    """A fresh process of the candidate's; nothing in it tells one from another."""
    attempts: Callable[[], int]
    """Counts one more that has come so far; how many have, to be emitted."""

    def report(self) -> tuple[Report, Fixed]:
        """What an acceptance says besides `findings`, and what the emitted module compares; raises `Rejected`."""
        context, findings, stages = self.context, self.findings, self.stages
        with stages.step("start", overhead=True):
            process = self.start()
        with process:
            declared = self._load_and_construct(process)
            with stages.step("verify"):
                self._verify(process)
                slow = looks_slow(context, process, findings)
                proof_at_the_end(context, process)
                fixed = beyond(context, process, findings, sample=self.purpose == "turn")
        report = check_contribution(
            context,
            self.start,
            findings,
            stages.step,
            slow=slow,
            declared=declared,
            certificate=self._last,
            attempts=self.attempts(),
        )
        self._tell_of_parts()
        most = AT_THE_END if self._last else IN_A_TURN
        told = audit_hidden_sizes(context, self.start, findings, stages.step, report, most)
        told += compare_at_your_sizes(
            context,
            self.start,
            findings,
            stages.step,
            self.source,
            in_a_turn=self.purpose == "turn",
        )
        return replace(report, disclosures=(*report.disclosures, *told)), fixed

    def _tell_of_parts(self) -> None:
        """What the kernels could do with less without a judged call's showing it."""
        context, findings = self.context, self.findings
        if context.device.kind != "virtual":
            return
        why = "the inputs and weights of the judged calls are too large to be kept"
        if len(findings.kept_calls):
            why = "the candidate's process could not be started once more in time"
            # What ends early here refuses nobody: it was right in every judged call.
            with self.stages.step("kernel parts"), suppress(Rejected), self.start() as process:
                make_ready(context, process)
                why = ""
                seconds, in_a_turn = _PARTS_S[self.purpose], self.purpose == "turn"
                KernelPartsNotShown(process, findings, seconds, in_a_turn).of(findings.kept_calls)
        if why and self.purpose != "turn":
            findings.disclose(
                NOT_ASKED, f"which parts of the kernels the judged calls need was not asked: {why}"
            )

    @property
    def _last(self) -> bool:
        return self.purpose == "certificate"

    def _load_and_construct(self, process: CandidateProcess) -> dict[str, object] | None:
        """Returns the envelope that the candidate declares."""
        context, stages, findings = self.context, self.stages, self.findings
        with stages.step("load"):
            declared = process.load()
        with stages.step("construct"):
            rows = context.construct(process)
            context.require_same_state(rows)
            if process.not_moved:
                findings.disclose(
                    "not_moved",
                    f"the constructor makes {', '.join(process.not_moved)} on the GPU as a plain attribute: `.to()` moves "
                    f"parameters and buffers alone, so on another GPU kernels are given an address of the first; make it "
                    f"a buffer with persistent=False",
                )
            oracle = context.oracle
            # How weights are initialised matters for training only: elsewhere the user's own are loaded over them.
            built = context.trains and context.problem.constructor == "init"
            begun = oracle.given_weights if built else None
            for compare_parameter in compare_parameters(
                oracle.module, begun, rows, trains=context.trains
            ):
                findings.disclose(compare_parameter.code, compare_parameter.message)
            methods = other_methods(oracle.module, self.source)
            if methods is not None:
                findings.disclose(methods.code, methods.message)
        return declared

    def _verify(self, process: CandidateProcess) -> None:
        context, findings, source = self.context, self.findings, self.source
        verifier = Verifier.of(context, process, findings)
        # The next round is drawn while the candidate works on the one before.
        every = context.oracle.beside(), context.sources, context.dynamic
        literals = literals_of(source, context.problem.source)
        plan = PLAN_AT_THE_END if self._last else PLAN_OF_A_TURN
        drawn = rounds(*every, plan=plan, literals=literals)
        self._run(drawn, verifier)
        most = FAR_ON_AT_THE_END if self._last else FAR_ON_IN_A_TURN
        far = partial(far_rounds, *every[:2], most=most, literals=literals)
        self._run(far(), verifier)
        corners = partial(corner_rounds, *every[:2], literals=literals)
        self._run(corners(steps=False), verifier)
        self._run(solved_rounds(*every[:2], literals=literals), verifier)
        most_calls, seconds = _SEARCH[self.purpose]
        showing = showing_rounds(
            *every[:2], findings.shown, literals=literals,
            most_calls=most_calls, most_seconds=seconds,
        )  # fmt: skip
        self._run(showing, verifier)
        tried, offered = findings.configuration, process.configurations
        if offered > tried:
            findings.disclose(
                "configurations",
                f"{tried} of {offered} configurations of an autotuned kernel were run; another may "
                f"be chosen on a GPU",
            )
        for disclosure in findings.specialised.disclosures(process.tunings, offered):
            findings.disclose(disclosure.code, disclosure.message)
        bounds = envelope.bounds_sentence(context)
        if bounds is not None:
            findings.disclose("dynamic_sizes", bounds)
        if context.trains:
            steps = STEPS_AT_THE_END if self._last else STEPS_OF_A_TURN
            drawn = training_rounds(*every, plan=steps, literals=literals)
            self._run(drawn, verifier)
            self._run(corners(steps=True), verifier)
            # A training step counts on for every batch norm: a few states are enough.
            few = max(FAR_ON_IN_A_TURN, most // 4)
            self._run(far(most=few, training=True), verifier)
            findings.disclose(*_FIRST_ORDER)
        untried = findings.choices.sentence(literals_of("", context.problem.source).values)
        if untried is not None:
            findings.disclose("choices_not_tried", untried)
        of_reference = findings.reference_choices.sentence()
        if of_reference is not None:
            findings.disclose("reference_choices_not_tried", of_reference)
        for disclosure in findings.shown.disclosures():
            findings.disclose(disclosure.code, disclosure.message)
        smaller = any(source.shrunk is not None for source in context.sources)
        for disclosure in findings.compiled_code.disclosures(smaller=smaller):
            findings.disclose(disclosure.code, disclosure.message)

    def _run(self, drawn: Rounds, verifier: Verifier) -> None:
        # On a GPU both would need its memory at once.
        if self.context.device.kind == "virtual":
            verifier = replace(verifier, meanwhile=drawn.step)
        for item in drawn:
            verifier.run(item)
