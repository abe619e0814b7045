"""Calls in which an input holds infinities or NaN as masks and padding hold them; what is wrong there is told."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.dynamic import name_of_input
from kernelagent.tools.judge.problem.trials.infinite_shapes import Shaped, infinite_shapes
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.probes import named_tensors
from kernelagent.tools.judge.problem.trials.trials import draw
from kernelagent.tools.judge.verify.beyond.allowance import Allowance, Spans
from kernelagent.tools.judge.verify.beyond.asking import Asked, ask, with_changed, without_end
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.rejection import Rejected

SPANS = Spans(seconds=4.0, in_a_turn=0.3, longest=15.0)
"""For these calls together: where a call takes long, only the first of them are made."""
_CODE = "differs_on_infinite_runs"


@dataclass(frozen=True)
class Infinities:
    """What is asked with, for one candidate."""

    context: JudgeContext
    process: CandidateProcess
    findings: Findings
    generator: torch.Generator
    allowance: Allowance

    def about_all(self) -> None:
        """One shape that is answered otherwise is told, the first that is met."""
        for source in self.context.sources:
            natural = named_tensors(draw(source))
            for shaped in infinite_shapes(natural, self.generator):
                if self.allowance.spent:
                    if not self.allowance.sample:
                        self.findings.disclose(
                            "infinite_runs_not_tried",
                            f"calls take so long that not all shapes in which masks and padding hold infinities were tried within "
                            f"{SPANS.seconds:.0f} seconds of processor time: of what was not, nothing is told",
                        )
                    return
                asked = self._ask(source, shaped)
                if asked is not None and asked.wrong is not None:
                    self._tell(source, shaped, asked)
                    return

    def _ask(self, source: InputSource, shaped: Shaped) -> Asked | None:
        arguments = with_changed(draw(source), shaped.tensors)
        try:
            return ask(
                self.context, self.process, self.findings, source, arguments, "runs of infinities"
            )
        except Rejected as refused:
            # A wrong bound of a loop may come of a NaN: that it never ends is told, too.
            return without_end(refused)

    def _tell(self, source: InputSource, shaped: Shaped, asked: Asked) -> None:
        label = name_of_input(self.context.oracle.module, source.full, shaped.name)
        if asked.code == "out_of_bounds":
            raise Rejected("out_of_bounds", f"where {label} holds {shaped.shape}: {asked.wrong}")
        self.findings.disclose(
            _CODE,
            f"where {label} holds {shaped.shape}, it answers otherwise than your module: {asked.wrong}",
        )
