"""How far a correct output may move: the effect of rounding inputs and steps, and of long float32 sums.

Used only after the gate refused: if eager happens to be exact, the budget is so small that no correct
kernel can meet it.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import torch

from kernelagent.domain.errors import ProblemError
from kernelagent.domain.evaluation import Disclosure
from kernelagent.tools.calls.complex_numbers import in_each_part, is_inexact
from kernelagent.tools.judge.problem.reference.rounded_steps import RoundedSteps
from kernelagent.tools.judge.problem.reference.summed_terms import SummedTerms
from kernelagent.tools.judge.problem.trials.input_domain import Tensors
from kernelagent.tools.judge.verify.compare.compare import leaves
from kernelagent.tools.judge.verify.compare.gate import output_unit, unit_roundoff
from kernelagent.tools.judge.verify.compare.regions import (
    Enough,
    MeasureNoise,
    MeasureSpread,
    Noise,
    NoiseSources,
    region_norms,
)
from kernelagent.tools.judge.verify.compare.within_budget.slices import slice_norms

LONG_SUM = 32
"""From this many terms of one sign on, a sequential float32 sum may err by more than the gate's four units."""
_INSIDE = 4 * 2.0**-24
"""Error, relative to the row, of a float32 intermediate shared by the whole row; equal to the gate's floor."""
_DRAWS = 8
_BUCKET_BASE = 4.0
_FEWEST_IN_BUCKET = 64
_UNEVEN = 6.0
_REFUSED = (ProblemError, ValueError, ArithmeticError, AssertionError, IndexError)
"""What a reference raises that checks its inputs: nothing is measured there."""


def measure_noise(
    reference: Callable[[Tensors], Any],
    tensors: Tensors,
    oracle64: Any,
    generator: torch.Generator,
    lowered: Mapping[str, float] | None = None,
) -> dict[str, NoiseSources]:
    """Change of each floating output when every element of every input moves by its own rounding, and
    when every result of an operation moves by float32's; at least what float32 intermediates cost.

    `reference` is the float64 reference, `oracle64` its answer on `tensors`, whose dtypes say how
    exactly the inputs are known. One unit roundoff up or down each, drawn eight times; the
    largest counts. The steps count because sums that cancel exactly in eager's order, as in a backward
    of a softmax that picked one element, leave their rounding in any other order. `lowered`: of these
    operations the factors are known less exactly (`RoundedSteps`): that eager rounded one to nearly what it
    was is luck.
    """
    draws = _Draws(reference, tensors, oracle64, generator, lowered)
    for _ in range(_DRAWS):
        draws.draw()
    return {name: draws.so_far(name) for name in draws.names}


class _Draws:
    """The largest changes of the draws so far."""

    def __init__(
        self,
        reference: Callable[[Tensors], Any],
        tensors: Tensors,
        oracle64: Any,
        generator: torch.Generator,
        lowered: Mapping[str, float] | None,
    ) -> None:
        self._reference, self._tensors = reference, tensors
        self._generator, self._lowered = generator, lowered
        self._exact = dict(leaves(oracle64))
        self._inputs = {n: _inside(leaf) for n, leaf in self._exact.items() if _counts(leaf)}
        self._steps = {name: _none(noise) for name, noise in self._inputs.items()}
        self._slices: dict[str, Noise] = {}
        self._spread: dict[str, torch.Tensor] = {}
        self.count = 0

    @property
    def names(self) -> list[str]:
        """The outputs whose noise is measured."""
        return list(self._inputs)

    def draw(self) -> None:
        """All inputs once, and all steps once."""
        self.count += 1
        with contextlib.suppress(*_REFUSED):
            # Without a name, so that no two draws of all weights exist at once.
            answers = self._reference(
                {name: moved(tensor, self._generator) for name, tensor in self._tensors.items()}
            )
            _take_larger(self._inputs, self._slices, answers, self._exact)
        with contextlib.suppress(*_REFUSED):
            with RoundedSteps(self._generator, lowered=self._lowered):
                answers = self._reference(self._tensors)
            _take_larger(self._steps, self._slices, answers, self._exact)
            _take_further(self._spread, answers, self._exact)

    def so_far(self, name: str) -> NoiseSources:
        """Of one output."""
        return NoiseSources(
            self._inputs[name],
            self._steps[name],
            self._slices.get(name),
            spread=self._spread.get(name),
        )


