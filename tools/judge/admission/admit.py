"""Checks, before any candidate is judged, that the problem can be judged at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import process_time

import torch

from kernelagent.domain.evaluation import Disclosure
from kernelagent.domain.problem import Tolerance
from kernelagent.domain.tables.probes import PROBE
from kernelagent.tools.calls.complex_numbers import is_inexact
from kernelagent.tools.judge.admission.checkable import Admission, admit
from kernelagent.tools.judge.admission.mutants import Checked
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.masked_answers import shares_nonfinite
from kernelagent.tools.judge.problem.trials.one_trial import (
    reference_by_name,
    state_tensors,
    trial_on,
)
from kernelagent.tools.judge.problem.trials.perturbed_state import perturbed_state
from kernelagent.tools.judge.problem.trials.probes import (
    Dropped,
    applies,
    make_probe,
    named_tensors,
    with_tensors,
)
from kernelagent.tools.judge.problem.trials.trials import draw, fresh_seed
from kernelagent.tools.judge.verify.compare import compare
from kernelagent.tools.judge.verify.compare.gate import gate

_SECONDS = 30.0
"""Of processor time; a module of ten tensors takes one or two, one of five hundred would take fifteen minutes."""
_FEWEST_CASES = 3
"""A constant shows on the second; the third is for what the second happens to hide."""


@dataclass(frozen=True)
class TimeForAdmission:
    """Processor time from now on, for all input sets of a problem together."""

    seconds: float = _SECONDS
    began: float = field(default_factory=process_time)

    @property
    def is_up(self) -> bool:
        return process_time() - self.began >= self.seconds

    @property
    def half_is_up(self) -> bool:
        return process_time() - self.began >= self.seconds / 2


def admission_of(
    oracle: Oracle, source: InputSource, *, time: TimeForAdmission
) -> tuple[Admission, tuple[Tolerance, ...]]:
    """Mutants and sensitivity on one input set, and the errors that are allowed on a natural draw.

    The oracle is left with the weights as given. Half the time may go into the probes that mutants
    are tried on; what there was no time for is among the disclosures.
    """
    generator = torch.Generator().manual_seed(fresh_seed())
    # The same draw every time: its tolerances stand in the first prompt, and no candidate is judged on it.
    natural = draw(source, seed=lambda: 0)
    oracle.use_weights(oracle.given_weights)
    scale = compare.scales_of(oracle.in_float64_or_eager(natural))
    first = trial_on(oracle, source.name, "natural", natural, scale, generator)
    cases = [_checked(oracle, first.probe, first.arguments, first.compared)]
    by_name = reference_by_name(oracle, natural)
    parameters = [name for name, _ in oracle.module.named_parameters(remove_duplicate=False)]
    oracle.use_weights(perturbed_state(oracle.given_weights, parameters, generator).tensors)
    reference = reference_by_name(oracle, natural)
    usual = shares_nonfinite(first.expected.output64)
    left_out: list[str] = []
    for name, kind in PROBE.items():
        drawn = named_tensors(draw(source))
        if kind.planted or (kind.needs == "masks" and not applies(name, drawn)):
            continue
        if time.half_is_up and len(cases) >= _FEWEST_CASES:
            left_out.append(name)
            continue
        probe = make_probe(name, drawn, generator, reference, usual=usual)
        if isinstance(probe, Dropped):
            continue
        args, kwargs = with_tensors(natural, probe.tensors)
        trial = trial_on(oracle, source.name, name, (args, kwargs), scale, generator)
        cases.append(_checked(oracle, name, trial.arguments, trial.compared))
    oracle.use_weights(oracle.given_weights)
    admitted = admit(cases, by_name, generator, late=lambda: time.is_up)
    if left_out:
        reported = (*admitted.disclosures, _on_fewer(left_out))
        admitted = replace(admitted, disclosures=reported)
    return admitted, tuple(_tolerances(first.compared))


def _on_fewer(left_out: Sequence[str]) -> Disclosure:
    message = (
        f"half the time for it was up before wrong kernels were tried on all probes, so one of these may "
        f"refuse what is said to pass: {', '.join(left_out)}"
    )
    return Disclosure("probes_not_tried", message)


def _tolerances(expected: compare.Expected) -> Iterator[Tolerance]:
    """Of each floating output: what the gate grants the eager run itself, without noise of the inputs."""
    pairs = zip(compare.leaves(expected.eager), compare.leaves(expected.oracle64), strict=True)
    for (name, eager), (_, oracle64) in pairs:
        if isinstance(eager, torch.Tensor) and is_inexact(eager) and eager.numel():
            scale = expected.natural_rms[name]
            budget = gate(eager, eager, oracle64, scale).budget
            yield Tolerance(name, scale, budget.rms, budget.max)


def _checked(oracle: Oracle, probe: str, arguments: object, expected: compare.Expected) -> Checked:
    return Checked(probe, named_tensors(arguments) | state_tensors(oracle.weights), expected)
