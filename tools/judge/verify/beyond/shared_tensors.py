"""Calls in which one tensor is two things: a state and an input, or two inputs of which one is written to.

A kernel may read in one program what another has written. As in `beyond`, what is wrong there is told, and nobody is refused.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from kernelagent.tools.calls.own_state import fits
from kernelagent.tools.calls.tensors import tensors_of
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.reference.copies import same_bits
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.probes import named_tensors
from kernelagent.tools.judge.problem.trials.trials import draw
from kernelagent.tools.judge.verify.beyond.asking import NO_ANSWER, ask, with_changed
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.same import identical

_MOST_ENTRIES = 2
"""So many buffers are given as inputs."""
_MOST_PAIRS = 2


@dataclass(frozen=True)
class SharedTensors:
    """What is asked with, for one candidate."""

    context: JudgeContext
    process: CandidateProcess
    findings: Findings

    def about(self, source: InputSource) -> None:
        self._state_as_input(source)
        self._one_for_two(source)

    def _state_as_input(self, source: InputSource) -> None:
        oracle, module = self.context.oracle, self.context.oracle.module
        natural = draw(source)
        fitting = [
            name
            for name, buffer in module.named_buffers()
            if name in oracle.given_weights and any(fits(buffer, t) for t in tensors_of(natural))
        ]
        if not fitting:
            return
        oracle.use_weights(oracle.given_weights)
        try:
            later = oracle.state_after(natural)
        except NO_ANSWER:
            return
        written = [n for n in fitting if not same_bits(later[n], oracle.given_weights[n])]
        for name in written[:_MOST_ENTRIES]:
            asked = ask(
                self.context, self.process, self.findings, source, draw(source), "its own state",
                weights=later, own_state=name,
            )  # fmt: skip
            if asked is not None and asked.wrong is not None:
                self.findings.disclose(
                    "differs_on_own_state",
                    f"where the module's own {name} is given as an input, as in `m(m.{name})`, it answers otherwise than "
                    f"your module: {asked.wrong}",
                )
                return

    def _one_for_two(self, source: InputSource) -> None:
        """Where the reference writes to an input; where it writes to none, the judged calls have tried it."""
        natural = draw(source)
        pairs = [*self._alike(natural)]
        if not pairs or not self._writes(natural):
            return
        for first, second in random.SystemRandom().sample(pairs, min(_MOST_PAIRS, len(pairs))):
            arguments = draw(source)
            one = named_tensors(arguments)[first]
            shared = with_changed(arguments, {first: one, second: one})
            asked = ask(
                self.context, self.process, self.findings, source, shared, "one tensor for two"
            )
            if asked is not None and asked.wrong is not None:
                self.findings.disclose(
                    "differs_on_one_for_two",
                    f"where one tensor is given for two arguments, of which your module writes to one, it answers otherwise: "
                    f"{asked.wrong}",
                )
                return

    def _alike(self, arguments: Arguments) -> Iterator[tuple[str, str]]:
        tensors = [*named_tensors(arguments).items()]
        for at, (first, one) in enumerate(tensors):
            for second, other in tensors[at + 1 :]:
                if one.numel() and _form(one) == _form(other) and one.is_floating_point():
                    yield first, second

    def _writes(self, arguments: Arguments) -> bool:
        oracle = self.context.oracle
        oracle.use_weights(oracle.given_weights)
        try:
            return not identical(arguments, oracle.expect(arguments).arguments)
        except NO_ANSWER:
            return False


def _form(tensor: torch.Tensor) -> tuple[torch.Size, tuple[int, ...], torch.dtype]:
    return tensor.shape, tensor.stride(), tensor.dtype
