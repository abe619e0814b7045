"""One judge for one problem: reads it once, then gives a verdict on each candidate it is handed."""

from __future__ import annotations

import ast
import itertools
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

from kernelagent.candidate import Candidate
from kernelagent.evaluation import (
    DeviceFacts,
    Disclosure,
    Evaluation,
    Hashes,
    InputSetResult,
    KernelFacts,
    Reason,
    Stage,
)
from kernelagent.problem import ProblemFacts
from kernelagent.profile import ReferenceProfile
from kernelagent.tools.judge import counting, envelope, reference_profile
from kernelagent.tools.judge.audit import Report, look_again
from kernelagent.tools.judge.blocks import Running
from kernelagent.tools.judge.candidate_process import CandidateProcess, Limits
from kernelagent.tools.judge.docket import Docket
from kernelagent.tools.judge.harness import harness_sha256
from kernelagent.tools.judge.rejection import Rejected
from kernelagent.tools.judge.tolerance import UserTolerance
from kernelagent.tools.judge.training import training_rounds
from kernelagent.tools.judge.trials import rounds
from kernelagent.tools.judge.verify import Findings, Verifier
from kernelagent.tools.judge.widening import widen
from kernelagent.tools.settings import JudgeSettings

_FIRST_ORDER = (
    "first_order_only",
    "gradients were verified, gradients of gradients (create_graph=True) were not",
)
Purpose = Literal["turn", "certificate"]
OnStage = Callable[[Stage], None]


@dataclass
class _Stages:
    """Times the steps of one evaluation and tells each to the listener."""

    listener: OnStage
    done: list[Stage] = field(default_factory=list)

    @contextmanager
    def step(self, name: str, *, overhead: bool = False) -> Iterator[Running]:
        """The step may tell how far it is."""
        began = time.monotonic()

        def running(done: int, of: int) -> None:
            seconds = time.monotonic() - began
            self.listener(Stage(name, "running", seconds, overhead, (done, of)))

        status: Literal["passed", "failed"] = "failed"
        try:
            yield running
            status = "passed"
        finally:
            stage = Stage(name, status, time.monotonic() - began, overhead)
            self.done.append(stage)
            self.listener(stage)


