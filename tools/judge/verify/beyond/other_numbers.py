"""Calls with other plain numbers among the arguments: `k=3` is 3 in every judged call, and may be written into a kernel.

The emitted module compares such numbers and calls the original where they differ. As in `beyond`, what is wrong with others
is told, and nobody is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch.utils._pytree import keystr, tree_flatten_with_path, tree_unflatten

from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.dynamic import name_of_input
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.one_trial import pair
from kernelagent.tools.judge.problem.trials.trials import draw
from kernelagent.tools.judge.verify.beyond.asking import NO_ANSWER, ask, same_answers
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess

_MOST_NUMBERS = 8
Number = int | float | bool


@dataclass(frozen=True)
class OtherNumbers:
    """What is asked with, for one candidate."""

    context: JudgeContext
    process: CandidateProcess
    findings: Findings

    def about(self, source: InputSource) -> None:
        """Tell of each number of this input set without which the answer would be another, and the candidate's is not."""
        numbers = numbers_in(self._draw(source))
        again = numbers_in(self._draw(source))
        never = [name for name, number in numbers.items() if again.get(name) == number]
        for name in never[:_MOST_NUMBERS]:
            for other in _others(numbers[name]):
                wrong = self._with(source, name, other)
                if wrong is None:
                    continue
                label = name_of_input(self.context.oracle.module, source.full, name)
                self.findings.disclose(
                    f"number_never_varied_{label}",
                    f"{label} was {numbers[name]!r} in every call of input set {source.name} (with {other!r}: {wrong:.200}); the "
                    f"emitted module compares it and calls the original where it differs",
                )
                break

    def _with(self, source: InputSource, name: str, other: Number) -> str | None:
        """What is wrong with the candidate's answer then; None where nothing is, or the reference has no other answer."""
        oracle, usual = self.context.oracle, self._draw(source)
        changed = with_number(usual, name, other)
        oracle.use_weights(oracle.given_weights)
        try:
            if same_answers(oracle.eager(usual), oracle.eager(changed)):
                return None
        except NO_ANSWER:
            return None
        asked = ask(self.context, self.process, self.findings, source, changed, "other numbers")
        return None if asked is None else asked.wrong

    def _draw(self, source: InputSource) -> Arguments:
        return draw(source, constant=self.context.problem.constant_inputs)


def numbers_in(arguments: Arguments) -> dict[str, Number]:
    """Plain numbers of a nest of arguments by their place, for example `arguments[0][1]`."""
    leaves, _ = tree_flatten_with_path(arguments)
    return {
        f"arguments{keystr(path)}": leaf
        for path, leaf in leaves
        if isinstance(leaf, int | float) and not isinstance(leaf, torch.Tensor)
    }


def with_number(arguments: Arguments, name: str, number: Number) -> Arguments:
    """The same nest with this number at this place."""
    leaves, form = tree_flatten_with_path(arguments)
    changed = [number if f"arguments{keystr(path)}" == name else leaf for path, leaf in leaves]
    return pair(tree_unflatten(changed, form))


def _others(number: Number) -> Iterator[Number]:
    """Near it, so that the reference may take them."""
    if isinstance(number, bool):
        yield not number
    elif isinstance(number, int):
        yield from (number + 1, number - 1)
    else:
        yield from (1.5 * number if number else 1.0, 0.5 * number if number else -1.0)
