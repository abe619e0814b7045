"""Calls and training steps in which what a module compares is exactly a number of its source.

At the bound of a clamp a gradient is one or zero, and rounding would decide which. So inputs are small whole
numbers and numbers of the sources, and weights powers of two: what is added and multiplied from these is exact in
any order, and every kernel comes out on the same side as the reference. Where it is not exact, such as behind a
division, rounding may decide, and nothing is asked.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from kernelagent.tools.calls.complex_numbers import in_each_part, is_inexact
from kernelagent.tools.calls.training_step import TrainingStep
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.reference.rounded_steps import RoundedSteps
from kernelagent.tools.judge.problem.steps.steps import EVERYTHING, trained, with_upstream
from kernelagent.tools.judge.problem.trials.input_domain import laid_out_like, observe, shaped_like
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.lasting_answers import in_parts, is_known
from kernelagent.tools.judge.problem.trials.masked_answers import is_hidden_alone
from kernelagent.tools.judge.problem.trials.one_trial import trial_on
from kernelagent.tools.judge.problem.trials.overflow import below_overflow
from kernelagent.tools.judge.problem.trials.planting.literals import Literals
from kernelagent.tools.judge.problem.trials.probes import named_tensors, with_tensors
from kernelagent.tools.judge.problem.trials.refusals import REFUSALS
from kernelagent.tools.judge.problem.trials.rounds import Round, Trial, in_rounds
from kernelagent.tools.judge.problem.trials.trials import draw, fresh_seed
from kernelagent.tools.judge.verify.compare import compare
from kernelagent.tools.judge.verify.compare.gate import unit_roundoff

_PROBE = "literals"
_WHOLE = 8
"""The largest whole number."""
_LARGEST = 1e3
"""Numbers of the sources beyond it are left out."""
_SHARE = 0.25
"""Of the elements are numbers of the sources."""
_MOSTLY = 0.75
"""The same of numbers beside a bound: an input may have few elements."""
_POWERS = (-2, 2)
_OF_EACH = 6
_OCTAVES = (-6, 9)
_SCALES = (1, 2, 3)
_BITS_OF_16 = (8, 11)
"""Bits of a bfloat16's and a float16's number, and one more, at which it is midway."""
Tensors = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Numbers:
    """What stands among the small whole numbers."""

    values: tuple[float, ...] = ()
    share: float = _SHARE
    """Of the elements."""


@in_rounds
def corner_rounds(
    oracle: Oracle,
    sources: tuple[InputSource, ...],
    *,
    literals: Literals,
    steps: bool,
) -> Iterator[Trial | Round]:
    """One round, of calls or of training steps with a backward; none where the reference has no exact answer."""
    generator = torch.Generator().manual_seed(fresh_seed())
    given = oracle.given_weights
    free = [name for name, _ in oracle.module.named_parameters(remove_duplicate=False)]
    weights = {**given, **{n: _power_of_two(given[n], generator) for n in free if n in given}}
    oracle.use_weights(weights)
    trials: list[Trial] = []
    beside = () if steps else tuple((numbers,) for numbers in beside_bounds(generator))
    for source, tried in product(sources, ((Numbers(literals.values), Numbers()), *beside)):
        for numbers in tried:
            natural = draw(source)
            try:
                made = _trial(oracle, source.name, natural, numbers, generator, steps=steps)
            except REFUSALS:
                made = None
            if made is not None:
                trials.append(made)
                yield made
                break
    if trials:
        yield Round(weights, tuple(trials), ())


def _trial(
    oracle: Oracle,
    input_set: str,
    natural: Arguments,
    numbers: Numbers,
    generator: torch.Generator,
    *,
    steps: bool,
) -> Trial | None:
    """None where rounding decides, or no input is a free number."""
    free = {n: t for n, t in named_tensors(natural).items() if _is_free(t)}
    if not free:
        return None
    changed = {name: _whole(tensor, numbers, generator) for name, tensor in free.items()}
    args, kwargs = with_tensors(natural, changed)
    arguments, step, asked = (args, kwargs), None, oracle
    if steps:
        step = _step(oracle, arguments, generator)
        asked = oracle.asking(step)

    def exact(rounded: AbstractContextManager[Any]) -> Any:
        with rounded:
            answer = asked.in_float64_or_eager(arguments)
        return below_overflow(answer)

    usual = asked.in_float64_or_eager(natural)
    scales = compare.scales_of(usual)
    eager, right = in_parts(asked.eager(arguments)), in_parts(exact(nullcontext()))
    moved = in_parts(exact(RoundedSteps(generator, keeps_whole=True)))
    if not all(is_hidden_alone(answer, lambda: usual) for answer in (eager, right)):
        return None
    if not is_known(eager, right, eager, scales) or not is_known(moved, right, eager, scales):
        return None
    trial = trial_on(asked, input_set, _PROBE, arguments, scales, generator)
    widest = tree_map(_by_the_widest, moved, right, eager)
    if not _decides(moved, right):
        trial = replace(trial, near_ties=_nowhere)
    return replace(trial, step=step, compared=replace(trial.compared, moved=widest))


def _nowhere(name: str, got: torch.Tensor, wrong: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(wrong)


def _decides(moved: Any, right: Any) -> bool:
    """Whether rounding decides any whole number or truth of the answer."""
    ours, theirs = tree_leaves(moved), tree_leaves(right)
    return any(
        isinstance(b, torch.Tensor) and not is_inexact(b) and not torch.equal(a, b)
        for a, b in zip(ours, theirs, strict=True)
    )


def beside_bounds(generator: torch.Generator) -> tuple[Numbers, ...]:
    """Halves, these by small powers of two, powers of two, what lies midway between two numbers of 16 bits; each with the
    float32 numbers below them.

    There a rounding, an exponent or a conversion takes its next value.
    """

    def drawn(low: int, high: int) -> list[int]:
        made: list[int] = torch.randint(low, high, (_OF_EACH,), generator=generator).tolist()
        return made

    # What lies below a half is, with a half added, rounded to one.
    halves = [*3 * (0.5,), *(at + 0.5 for at in drawn(0, _WHOLE))]
    # As a scale of a quarter, or places in a picture, make halves of them.
    parts = [[(at + 0.5) * 2.0**-down for at in drawn(0, _WHOLE)] for down in _SCALES]
    octaves = [2.0**at for at in drawn(*_OCTAVES)]
    midway = [
        (1 + (2 * at + 1) * 2.0**-bits) * octave
        for bits, octave in zip(_BITS_OF_16, octaves, strict=False)
        for at in drawn(0, 1 << (bits - 1))
    ]
    return tuple(
        Numbers((*numbers, *map(_below_in_float32, numbers)), _MOSTLY)
        for numbers in (halves, *parts, octaves, midway)
    )


def _below_in_float32(number: float) -> float:
    at = torch.tensor(number, dtype=torch.float32)
    return float(torch.nextafter(at, torch.zeros_like(at)))


def _step(oracle: Oracle, arguments: Arguments, generator: torch.Generator) -> TrainingStep:
    training = secrets.choice((True, False))
    begun = trained(oracle, arguments).step(EVERYTHING, training=training)
    return replace(with_upstream(oracle, arguments, begun, generator, 1), watched=True)


def _by_the_widest(moved: Any, right: Any, eager: Any) -> Any:
    """Each element moved as far as the one that moves furthest: one draw may move a sum by nothing.

    In 16 bits at least by a rounding of the largest: a sum may be kept in parts of this type, which cancel.
    """
    if not isinstance(right, torch.Tensor) or not right.is_floating_point() or not right.numel():
        return moved
    known = right.isfinite()
    furthest = torch.where(known, moved - right, 0.0).abs().amax()
    if eager.element_size() <= 2:
        largest = torch.where(known, right, 0.0).abs().amax()
        furthest = furthest.maximum(2 * unit_roundoff(eager.dtype) * largest)
    return right + furthest


def _is_free(tensor: torch.Tensor) -> bool:
    return (
        is_inexact(tensor)
        and tensor.element_size() > 1
        and observe(tensor).kind in ("real", "positive")
    )


def _whole(tensor: torch.Tensor, numbers: Numbers, generator: torch.Generator) -> torch.Tensor:
    """Small whole numbers and, among them, those of the sources that this type holds exactly."""
    if tensor.is_complex():
        made = in_each_part(lambda part: _whole(part, numbers, generator), tensor)
        return laid_out_like(made, tensor)
    domain = observe(tensor)
    size = tensor.shape
    values = torch.randint(-_WHOLE, _WHOLE + 1, size, generator=generator).double()
    held = torch.tensor([n for n in numbers.values if n <= _LARGEST], dtype=torch.float64)
    held = held[held == held.to(tensor.dtype).double()]
    if held.numel():
        which = torch.randint(held.numel(), size, generator=generator)
        signs = 1 - 2 * torch.randint(2, size, generator=generator)
        chosen = torch.rand(size, generator=generator) < numbers.share
        values = torch.where(chosen, held[which] * signs, values)
    if domain.kind == "positive":
        values = values.abs().clamp_min(1.0)
    elif domain.nonnegative:
        values = values.abs()
    return laid_out_like(shaped_like(values.to(tensor.device), tensor, domain), tensor)


def _power_of_two(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """With the sign that each weight has."""
    if tensor.is_complex():
        made = in_each_part(lambda part: _power_of_two(part, generator), tensor)
        return laid_out_like(made, tensor)
    if not _is_free(tensor) or not tensor.numel():
        return tensor.detach().clone()
    power = torch.randint(*_POWERS, tensor.shape, generator=generator).to(tensor.device)
    signs = torch.where(tensor.detach() < 0, -1.0, 1.0)
    return laid_out_like((signs * torch.exp2(power.double())).to(tensor.dtype), tensor)
