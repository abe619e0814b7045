"""Which whole numbers and booleans of a result rounding decides: those that are others once inputs and steps err a little.

A number is rounded to the next whole one, a quotient is cut off, the larger of two equal ones is named: where the
reference is that near to a bound, a right kernel may answer otherwise, because its last bits are others.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch

from kernelagent.domain.errors import ProblemError
from kernelagent.tools.judge.problem.reference.conditioning import moved
from kernelagent.tools.judge.problem.reference.rounded_steps import RoundedSteps
from kernelagent.tools.judge.problem.trials.input_domain import Tensors
from kernelagent.tools.judge.verify.compare.compare import leaves

_UNITS = 32
"""Of float32: further than the last places of a few operations reach."""
_MOST_DRAWS = 24
"""Of an element at a bound each draw shows it with even chances; most are seen in the first few."""
_REFUSED = (ProblemError, ValueError, ArithmeticError, AssertionError, IndexError)


class NearTies(Protocol):
    """Which elements of an output rounding may have decided as the candidate has them."""

    def __call__(self, name: str, got: torch.Tensor, wrong: torch.Tensor) -> torch.Tensor:
        """bool per element, true only where `wrong` is."""
        ...


def near_ties_on_demand(
    reference: Callable[[Tensors], Any],
    tensors: Tensors,
    oracle64: Any,
    generator: torch.Generator,
    lowered: Mapping[str, float] | None = None,
) -> NearTies:
    """The reference is asked where an element is wrong, and as often as it takes to see it move.

    `reference`: in float64, of named inputs and weights; `oracle64`: its answer on `tensors`. An element is near a
    tie where its answers differ, and right where it is one of them, or as far from the least or the largest as these
    are apart: in a count of many ties each draw decides each by itself, and a kernel may decide them all alike.
    `lowered`: as `RoundedSteps` has it.
    """
    ranges = {name: (leaf.long(), leaf.long()) for name, leaf in leaves(oracle64) if _whole(leaf)}
    draws = 0

    def draw() -> None:
        with contextlib.suppress(*_REFUSED):
            others = {
                name: moved(tensor, generator, least=_UNITS * 2.0**-24)
                for name, tensor in tensors.items()
            }
            # What is a whole number already must stay one: it is cut off next.
            with RoundedSteps(generator, keeps_whole=True, units=_UNITS, lowered=lowered):
                answers = reference(others)
            for name, leaf in leaves(answers):
                if name in ranges and _whole(leaf) and leaf.shape == ranges[name][0].shape:
                    low, high = ranges[name]
                    ranges[name] = low.minimum(leaf.long()), high.maximum(leaf.long())

    def near(name: str, got: torch.Tensor, wrong: torch.Tensor) -> torch.Tensor:
        nonlocal draws
        if name not in ranges:
            return torch.zeros_like(wrong)
        while True:
            low, high = ranges[name]
            value = got.long()
            near_both = (2 * low - high <= value) & (value <= 2 * high - low)
            result: torch.Tensor = wrong & (low < high) & near_both
            if draws == _MOST_DRAWS or torch.equal(result, wrong):
                return result
            draws += 1
            draw()

    return near


def _whole(leaf: Any) -> bool:
    return (
        isinstance(leaf, torch.Tensor)
        and not leaf.is_floating_point()
        and not leaf.is_complex()
        and leaf.dtype != torch.uint64
    )