def _take_further(spread: dict[str, torch.Tensor], answers: Any, exact: dict[str, Any]) -> None:
    """By element, in single precision: how far it is, not exactly how far, decides what is known of it."""
    for name, answer in leaves(answers):
        right = exact[name]
        if not isinstance(answer, torch.Tensor) or not is_inexact(answer):
            continue
        moved = (answer - torch.as_tensor(right)).abs().to(torch.float32).nan_to_num(nan=0.0)
        spread[name] = moved if name not in spread else spread[name].maximum(moved)


def _take_larger(
    into: dict[str, Noise], slices: dict[str, Noise], answers: Any, exact: dict[str, Any]
) -> None:
    for name, answer in leaves(answers):
        if name in into:
            change = torch.as_tensor(answer) - torch.as_tensor(exact[name])
            into[name] = _larger(into[name], region_norms(change, change.shape))
            sliced = slice_norms(change)
            slices[name] = _larger(slices[name], sliced) if name in slices else sliced


def _none(like: Noise) -> Noise:
    return Noise(torch.zeros_like(like.rms), torch.zeros_like(like.max))


def _inside(leaf: Any) -> Noise:
    value = torch.as_tensor(leaf)
    size = region_norms(value, value.shape)
    return Noise(_INSIDE * size.rms, _INSIDE * size.max)


def _larger(left: Noise, right: Noise) -> Noise:
    return Noise(left.rms.maximum(right.rms), left.max.maximum(right.max))


def _counts(leaf: Any) -> bool:
    if isinstance(leaf, torch.Tensor):
        return is_inexact(leaf) and leaf.numel() > 0
    return isinstance(leaf, float | complex)


def long_sum_noise(
    oracle64: torch.Tensor, noise: Noise, tensors: Tensors, terms: int
) -> Noise | None:
    """The error one sequential float32 sum of `terms` terms may have; None for shorter sums.

    The a-priori bound is `sqrt(n) * 2**-24 * sum|x_i|`. Independent roundings of the terms move the
    sum by `u * sum|x_i| / sqrt(n)`, which is what `noise` measured with the roundoff `u` of the
    inputs: hence `n` times that, in units of float32. Where terms cancel the bound is far above what
    a sum really loses, so it is never more than `4 sqrt(n)` units of the sum itself: one is lost by terms
    at random, three by a thousand terms of few values, which round to one side again and again.
    """
    if terms < LONG_SUM:
        return None
    known_to = min(
        (unit_roundoff(t.dtype) for t in tensors.values() if is_inexact(t)), default=2.0**-24
    )
    size = region_norms(oracle64, tuple(oracle64.shape))
    bound, most = terms * 2.0**-24 / known_to, 4 * terms**0.5 * 2.0**-24
    return Noise(
        (bound * noise.rms).minimum(most * size.rms), (bound * noise.max).minimum(most * size.max)
    )


def noise_on_demand(
    reference: Callable[[Tensors], Any],
    tensors: Tensors,
    oracle64: Any,
    generator: torch.Generator,
    lowered: Mapping[str, float] | None = None,
) -> MeasureNoise:
    """What `compare.Expected.measure_noise` wants: measured from the first refusal on, as far as is asked, and remembered."""
    exact = dict(leaves(oracle64))
    terms = SummedTerms()
    kept: list[_Draws] = []

    def measure(name: str, enough: Enough | None = None) -> NoiseSources:
        if not kept:
            kept.append(_Draws(reference, tensors, oracle64, generator, lowered))
            with contextlib.suppress(*_REFUSED), terms:
                reference(tensors)
        (draws,) = kept
        while draws.count < _DRAWS:
            if draws.count and enough is not None and enough(draws.so_far(name)):
                break
            draws.draw()
        sources = draws.so_far(name)
        most = max(terms.most, longest_sum(tensors, oracle64))
        right = torch.as_tensor(exact[name])
        return replace(sources, long_sum=long_sum_noise(right, sources.inputs, tensors, most))

    return measure


