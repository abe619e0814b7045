"""One call of a judging: the reference's answer to it, and how far a right one may be off."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.reference.conditioning import noise_on_demand, steps_on_demand
from kernelagent.tools.judge.problem.reference.near_ties import near_ties_on_demand
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.trials.probes import named_tensors, with_tensors
from kernelagent.tools.judge.problem.trials.rounds import Trial
from kernelagent.tools.judge.verify.compare import compare
from kernelagent.tools.judge.verify.compare.ties import index_rule, other_choices


def trial_on(
    oracle: Oracle,
    input_set: str,
    probe: str,
    arguments: Arguments,
    natural_rms: Mapping[str, float],
    generator: torch.Generator,
) -> Trial:
    """The reference's answer to one call under the weights in use."""
    expected = oracle.expect(arguments)
    tensors = named_tensors(arguments) | state_tensors(oracle.weights)
    reference = reference_by_name(oracle, arguments)
    compared = compare.Expected(
        eager=expected.output,
        oracle64=expected.output64,
        natural_rms=natural_rms,
        index_ok=index_rule(oracle, arguments),
        otherwise=other_choices(oracle, arguments),
        measure_noise=noise_on_demand(
            reference, tensors, expected.output64, generator, oracle.lowered
        ),
        measure_steps=steps_on_demand(
            reference, tensors, expected.output64, generator, oracle.lowered
        ),
        by_slices=probe == "natural",
    )
    state_noise = noise_on_demand(
        _state_by_name(oracle, arguments, tuple(expected.state64)),
        tensors,
        dict(expected.state64),
        generator,
        oracle.lowered,
    )
    ties = near_ties_on_demand(reference, tensors, expected.output64, generator, oracle.lowered)
    return Trial(
        input_set, probe, arguments, expected, compared, reference, state_noise=state_noise,
        near_ties=ties if expected.in_float64 else None,
    )  # fmt: skip


STATE = "state."
"""Stands before the name of a parameter or buffer where it is named beside arguments."""


def state_tensors(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Weights under names that no argument has."""
    return {STATE + name: tensor for name, tensor in weights.items()}


def reference_by_name(
    oracle: Oracle, arguments: Arguments
) -> Callable[[Mapping[str, torch.Tensor]], Any]:
    """The float64 reference as a function of named inputs and weights; what is not named is kept."""
    in_use = oracle.weights

    def answer(tensors: Mapping[str, torch.Tensor]) -> Any:
        weights = {name: tensors.get(STATE + name, tensor) for name, tensor in in_use.items()}
        given = pair(with_tensors(arguments, tensors))
        return oracle.with_weights(weights, given, natural=arguments)

    return answer


def _state_by_name(
    oracle: Oracle, arguments: Arguments, entries: tuple[str, ...]
) -> Callable[[Mapping[str, torch.Tensor]], Any]:
    """The same of what it leaves in these entries of its state."""
    in_use = oracle.weights

    def left(tensors: Mapping[str, torch.Tensor]) -> Any:
        weights = {name: tensors.get(STATE + name, tensor) for name, tensor in in_use.items()}
        given = pair(with_tensors(arguments, tensors))
        return oracle.state_with_weights(weights, given, entries)

    return left


def pair(value: Any) -> Arguments:
    args, kwargs = value
    return args, kwargs
