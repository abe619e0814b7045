"""The inputs of a training step that are made as the probes of calls are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from kernelagent.domain.tables.probes import PROBE
from kernelagent.tools.calls.complex_numbers import is_inexact
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.masked_answers import FINITE, Shares
from kernelagent.tools.judge.problem.trials.overflow import below_overflow
from kernelagent.tools.judge.problem.trials.planting.literals import NONE, Literals
from kernelagent.tools.judge.problem.trials.planting.planted import can_plant, planted
from kernelagent.tools.judge.problem.trials.probes import (
    Dropped,
    applies,
    make_probe,
    named_tensors,
    with_tensors,
)
from kernelagent.tools.judge.problem.trials.trials import draw

_SMALLEST = 1e-30
"""Below it numbers are zero here: what is divided by them overflows, or is flushed, in some kernels."""
_AS_THEY_ARE = nullcontext()


@dataclass(frozen=True)
class StepInputs:
    """Inputs of one training step; `moved` as for a planted probe."""

    arguments: Arguments
    moved: Any = None


@dataclass(frozen=True)
class StepProbes:
    """Makes them for one input set; `oracle` answers with what the step leaves."""

    source: InputSource
    natural: Arguments
    generator: torch.Generator
    turns: Iterator[int]
    """Which of the patterns comes next."""
    literals: Literals = NONE
    usual: Shares = FINITE
    """Of what a natural step leaves, as of answers in which a mask hides."""

    def of(
        self, name: str, oracle: Oracle, scales: Mapping[str, float]
    ) -> StepInputs | Dropped | None:
        """None where the inputs have nothing that this probe changes, or a pattern has no answer."""
        if name == "natural":
            return StepInputs(draw(self.source))
        if not applies(name, named_tensors(self.natural)):
            return None
        if PROBE[name].planted:
            return self._planted(name, oracle, scales)

        def reference(tensors: Mapping[str, torch.Tensor]) -> Any:
            return below_overflow(oracle.in_float64_or_eager(self._with(tensors)))

        fresh = named_tensors(draw(self.source))
        probe = make_probe(name, fresh, self.generator, reference, usual=self.usual)
        return probe if isinstance(probe, Dropped) else StepInputs(self._with(probe.tensors))

    def _planted(
        self, name: str, oracle: Oracle, scales: Mapping[str, float]
    ) -> StepInputs | Dropped | None:
        if not can_plant(name, named_tensors(self.natural)):
            return None

        def exact(
            tensors: Mapping[str, torch.Tensor],
            /,
            steps: AbstractContextManager[Any] = _AS_THEY_ARE,
        ) -> Any:
            with steps:
                return below_overflow(oracle.in_float64_or_eager(self._with(tensors)))

        made = planted(
            name,
            named_tensors(draw(self.source)),
            self.literals,
            self.generator,
            lambda tensors: oracle.eager(self._with(tensors)),
            exact,
            scales=scales,
            elementwise=False,
            usual=self.usual,
            turn=next(self.turns),
        )
        # Of many patterns, some have no answer: what was not asked of them is no news.
        return (
            None if isinstance(made, Dropped) else StepInputs(self._with(made.tensors), made.moved)
        )

    def _with(self, tensors: Mapping[str, torch.Tensor]) -> Arguments:
        legal = self.source.writes.legal(tensors, named_tensors(self.natural))
        args, kwargs = with_tensors(self.natural, {n: _flushed(t) for n, t in legal.items()})
        return args, kwargs


def _flushed(tensor: torch.Tensor) -> torch.Tensor:
    if not is_inexact(tensor) or tensor.element_size() < 4:
        return tensor
    small = (tensor != 0) & (tensor.abs() < _SMALLEST)
    return torch.where(small, torch.zeros_like(tensor), tensor) if bool(small.any()) else tensor