def steps_on_demand(
    reference: Callable[[Tensors], Any],
    tensors: Tensors,
    oracle64: Any,
    generator: torch.Generator,
    lowered: Mapping[str, float] | None = None,
) -> MeasureSpread:
    """What `compare.Expected.measure_steps` wants: drawn when it is first asked, and remembered.

    What float32 holds stays as it is: a number exactly on a threshold is on one side of it in every order of sums.
    """
    exact = dict(leaves(oracle64))

    @cache
    def drawn() -> dict[str, torch.Tensor]:
        spread: dict[str, torch.Tensor] = {}
        for _ in range(_DRAWS):
            with contextlib.suppress(*_REFUSED):
                with RoundedSteps(generator, keeps_whole=True, lowered=lowered, beside_one=True):
                    answers = reference(tensors)
                _take_further(spread, answers, exact)
        return spread

    return lambda name: drawn().get(name)


def longest_sum(tensors: Tensors, outputs: Any) -> int:
    """Most terms an output element is a sum of, read from the shapes: sizes that no output has."""
    result = [leaf for _, leaf in leaves(outputs) if isinstance(leaf, torch.Tensor)]
    kept = {size for leaf in result for size in leaf.shape}
    return max(
        (math.prod(n for n in tensor.shape if n not in kept) for tensor in tensors.values()),
        default=1,
    )


def uneven_accuracy(
    name: str, candidate: torch.Tensor, eager: torch.Tensor, oracle64: torch.Tensor
) -> Disclosure | None:
    """Say so when values of one size are far less exact than eager's, though the whole passed.

    Buckets are powers of four of the oracle's absolute value; those of 64 and more elements count.
    """
    finite = candidate.isfinite() & eager.isfinite() & oracle64.isfinite() & (oracle64 != 0)
    exact = oracle64[finite].to(torch.float64)
    if exact.numel() < _FEWEST_IN_BUCKET:
        return None
    powers = exact.abs().log2().div(torch.tensor(_BUCKET_BASE).log2()).floor().to(torch.int64)
    lowest = int(powers.amin())
    places = powers - lowest
    counts = torch.bincount(places)

    def rms(values: torch.Tensor) -> torch.Tensor:
        return (torch.bincount(places, weights=values.square()) / counts.clamp(min=1)).sqrt()

    own = rms(candidate[finite].to(torch.float64) - exact)
    unit = rms(eager[finite].to(torch.float64) - exact)
    unit = unit.maximum(output_unit(eager.dtype) * rms(exact))
    ratios = torch.where(counts >= _FEWEST_IN_BUCKET, own / unit, 0.0)
    worst = int(ratios.argmax())
    if float(ratios[worst]) <= _UNEVEN:
        return None
    low = _BUCKET_BASE ** (worst + lowest)
    return Disclosure(
        "uneven_accuracy",
        f"{name}: values between {low:.3g} and {low * _BUCKET_BASE:.3g} are "
        f"{float(ratios[worst]):.0f} times less exact than eager's",
    )


def moved(tensor: torch.Tensor, generator: torch.Generator, *, least: float = 0.0) -> torch.Tensor:
    """Each element up or down by its unit roundoff, or by `least` of itself where that is more; in float64."""
    if not is_inexact(tensor):
        return tensor
    if tensor.is_complex():
        return in_each_part(lambda part: moved(part, generator, least=least), tensor)
    wide = tensor.to(torch.float64)
    drawn = torch.randint(0, 2, tensor.shape, generator=generator, device=generator.device)
    signs = (2 * drawn - 1).to(device=tensor.device, dtype=torch.float64)
    result = wide * (1 + max(unit_roundoff(tensor.dtype), least) * signs)
    # 0 times anything, and infinity times it, must stay what it was: masks are not rounded.
    return torch.where(wide.isfinite(), result, wide)
