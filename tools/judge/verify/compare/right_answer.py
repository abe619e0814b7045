"""Is one answer right: by the judge's gate, the user's tolerance and the user's own check?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from kernelagent.tools.calls.training_step import FORWARD
from kernelagent.tools.judge.problem.trials.rounds import Trial
from kernelagent.tools.judge.verify.compare import compare
from kernelagent.tools.judge.verify.compare.compare import Comparison
from kernelagent.tools.judge.verify.compare.tolerance import UserTolerance
from kernelagent.tools.judge.verify.diagnosis.failure_context import refusal_of, words_of
from kernelagent.tools.judge.verify.diagnosis.gradients import (
    as_watched,
    held_by_gradients,
    kept_on_contexts,
    require_fresh_gradients,
    require_gradients,
)
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.process.answers import Answer
from kernelagent.tools.judge.verify.rejection import Rejected


@dataclass(frozen=True)
class RightAnswer:
    """What an answer is held against."""

    findings: Findings
    tolerance: UserTolerance | None
    check: Callable[..., bool] | None

    def require(self, trial: Trial, answer: Answer) -> None:
        """Raises `Rejected` where it is wrong."""
        output = answer.output
        if trial.step is not None:
            require_gradients(trial, output)
            require_fresh_gradients(trial, output)
            kept = kept_on_contexts(trial, output)
            if kept is not None:
                self.findings.disclose("kept_on_context", kept)
            held = held_by_gradients(trial, output)
            if held is not None:
                self.findings.disclose("memory_held", held)
            output = as_watched(output, trial.expected.output)
        comparison = compare.compare(
            output,
            trial.compared,
            input_set=trial.input_set,
            probe=trial.probe,
            devices=_devices(answer),
        )
        words = words_of(trial)
        self.findings.cases += [replace(c, output=words(c.output)) for c in comparison.cases]
        for disclosure in comparison.disclosures:
            if disclosure.code == "layout_differs" and trial.step is not None:
                # In torch a gradient's strides follow those of the upstream gradient, so a difference is not reported.
                continue
            self.findings.disclose(disclosure.code, words(disclosure.message))
        if not trial.expected.in_float64:
            self.findings.disclose(
                "oracle_in_float32", "the reference has no float64 path; it is its own oracle"
            )
        self._users_own(trial, output)
        if comparison.reason is not None and not self._user_accepts(comparison, trial, output):
            raise refusal_of(comparison, trial, self.findings.memory)

    def _user_accepts(self, comparison: Comparison, trial: Trial, output: Any) -> bool:
        loosened = (
            self.tolerance is not None
            and comparison.failure is not None
            and self.tolerance.accepts(output, trial.expected.output64)
        )
        if loosened:
            self.findings.disclose(
                "tolerance_loosened",
                "accepted by the --rtol/--atol given, though it is less accurate than the judge's "
                "own gate allows",
            )
        return loosened

    def _users_own(self, trial: Trial, output: Any) -> None:
        expected = trial.expected.output64
        if trial.step is not None:
            # The user's tolerance and test are about results; gradients have the judge's gate.
            output, expected = output[FORWARD], expected[FORWARD]
        if self.tolerance is not None and not self.tolerance.accepts(output, expected):
            raise Rejected(
                "wrong_output",
                f"the output is not within {self.tolerance} of the float64 reference",
                {"input_set": trial.input_set, "probe": trial.probe},
            )
        if self.check is not None:
            args, kwargs = trial.arguments
            if not self.check(output, *args, **kwargs):
                raise Rejected(
                    "wrong_output",
                    f"the user's own check {getattr(self.check, '__name__', '')} refuses the output",
                    {"input_set": trial.input_set, "probe": trial.probe},
                )


def _devices(answer: Answer) -> dict[str, str] | None:
    if answer.devices is None:
        return None
    names = [n for n, leaf in compare.leaves(answer.output) if isinstance(leaf, torch.Tensor)]
    return dict(zip(names, answer.devices, strict=False))
