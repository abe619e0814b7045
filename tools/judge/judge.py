"""One judge for one problem: reads it once, then gives a verdict on each candidate it is handed."""

from __future__ import annotations

import json
import secrets
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.evaluation import (
    DeviceFacts,
    Disclosure,
    Evaluation,
    Hashes,
    InputSetResult,
    KernelFacts,
    Reason,
)
from kernelagent.domain.problem import ProblemFacts, ProblemSpec
from kernelagent.domain.profile import ReferenceProfile
from kernelagent.domain.replies.tool_calls import ToolCall, ToolResult
from kernelagent.tools.judge.bounds import reference_profile
from kernelagent.tools.judge.contribution.check import (
    Report,
)
from kernelagent.tools.judge.envelope import envelope
from kernelagent.tools.judge.envelope.search import widen
from kernelagent.tools.judge.examination import Examination, Purpose, findings_for
from kernelagent.tools.judge.harness import harness_sha256
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.source_reading.reading import disclosures as read_disclosures
from kernelagent.tools.judge.source_reading.syntax import syntax_fault
from kernelagent.tools.judge.stages import OnStage, Stages
from kernelagent.tools.judge.timing import counting
from kernelagent.tools.judge.verify.as_emitted import tried_as_emitted
from kernelagent.tools.judge.verify.beyond.beyond import Fixed
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.process.compiled_kernels import CompiledKernels
from kernelagent.tools.judge.verify.process.limits import Deadline, Limits, how_busy, limits_for
from kernelagent.tools.judge.verify.rejection import (
    Rejected,
    beyond_means,
    of_smaller_sizes,
    with_the_line,
)
from kernelagent.tools.judge.workbench.answering import Workbench
from kernelagent.tools.sandbox.spawn import ForkServer
from kernelagent.tools.sandbox.sweeping import sweep