class Judge:
    """Holds the user's module, the warm parent and the device; nothing of a candidate ever runs here."""

    def __init__(self, settings: JudgeSettings) -> None:
        """Raises `ProblemError` for the problem, `EnvironmentFault` for the machine."""
        self._settings = settings
        self._docket = Docket.open(settings)
        self._limits = Limits()
        self._scratch = Path(tempfile.mkdtemp(prefix="kernelagent-"))
        self._numbered = 0
        self._certified = 0

    @property
    def facts(self) -> ProblemFacts:
        return self._docket.facts

    @property
    def device(self) -> DeviceFacts:
        return self._docket.device

    @property
    def sandbox(self) -> str:
        return self._docket.sandbox

    def close(self) -> None:
        self._docket.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def profile_reference(self) -> tuple[ReferenceProfile, ...]:
        """Where the user's own module spends its time, by input set."""
        return reference_profile.profile_reference(self._docket)

    def evaluate(self, source: str, purpose: Purpose, on_stage: OnStage) -> Evaluation:
        """The verdict on one candidate; a failing candidate is a value, never an exception."""
        stages, findings = _Stages(on_stage), Findings()
        blank = self._blank(source)
        try:
            report = self._examine(source, purpose, stages, findings)
        except Rejected as refused:
            return self._refused(blank, refused.reason, stages, findings)
        disclosures = (*findings.disclosures.values(), *report.disclosures)
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
            envelope=envelope.verified(self._docket, report.declared),
            hashes=blank.hashes,
            precision=blank.precision,
            input_sets=self._input_sets(report),
        )

    def widen(self, source: str, evaluation: Evaluation, seconds: float) -> Evaluation:
        """The acceptance with the neighbouring inputs on which the candidate is right as well."""
        scratch = self._fresh_scratch()
        numbers = itertools.count()

        def ready() -> CandidateProcess:
            process = self._start(source, scratch, f"neighbour-{next(numbers)}")
            try:
                process.load()
                self._docket.construct(process)
            except BaseException:
                process.close()
                raise
            return process

        try:
            found = widen(self._docket, ready, seconds)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        sets = [*evaluation.envelope["input_sets"], *found.admitted]
        return replace(
            evaluation,
            envelope={**evaluation.envelope, "input_sets": sets},
            disclosures=(*evaluation.disclosures, Disclosure("envelope", found.said())),
        )

    def count(self, source: str, evaluation: Evaluation) -> Evaluation:
        """The acceptance with hardware counters where Nsight Compute may read them; `cuda` alone."""
        scratch = self._fresh_scratch()
        try:
            return counting.count(self._docket, source, evaluation, scratch)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _examine(
        self, source: str, purpose: Purpose, stages: _Stages, findings: Findings
    ) -> Report:
        with stages.step("parse", overhead=True):
            _parse(source)
        scratch = self._fresh_scratch()
        start = partial(self._start, source, scratch)
        try:
            with stages.step("start", overhead=True):
                process = start("judged")
            with process:
                declared = self._load_and_construct(process, stages)
                with stages.step("verify"):
                    self._verify(process, findings)
            return look_again(
                self._docket,
                lambda: start("audited"),
                findings,
                partial(stages.step),
                declared=declared,
                certificate=purpose == "certificate",
                attempts=self._attempts(purpose),
            )
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _attempts(self, purpose: Purpose) -> int:
        self._certified += purpose == "certificate"
        return max(1, self._certified)

    def _start(self, source: str, scratch: Path, role: str) -> CandidateProcess:
        return CandidateProcess(
            self._docket.warm,
            source=source,
            device=self.device.kind,
            target=self.device.target,
            scratch=scratch / role,
            limits=self._limits,
            sandboxed=self._settings.sandbox != "off",
            torch_device=self._docket.judge_device.torch_device,
        )

    def _load_and_construct(
        self, process: CandidateProcess, stages: _Stages
    ) -> dict[str, object] | None:
        with stages.step("load"):
            declared = process.load()
        with stages.step("construct"):
            self._docket.require_same_state(self._docket.construct(process))
        return declared

    def _verify(self, process: CandidateProcess, findings: Findings) -> None:
        settings = self._settings
        given = settings.rtol is not None or settings.atol is not None
        verifier = Verifier(
            process=process,
            findings=findings,
            device=self.device.kind,
            needs_kernel=settings.policy != "any",
            tolerance=UserTolerance(settings.rtol or 0.0, settings.atol or 0.0) if given else None,
            check=self._docket.problem.check,
        )
        docket = self._docket
        constant = docket.problem.constant_inputs
        every = docket.oracle, docket.sources, docket.dynamic
        for one in rounds(*every, constant=constant):
            verifier.run(one)
        if docket.trains:
            for one in training_rounds(*every, constant=constant):
                verifier.run(one)
            findings.disclose(*_FIRST_ORDER)

    def _blank(self, source: str) -> Evaluation:
        """What every verdict of this judge says, whatever it will be."""
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
            disclosures=tuple(Disclosure(d.code, d.message) for d in self.facts.disclosures),
        )

    def _refused(
        self, blank: Evaluation, reason: Reason, stages: _Stages, findings: Findings
    ) -> Evaluation:
        return replace(
            blank,
            reason=reason,
            stages=tuple(stages.done),
            correctness=findings.correctness,
            kernels=_launched(findings),
            input_sets=(),
        )

    def _input_sets(self, report: Report) -> tuple[InputSetResult, ...]:
        return tuple(
            InputSetResult(
                name=one.name,
                arguments=one.arguments,
                executed=self._docket.executed_text(one.name),
                passed=True,
                estimate=report.estimates.get(one.name),
                timing=report.timings.get(one.name),
            )
            for one in self.facts.input_sets
        )

    def _fresh_scratch(self) -> Path:
        self._numbered += 1
        path = self._scratch / f"candidate-{self._numbered}"
        path.mkdir()
        return path


def _parse(source: str) -> None:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        text = (getattr(error, "text", None) or "").rstrip()
        place = f"line {line}: " if line else ""
        said = getattr(error, "msg", str(error))
        raise Rejected("syntax_error", f"{place}{said}", {"line": line, "text": text}) from error


def _launched(findings: Findings) -> tuple[KernelFacts, ...]:
    names: dict[str, int] = {}
    for row in findings.launches:
        names[row["kernel"]] = names.get(row["kernel"], 0) + 1
    return tuple(KernelFacts(name=name, launches=count) for name, count in names.items())
