"""Calls with other plain numbers among the arguments: `k=3` is 3 in every judged call, and may be written into a kernel.

The emitted module compares such numbers and calls the original where they differ. As in `beyond`, what is wrong with others
is told, and nobody is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.dynamic import name_of_input
from kernelagent.tools.judge.problem.reference.ended_after import ended_after
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.plain_numbers import Number, others_near, with_number
from kernelagent.tools.judge.problem.trials.trials import draw
from kernelagent.tools.judge.verify.beyond.asking import NO_ANSWER, ask, same_answers
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess

_MOST_NUMBERS = 8
_MOST_SECONDS = 10.0
"""Of a reference with another number, which may go round for ever."""


@dataclass(frozen=True)
class OtherNumbers:
    """What is asked with, for one candidate."""

    context: JudgeContext
    process: CandidateProcess
    findings: Findings

    def about(self, source: InputSource) -> None:
        """Tell of each number of this input set without which the answer would be another, and the candidate's is not."""
        never = {
            name: number
            for (of, name), number in self.findings.numbers.items()
            if of == source.name and number is not None
        }
        for name, number in islice(never.items(), _MOST_NUMBERS):
            for other in others_near(number):
                wrong = self._with(source, name, other)
                if wrong is None:
                    continue
                label = name_of_input(self.context.oracle.module, source.full, name)
                self.findings.disclose(
                    f"number_never_varied_{label}",
                    f"{label} was {number!r} in every call of input set {source.name} (with {other!r}: {wrong:.200}); the "
                    f"emitted module compares it and calls the original where it differs",
                )
                break

    def _with(self, source: InputSource, name: str, other: Number) -> str | None:
        """What is wrong with the candidate's answer then; None where nothing is, or the reference has no other answer."""
        oracle, usual = self.context.oracle, draw(source)
        changed = with_number(usual, name, other)
        oracle.use_weights(oracle.given_weights)
        try:
            with ended_after(_MOST_SECONDS):
                if same_answers(oracle.eager(usual), oracle.eager(changed)):
                    return None
        except NO_ANSWER:
            return None
        asked = ask(self.context, self.process, self.findings, source, changed, "other numbers")
        return None if asked is None else asked.wrong
