"""A call on inputs that were not drawn, where the reference has an answer to it that outlasts its own rounding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch

from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.trials.lasting_answers import Lasting, lasting
from kernelagent.tools.judge.problem.trials.masked_answers import (
    is_finite_everywhere,
    is_hidden_alone,
)
from kernelagent.tools.judge.problem.trials.one_trial import trial_on
from kernelagent.tools.judge.problem.trials.overflow import below_overflow
from kernelagent.tools.judge.problem.trials.probes import named_tensors, with_tensors
from kernelagent.tools.judge.problem.trials.refusals import REFUSALS
from kernelagent.tools.judge.problem.trials.rounds import Trial
from kernelagent.tools.judge.verify.compare import compare

_AS_THEY_ARE = nullcontext()


def known_trial(
    oracle: Oracle,
    input_set: str,
    arguments: Arguments,
    generator: torch.Generator,
    natural: Mapping[str, float] | None = None,
    beside: Callable[[], Any] | None = None,
) -> Trial | None:
    """The trial from the weights in use; None where the reference refuses these inputs, or knows no answer to them.

    `natural`: the scales of results on natural inputs, which these may be far below: an error that is rounding there
    is none here. `beside`: an answer that is infinite where masks alone make this one so; None: there is none.
    """

    def is_finite(answer: Any) -> bool:
        return is_finite_everywhere(answer) if beside is None else is_hidden_alone(answer, beside)

    def at(tensors: Mapping[str, torch.Tensor]) -> Arguments:
        args, kwargs = with_tensors(arguments, tensors)
        return args, kwargs

    def exact(
        tensors: Mapping[str, torch.Tensor], /, steps: AbstractContextManager[Any] = _AS_THEY_ARE
    ) -> Any:
        with steps:
            answer = oracle.in_float64_or_eager(at(tensors))
        return below_overflow(answer)

    tensors = named_tensors(arguments)
    try:
        scale = compare.scales_of(oracle.in_float64_or_eager(arguments))
        scale = {name: max(own, (natural or {}).get(name, 0.0)) for name, own in scale.items()}
        result = lasting(tensors, generator, lambda t: oracle.eager(at(t)), exact, scale, is_finite)
        if not isinstance(result, Lasting):
            return None
        trial = trial_on(oracle, input_set, "natural", arguments, scale, generator)
    except REFUSALS:
        return None
    return replace(trial, compared=replace(trial.compared, moved=result.moved))
