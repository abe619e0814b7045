"""Calls with rows that are bred for the candidate's error (`bred_rows`); what is wrong on them is told, nobody is refused.

Draws show what a candidate does on most inputs. Here is asked for the worst that lies among such values: whether its
error grows where inputs are chosen by it, until the answer is another.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from kernelagent.tools.calls.torch_dtypes import widened
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.dynamic import name_of_input
from kernelagent.tools.judge.problem.trials.bred_rows import FEWEST_ROWS, BredRows
from kernelagent.tools.judge.problem.trials.input_domain import observe
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.probes import named_tensors
from kernelagent.tools.judge.problem.trials.trials import draw
from kernelagent.tools.judge.verify.beyond.allowance import Allowance, Spans
from kernelagent.tools.judge.verify.beyond.asking import NO_ANSWER, ask, with_changed, without_end
from kernelagent.tools.judge.verify.compare.compare import leaves
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.rejection import Rejected

SPANS = Spans(seconds=2.0, in_a_turn=0.3, longest=10.0)
"""For these calls together: where a call takes long, only the first of them are made."""
_GENERATIONS = 8
_LOOK_AFTER = 3
_BEGINS_TO_GROW, _HAS_GROWN = 1.5, 8.0
"""So many times the first draw's largest error after three generations, and at the end, where there is something to be bred."""
_MOST_INPUTS = 3
_MOST_ELEMENTS = 4 << 20
_FEWEST_IN_A_ROW = 8
_FREE = ("real", "positive")


class _NoMore(Exception):
    """The time for these calls is spent, or the candidate has no answer."""


@dataclass(frozen=True)
class SearchedRows:
    """What is asked with, for one candidate."""

    context: JudgeContext
    process: CandidateProcess
    findings: Findings
    generator: torch.Generator
    allowance: Allowance

    def about_all(self) -> None:
        """One input whose bred rows are answered otherwise is told, the first that is met."""
        for source in self.context.sources:
            try:
                if any(self._about(source, name, lead) for name, lead in self._inputs(source)):
                    return
            except _NoMore:
                return

    def _inputs(self, source: InputSource) -> Iterator[tuple[str, int]]:
        """Some that have rows, in a drawn order, with how many of their dimensions number them."""
        arguments = draw(source)
        try:
            results = [t for _, t in leaves(self.context.oracle.eager(arguments)) if _floating(t)]
        except NO_ANSWER:
            return
        found = []
        for name, tensor in named_tensors(arguments).items():
            lead = max((_leading(tensor, result) for result in results), default=0)
            if lead and _has_rows(tensor, lead):
                found.append((name, lead))
        for at in torch.randperm(len(found), generator=self.generator)[:_MOST_INPUTS].tolist():
            yield found[at]

    def _about(self, source: InputSource, name: str, leading: int) -> bool:
        natural = named_tensors(draw(source))[name]
        bred = BredRows(natural, leading, self.generator)
        values, largest = natural, [0.0]
        while len(largest) <= _GENERATIONS:
            errors = self._errors(source, name, values, bred)
            largest.append(max(largest[-1], float(errors.max())))
            bred.note(values, errors)
            if len(largest) > _LOOK_AFTER and not largest[-1] > _BEGINS_TO_GROW * largest[1]:
                return False
            values = bred.next(named_tensors(draw(source))[name])
        return largest[-1] > _HAS_GROWN * largest[1] and self._is_told(source, name, bred.worst())

    def _errors(
        self, source: InputSource, name: str, values: torch.Tensor, bred: BredRows
    ) -> torch.Tensor:
        """Of each row, relative to what is right there."""
        if self.allowance.spent:
            if not self.allowance.sample:
                self.findings.disclose(
                    "rows_not_searched",
                    f"calls take so long that rows were not searched for by the candidate's error within {SPANS.seconds:.0f} seconds of "
                    f"processor time: how the worst of them are answered is not known",
                )
            raise _NoMore
        arguments = with_changed(draw(source), {name: values})
        oracle = self.context.oracle
        oracle.use_weights(oracle.given_weights)
        self.process.hold(oracle.given_weights)
        try:
            expected = oracle.expect(arguments)
            right = expected.output64
            answer = self.process.call(arguments).output
            if not expected.state64:
                self.process.still_holds(oracle.given_weights)
            rows = self.process.take_launches() if self.context.device.kind == "virtual" else []
        except (*NO_ANSWER, Rejected) as error:
            raise _NoMore from error
        if any(row.get("fault") for row in rows):
            raise _NoMore
        largest = torch.zeros(bred.count, dtype=torch.float64)
        for (_, ours), (_, exact) in zip(leaves(answer), leaves(right), strict=False):
            if not _floating(ours) or not _floating(exact) or ours.shape != exact.shape:
                continue
            if ours.shape[: bred.leading] == bred.like.shape[: bred.leading]:
                largest = largest.maximum(_of_rows(ours, exact, bred.count))
        return largest

    def _is_told(self, source: InputSource, name: str, worst: torch.Tensor) -> bool:
        arguments = with_changed(draw(source), {name: worst})
        try:
            asked = ask(
                *(self.context, self.process, self.findings, source, arguments, "searched rows")
            )
        except Rejected as refused:
            asked = without_end(refused)
        if asked is None or asked.wrong is None:
            return False
        label = name_of_input(self.context.oracle.module, source.full, name)
        self.findings.disclose(
            "differs_on_searched_rows",
            f"on rows of {label} that were searched for by the candidate's error, each of their numbers as yours are, it answers "
            f"otherwise than your module: {asked.wrong}",
        )
        return True


def _floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel() > 0


def _has_rows(tensor: torch.Tensor, leading: int) -> bool:
    count = math.prod(tensor.shape[:leading])
    return (
        _floating(tensor)
        and observe(tensor).kind in _FREE
        and not observe(tensor).constant
        and count >= FEWEST_ROWS
        and _FEWEST_IN_A_ROW * count <= tensor.numel() <= _MOST_ELEMENTS
    )


def _leading(tensor: torch.Tensor, result: torch.Tensor) -> int:
    """How many dimensions both begin with, all but the input's last at most."""
    lead = 0
    for ours, theirs in zip(tensor.shape[:-1], result.shape, strict=False):
        if ours != theirs:
            break
        lead += 1
    return lead


def _of_rows(ours: torch.Tensor, exact: torch.Tensor, count: int) -> torch.Tensor:
    """The root mean square of a row's error, or what all of the row has in common of it, where that is more of rounding's."""
    right = widened(exact).double().reshape(count, -1).cpu()
    error = widened(ours).double().reshape(count, -1).cpu() - right
    size = right.square().sum(-1).clamp_min(1e-300)
    common = (error * right).sum(-1).abs() / size * math.sqrt(right.shape[1])
    return common.maximum((error.square().sum(-1) / size).sqrt()).nan_to_num(0.0, 0.0, 0.0)
