"""Whether the reference has an answer to given inputs that outlasts its own rounding, and how far that moves it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.utils._pytree import tree_map, tree_map_only

from kernelagent.tools.calls.complex_numbers import in_each_part, parts_first
from kernelagent.tools.calls.torch_dtypes import HALVES
from kernelagent.tools.judge.problem.reference.rounded_steps import RoundedSteps
from kernelagent.tools.judge.problem.trials.input_domain import (
    Tensors,
)
from kernelagent.tools.judge.problem.trials.masked_answers import is_finite_everywhere
from kernelagent.tools.judge.problem.trials.refusals import REFUSALS
from kernelagent.tools.judge.verify.compare.compare import leaves
from kernelagent.tools.judge.verify.compare.gate import unit_roundoff
from kernelagent.tools.judge.verify.compare.regions import region_norms
from kernelagent.tools.judge.verify.compare.single_elements import (
    ROUNDINGS_OF_HALVES,
    TOLD_OF_HALVES,
    roundings_of,
)

_ILL = 0.02
"""Share of a region that eager's error, or rounding the inputs, may be for the reference to have an answer."""


_ILL_UNITS = 25.0


Eager = Callable[[Tensors], Any]


class Float64(Protocol):
    """The reference in float64."""

    def __call__(self, tensors: Tensors, /, steps: AbstractContextManager[Any] = ...) -> Any:
        """Its answer; `steps` is entered while it computes, and for nothing else."""


@dataclass(frozen=True)
class Lasting:
    """The right answer, which rounding leaves alone, and how far it moves it."""

    right: Any
    moved: Any
    """As for `Planted`, each element as far as it was moved itself. Of a complex answer the parts, as in all four."""
    near: Any
    """The same with fewer roundings of inputs of 16 bits: by so much is told, by `moved` refused."""
    eager: Any
    """What the reference gives in its own precision: its products may be rounded to TF32 or bfloat16."""


def lasting(
    tensors: Tensors,
    generator: torch.Generator,
    eager: Eager,
    exact: Float64,
    scales: Mapping[str, float],
    is_finite: Callable[[Any], bool] = is_finite_everywhere,
    *,
    at_ends: bool = False,
) -> Lasting | str:
    """Whether the reference has an answer to these inputs that its own rounding leaves alone; else why not.

    `is_finite`: whether an answer is as finite as it must be; `at_ends`: what is exactly one or minus one has no rounding,
    which would lead out of a domain's bounds.
    """
    try:
        given, right = in_parts(eager(tensors)), in_parts(exact(tensors))
        if not is_finite(given) or not is_finite(right):
            return "the reference's answer is not finite"
        inputs = in_parts(
            exact({n: _rounded(t, generator, at_ends=at_ends) for n, t in tensors.items()})
        )
        steps = in_parts(exact(tensors, RoundedSteps(generator, keeps_exact=at_ends)))
    except REFUSALS as error:
        message = str(error).strip().splitlines() or [type(error).__name__]
        return f"the reference refuses it: {message[-1]:.200}"
    if any(_shapes(answer) != _shapes(right) for answer in (given, inputs, steps)):
        return "the size of the reference's answer does not outlast its own rounding"
    moved = _further(inputs, steps, right)
    if is_known(given, right, given, scales) and is_known(moved, right, given, scales):
        if not any(t.dtype in HALVES for t in tensors.values()):
            return Lasting(right, moved, moved, given)
        far, near = (
            _further(_shortened(inputs, right, given, most), steps, right)
            for most in (ROUNDINGS_OF_HALVES, TOLD_OF_HALVES)
        )
        return Lasting(right, far, near, given)
    return "the reference's answer does not outlast its own rounding"


def _shapes(answer: Any) -> dict[str, torch.Size | None]:
    """By name; of what is no tensor nothing."""
    return {n: x.shape if isinstance(x, torch.Tensor) else None for n, x in leaves(answer)}


def in_parts(answer: Any) -> Any:
    """The answer with floating tensors in the place of complex ones, as single elements are compared."""
    return tree_map_only(torch.Tensor, parts_first, answer)


def _shortened(inputs: Any, right: Any, given: Any, roundings: float) -> Any:
    """How far inputs of 16 bits move the answer, so that they count as so many roundings of theirs where all is compared.

    A result in float32 is held to a thousand roundings of float32: so many of 16 bits would be any result at all.
    """

    def shortened(moved: Any, exact: Any, typed: Any) -> Any:
        if not isinstance(exact, torch.Tensor) or not exact.is_floating_point():
            return moved
        if not isinstance(typed, torch.Tensor):
            return moved
        return exact + (moved - exact) * (roundings / roundings_of(typed.dtype))

    return tree_map(shortened, inputs, right, given)


def _rounded(
    tensor: torch.Tensor, generator: torch.Generator, *, at_ends: bool = False
) -> torch.Tensor:
    """Each element one unit roundoff up or down."""
    if tensor.is_complex():
        return in_each_part(lambda part: _rounded(part, generator), tensor)
    if not tensor.is_floating_point():
        return tensor
    drawn = torch.randint(
        0, 2, tensor.shape, generator=generator, device=generator.device, dtype=torch.int8
    )
    signs = (2 * drawn - 1).to(device=tensor.device, dtype=torch.float64)
    wide = tensor.to(torch.float64)
    rounded = wide * (1 + unit_roundoff(tensor.dtype) * signs)
    return torch.where(wide.abs() == 1, wide, rounded) if at_ends else rounded


def _further(first: Any, other: Any, right: Any) -> Any:
    """Each element of the answer that is further from the right one: what is no number is furthest."""

    def chosen(a: Any, b: Any, exact: Any) -> Any:
        if not isinstance(exact, torch.Tensor) or not exact.is_floating_point():
            return a
        return torch.where(b.isnan() | ((b - exact).abs() > (a - exact).abs()), b, a)

    return tree_map(chosen, first, other, right)


def is_known(answer: Any, right: Any, typed: Any, scales: Mapping[str, float]) -> bool:
    """Whether every region of the answer is near the right one, in the type of the output."""
    exact, types = dict(leaves(in_parts(right))), dict(leaves(in_parts(typed)))
    for name, leaf in leaves(in_parts(answer)):
        like = types[name]
        if not isinstance(like, torch.Tensor) or not like.is_floating_point() or not like.numel():
            continue
        known = exact[name].to(torch.float64)
        off = torch.where(known.isfinite(), leaf.to(torch.float64) - known, 0.0)
        known = torch.where(known.isfinite(), known, 0.0)
        if bool(off.isnan().any()):
            return False
        error, size = region_norms(off, like.shape), region_norms(known, like.shape)
        share = max(_ILL, _ILL_UNITS * unit_roundoff(like.dtype))
        floor = share * 1e-3 * scales.get(name, 0.0)
        if bool((error.rms > share * size.rms + floor).any()):
            return False
        if bool((error.max > share * size.max + floor).any()):
            return False
    return True
