"""How a call with inputs or weights unlike the user's is made, and what is told of it; nobody is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import torch

from kernelagent.tools.calls.training_step import TrainingStep
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.dynamic import name_of_input
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.steps.steps import single_step
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.unlike import Unlike
from kernelagent.tools.judge.verify.beyond.allowance import Allowance, Spans
from kernelagent.tools.judge.verify.beyond.asking import (
    NO_ANSWER,
    TIMEOUT,
    Asked,
    ask,
    without_end,
)
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.rejection import Rejected

SPANS = Spans(seconds=4.0, in_a_turn=0.8, longest=20.0)
"""For all of these calls together: where a call takes long, only the first of them are made."""
_WITH_GRADIENTS = frozenset(
    {"fractions", "signs", "sums", "magnitudes", "patterns", "larger_integers", "smaller_integers"}
)
"""Properties without which a training step is taken as well; where elements are equal, many a gradient is a choice."""
_MOST_STEPS = 2
"""Of each property, in the drawn order of the inputs, and of the weights."""
_TOO_LONG = (
    f"calls take so long that not all inputs without the properties of yours (such as one sign, whole numbers, or "
    f"their magnitudes) were tried within {SPANS.seconds:.0f} seconds of processor time: of what was not, nothing is told"
)


class NoMore(Exception):
    """The candidate's process has ended, or the time for these calls has."""


@dataclass(frozen=True)
class UnlikeCalls:
    """What is asked with, for one candidate."""

    context: JudgeContext
    process: CandidateProcess
    findings: Findings
    generator: torch.Generator
    allowance: Allowance
    steps: Counter[tuple[str, str, bool]] = field(default_factory=Counter)
    """Training steps taken, by input set, property, and whether it is one of inputs."""

    def _note(
        self, source: InputSource, item: Unlike, asked: Asked | None, report: set[str]
    ) -> None:
        if asked is not None and asked.wrong is not None:
            report.add(item.property)
            held = item.held.format(other=self._label(source, item.other))
            self._tell(source, item.property, item.name, held, item.tried, asked)
        self._tell_lost(asked, f"with {self._label(source, item.name)} unlike yours ({item.tried})")
        stop_after(asked)

    def _ask(
        self,
        source: InputSource,
        arguments: Arguments,
        probe: str,
        usual: float,
        weights: Mapping[str, torch.Tensor] | None = None,
    ) -> Asked | None:
        """None where the reference does not take these, or answers with more that is NaN or infinite than `usual`.

        A kernel may take a number that it is given for a count: that it then takes too long is told as well.
        """
        if self.allowance.spent:
            raise NoMore("" if self.allowance.sample else _TOO_LONG)
        try:
            asked = self._called(source, arguments, probe, weights=weights, nonfinite=usual)
            judged = asked is not None and asked.agrees
            if asked is None or not judged or not self.context.trains:
                return asked
            return self._step(source, arguments, probe, usual, weights) or asked
        except Rejected as refused:
            return without_end(refused)

    def _step(
        self,
        source: InputSource,
        arguments: Arguments,
        probe: str,
        usual: float,
        weights: Mapping[str, torch.Tensor] | None,
    ) -> Asked | None:
        """How a training step with these went, where its gradients are wrong."""
        asked_for = (source.name, probe, weights is None)
        if probe not in _WITH_GRADIENTS or self.steps[asked_for] >= _MOST_STEPS:
            return None
        self.steps[asked_for] += 1
        step = self._single_step(arguments, weights)
        if step is None:
            return None
        asked = self._called(source, arguments, probe, weights=weights, step=step, nonfinite=usual)
        if asked is None or asked.wrong is None:
            return None
        return replace(asked, what="gradients, in a training step, differ")

    @property
    def _called(self) -> partial[Asked | None]:
        """`ask`, of this candidate."""
        return partial(ask, self.context, self.process, self.findings)

    def _single_step(
        self, arguments: Arguments, weights: Mapping[str, torch.Tensor] | None = None
    ) -> TrainingStep | None:
        """None where the reference has no gradient for these; `weights`: other than the given ones."""
        oracle = self.context.oracle.beside()
        oracle.use_weights(oracle.given_weights if weights is None else weights)
        try:
            return single_step(oracle, arguments, self.generator)
        except NO_ANSWER:
            return None

    def _tell_lost(self, asked: Asked | None, where: str) -> None:
        """`where`: with which inputs or weights."""
        if asked is not None and asked.lost is not None:
            self.findings.disclose(
                "small_results_lost",
                f"{where}, results that are small beside others are lost or far off, within the error that the whole is allowed: {asked.lost}; "
                f"a logarithm or a quotient of them is another than with your module",
            )

    def _tell(
        self, source: InputSource, word: str, name: str, held: str, tried: str, asked: Asked
    ) -> None:
        self.findings.disclose(
            f"differs_on_{word}",
            f"in your inputs and in every judged call {self._label(source, name)} {held}; on {tried} the candidate's {asked.what} "
            f"from your module's: {asked.wrong:.200}",
        )

    def _label(self, source: InputSource, name: str) -> str:
        """As the forward names an input; a weight has its own."""
        return name_of_input(self.context.oracle.module, source.full, name)


def stop_after(asked: Asked | None) -> None:
    if asked is not None and asked.code == TIMEOUT:
        raise NoMore