class Judge:
    """Holds the user's module, the fork server and the device; nothing of a candidate ever runs here."""

    def __init__(
        self,
        settings: JudgeSettings,
        fork_server: ForkServer | None = None,
        busy: Callable[[], float] = how_busy,
    ) -> None:
        """Raises `ProblemError` for the problem, `EnvironmentFault` for the machine.

        `fork_server`: shared with other judges of this process; the caller closes it. `busy`: how much longer what is
        limited in seconds may take on `virtual` because of others' work.
        """
        self._settings = settings
        self.context = JudgeContext.open(settings, fork_server)
        self.usual_limits = limits_for(settings, self.context.device.kind)
        self._busy = busy
        self.scratch = Path(tempfile.mkdtemp(prefix="kernelagent-"))
        self._compiled = CompiledKernels(Path(self.context.scratch.name, "compiled"))
        self._ended_in: dict[str, JudgeContext] = {}
        """For each accepted source: the problem at the (perhaps smaller) sizes at which it was judged; judging again starts there."""
        self._certified = 0

    @property
    def limits(self) -> Limits:
        """Of a judging that begins now."""
        return self.usual_limits.times(self._busy_now())

    def _busy_now(self) -> float:
        return self._busy() if self.context.device.kind == "virtual" else 1.0

    @property
    def facts(self) -> ProblemFacts:
        return self.context.facts

    @property
    def device(self) -> DeviceFacts:
        return self.context.device

    @property
    def sandbox(self) -> str:
        return self.context.sandbox

    def close(self) -> None:
        self.context.close()
        sweep(self.scratch)

    def profile_reference(self) -> tuple[ReferenceProfile, ...]:
        """Where the user's own module spends its time, by input set."""
        return reference_profile.profile_reference(self.context)

    def evaluate(
        self, source: str, purpose: Purpose, on_stage: OnStage, seconds: float | None = None
    ) -> Evaluation:
        """The verdict on one candidate; a failing candidate is a value, never an exception.

        `seconds`: how long it may take at most on `virtual`, at all sizes together; None: the usual limits.
        """
        ends = None if seconds is None else Deadline(seconds * self._busy_now())
        stages, context = Stages(on_stage), self._ended_in.get(source, self.context)
        too_large: Rejected | None = None
        while True:
            findings, blank = findings_for(context, purpose), self._blank(source, context)
            try:
                report, fixed = self._examine(context, source, purpose, stages, findings, ends)
                break
            except Rejected as refused:
                smaller = context.smaller if beyond_means(refused) else None
                if smaller is None:
                    why = of_smaller_sizes(refused, too_large) if too_large else refused
                    reason = with_the_line(why.reason, source)
                    return replace(self._refused(blank, why, stages, findings), reason=reason)
                context, too_large = smaller, refused
        self._ended_in[source] = context
        disclosures = (
            *findings.disclosures.values(),
            *report.disclosures,
            *read_disclosures(source),
        )
        return Evaluation(
            verdict="accepted",
            device=self.device,
            stages=tuple(stages.done),
            correctness=findings.correctness,
            kernels=report.kernels,
            timing=report.timing,
            estimate=report.estimate,
            headroom=report.headroom,
            disclosures=(*disclosures, *blank.disclosures),
            faster=report.faster,
            baseline=blank.baseline,
            policy=blank.policy,
            mode=blank.mode,
            sandbox=blank.sandbox,
            envelope=envelope.verified(
                context, report.declared, fixed, binds=findings.binds_state, leaves=findings.left
            ),
            hashes=blank.hashes,
            precision=blank.precision,
            matmul_precision=blank.matmul_precision,
            input_sets=_input_sets(context, report),
        )

    def widen(self, source: str, evaluation: Evaluation, seconds: float) -> Evaluation:
        """The acceptance with the neighbouring inputs on which the candidate is right as well."""
        scratch = self._fresh_scratch()

        def ready() -> CandidateProcess:
            process = self._start(source, scratch)
            try:
                process.load()
                self.context.construct(process)
            except BaseException:
                process.close()
                raise
            return process

        try:
            # Sets whose values are compared by a digest get no neighbours: there is no digest for another size.
            closed = {
                s["name"] for s in evaluation.envelope["input_sets"] if '"values"' in json.dumps(s)
            }
            in_full = partial(self._in_full, source, evaluation)
            result = widen(self.context, ready, in_full, seconds, closed=frozenset(closed))
        finally:
            sweep(scratch)
        sets = [*evaluation.envelope["input_sets"], *result.admitted]
        told = (*result.told, Disclosure("envelope", result.said()))
        context, read = self.context, dict[str, Any]()
        if result.sources:
            # Their calls may read what none of the given input sets has made the module read.
            every = (*context.sources, *result.sources)
            read = envelope.read_in(context, every, context.module_at_full_size)
        return replace(
            evaluation,
            envelope={**evaluation.envelope, **read, "input_sets": sets},
            disclosures=(*evaluation.disclosures, *told),
        )

    def try_emitted(self, text: str, evaluation: Evaluation, seconds: float) -> Evaluation:
        """The acceptance with what calls of the emitted file have shown; refused where they go otherwise.

        `text`: the file with its drop-in, which is put on the user's module as a user puts it there.
        """
        scratch = self._fresh_scratch()
        own = None if evaluation.hashes is None else evaluation.hashes.candidate
        sizes = {Candidate(source).sha256: context for source, context in self._ended_in.items()}
        start = partial(self._start, text, scratch, Deadline(seconds * self._busy_now()))
        try:
            put_on = partial(start, problem=self._settings.problem)
            return tried_as_emitted(sizes.get(own or "", self.context), put_on, evaluation)
        finally:
            sweep(scratch)

    def _in_full(
        self, source: str, known: Evaluation, inputs: InputSource
    ) -> tuple[Disclosure, ...]:
        """What judging on these inputs alone tells besides what is known; raises `Rejected`."""
        findings, context = Findings(), self.context.at(inputs)
        # What only tells has been asked in full at the sizes that are given.
        report, _ = self._examine(context, source, "turn", Stages(lambda _: None), findings, None)
        codes = {disclosure.code for disclosure in known.disclosures}
        told = [
            Disclosure(each.code, f"at {inputs.name}: {each.message}")
            for each in (*findings.disclosures.values(), *report.disclosures)
            if each.code not in codes
        ]
        then, now = known.estimate, report.estimate
        if then is not None and now is not None and now.ratio < 1 <= then.ratio:
            told.append(
                Disclosure(
                    "slower_at_neighbour",
                    f"at {inputs.name} it is estimated slower than the original: {now.candidate_us:.1f} µs, "
                    f"eager {now.eager_us:.1f} µs",
                )
            )
        return tuple(told)

    def count(self, source: str, evaluation: Evaluation) -> Evaluation:
        """The acceptance with hardware counters where Nsight Compute may read them; `cuda` alone."""
        scratch = self._fresh_scratch()
        try:
            return counting.count(self.context, source, evaluation, scratch)
        finally:
            sweep(scratch)

    def call_tool(self, call: ToolCall, seconds: float) -> ToolResult:
        """Answer a writer's call beside its turns; nothing of it enters a verdict.

        `seconds`: how long it may take at most on `virtual`.
        """
        scratch = self._fresh_scratch()
        try:
            start = partial(self._start, scratch=scratch)
            return Workbench(self.context, start, seconds, self._busy_now()).answer(call)
        finally:
            sweep(scratch)

    def _examine(
        self,
        context: JudgeContext,
        source: str,
        purpose: Purpose,
        stages: Stages,
        findings: Findings,
        ends: Deadline | None,
    ) -> tuple[Report, Fixed]:
        with stages.step("parse", overhead=True):
            _parse(source)
        scratch = self._fresh_scratch()
        limits = self.limits.of_the_last_judging if purpose == "certificate" else self.limits
        virtual = self.device.kind == "virtual"
        deadline = (ends or Deadline(limits.judging_s)) if virtual else None
        start = partial(self._start, source, scratch, deadline, limits)
        attempts = partial(self._attempts, purpose)
        try:
            return Examination(context, source, purpose, stages, findings, start, attempts).report()
        finally:
            sweep(scratch)

    def _attempts(self, purpose: Purpose) -> int:
        self._certified += purpose == "certificate"
        return max(1, self._certified)

    def _start(
        self,
        source: str,
        scratch: Path,
        deadline: Deadline | None = None,
        limits: Limits | None = None,
        problem: ProblemSpec | None = None,
    ) -> CandidateProcess:
        """Start a process of the candidate; nothing it can see tells it which check it runs in.

        `problem`: the user's, where the text is an emitted file.
        """
        return CandidateProcess(
            self.context.fork_server,
            source=source,
            device=self.device.kind,
            target=self.device.target,
            scratch=scratch / secrets.token_hex(8),
            limits=limits or self.limits,
            sandboxed=self._settings.sandbox != "off",
            torch_device=self.context.judge_device.torch_device,
            may_compile=self._settings.policy == "any",
            deadline=deadline,
            compiled=self._compiled,
            problem=problem,
        )

    def _blank(self, source: str, context: JudgeContext) -> Evaluation:
        """An `Evaluation` with the fields that do not depend on the verdict."""
        settings = self._settings
        return Evaluation(
            verdict="rejected",
            device=self.device,
            reason=Reason("unverifiable", "nothing has been checked"),
            baseline=settings.baseline,
            policy=settings.policy,
            mode=settings.mode,
            sandbox=self.sandbox,
            hashes=Hashes(self.facts.sha256, Candidate(source).sha256, harness_sha256()),
            precision=self.facts.precision,
            matmul_precision=self.facts.matmul_precision,
            disclosures=tuple(Disclosure(d.code, d.message) for d in context.facts.disclosures),
        )

    def _refused(
        self, blank: Evaluation, refused: Rejected, stages: Stages, findings: Findings
    ) -> Evaluation:
        return replace(
            blank,
            # Running out of the interpreter's time budget is not the candidate's fault.
            verdict="error" if beyond_means(refused) else "rejected",
            reason=refused.reason,
            stages=tuple(stages.done),
            correctness=findings.correctness,
            kernels=_launched(findings),
            input_sets=(),
        )

    def _fresh_scratch(self) -> Path:
        path = self.scratch / secrets.token_hex(8)
        path.mkdir()
        return path


def _input_sets(context: JudgeContext, report: Report) -> tuple[InputSetResult, ...]:
    return tuple(
        InputSetResult(
            name=item.name,
            arguments=item.arguments,
            executed=context.executed_text(item.name),
            passed=True,
            estimate=report.estimates.get(item.name),
            timing=report.timings.get(item.name),
        )
        for item in context.facts.input_sets
    )


def _parse(source: str) -> None:
    wrong = syntax_fault(source)
    if wrong is not None:
        raise Rejected(wrong.code, wrong.message, wrong.detail)


def _launched(findings: Findings) -> tuple[KernelFacts, ...]:
    names: dict[str, int] = {}
    for row in findings.launches:
        names[row["kernel"]] = names.get(row["kernel"], 0) + 1
    return tuple(KernelFacts(name=name, launches=count) for name, count in names.items())
