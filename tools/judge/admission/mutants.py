"""Wrong kernels made automatically from a reference: what a checkable problem must tell apart.

A mutant is a function of one case (a probe's tensors and the reference's answer) that returns the
answer a certain wrong kernel would give, or None where that kernel makes no sense.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from kernelagent.tools.calls.complex_numbers import in_each_part, is_inexact, of_parts
from kernelagent.tools.judge.problem.reference.in_float64 import double
from kernelagent.tools.judge.problem.trials.input_domain import Tensors
from kernelagent.tools.judge.verify.compare.compare import Expected, leaves

_FEWEST = 8
"""A dimension of fewer elements is no reduction that somebody would shorten."""
Reference = Callable[[Tensors], Any]
Outputs = Mapping[str, torch.Tensor]
"""Floating outputs by name, in float64."""


@dataclass(frozen=True)
class Checked:
    """One probe of the problem with the reference's answer."""

    probe: str
    tensors: Tensors
    """Inputs and weights by name."""
    expected: Expected

    @property
    def outputs(self) -> Outputs:
        return floating(self.expected.oracle64)


@dataclass(frozen=True)
class Mutant:
    """A wrong kernel; `constant` ones would make a problem that accepts them degenerate."""

    name: str
    answer: Callable[[Checked], Outputs | None]
    constant: bool = False
    tensor: str | None = None
    """The input or weight it mistreats."""
    of_first: bool = False
    """It is the right answer to the case that it was made from: only others can refuse it."""


def floating(result: Any) -> dict[str, torch.Tensor]:
    """The floating and complex outputs of a result tree by name."""
    outcome = leaves(result)
    return {
        name: leaf
        for name, leaf in outcome
        if isinstance(leaf, torch.Tensor) and is_inexact(leaf) and leaf.numel()
    }


def mutants(example: Checked, reference: Reference) -> Iterator[Mutant]:
    """Every mutant that fits the problem; `example` is a case on natural inputs."""
    yield Mutant("all zeros", _each(torch.zeros_like), constant=True)
    yield Mutant("one constant", _each(_mean), constant=True)
    yield Mutant("the first answer again", _again(example), constant=True, of_first=True)
    yield Mutant("one value per row", _each(_row_mean))
    yield Mutant("rows off by one", _each(lambda y: y.roll(1, 0) if y.dim() else None))
    yield Mutant("columns off by one", _each(lambda y: y.roll(1, -1) if y.dim() > 1 else None))
    yield Mutant("output rounded to a narrower type", _each_like(_output_rounded))
    for name in example.tensors:
        yield from _of_tensor(name, example, reference)
    yield Mutant("inputs rounded to a narrower type", _recomputed(reference, _all_rounded))


def _of_tensor(name: str, example: Checked, reference: Reference) -> Iterator[Mutant]:
    tensor = example.tensors[name]
    if not is_inexact(tensor) or not tensor.numel():
        return
    for degree, word in ((1, "a straight line"), (3, "a cubic")):
        fit = _fitted(name, example, degree)
        if fit is not None:
            yield Mutant(f"{word} of {name}", fit, tensor=name)
    if any(y.shape == tensor.shape for y in example.outputs.values()):
        yield Mutant(f"{name} itself", _returns(name), tensor=name)
    for words, change in _mistreated(name, tensor):
        yield Mutant(f"{name} {words}", _recomputed(reference, change), tensor=name)


def _mistreated(
    name: str, tensor: torch.Tensor
) -> Iterator[tuple[str, Callable[[Tensors], Tensors]]]:
    yield "taken as 0", _replaced(name, 0.0)
    yield "taken as 1", _replaced(name, 1.0)
    if tensor.is_complex():
        yield "without its imaginary part", _with(name, lambda t: of_parts(t.real, 0 * t.real))
        yield "without its real part", _with(name, lambda t: of_parts(0 * t.imag, t.imag))
        yield "conjugated", _with(name, torch.conj_physical)
    for dim in range(tensor.dim()):
        size = tensor.shape[dim]
        if size >= _FEWEST:
            tail = slice(size - max(1, size // 10), size)
            yield f"without the last tenth of dimension {dim}", _blanked(name, dim, tail)
            odd = slice(1, size, 2)
            yield f"without every second element of dimension {dim}", _blanked(name, dim, odd)


def _each(change: Callable[[torch.Tensor], torch.Tensor | None]) -> Callable[[Checked], Any]:
    return _each_like(lambda y, eager: change(y))


def _each_like(
    change: Callable[[torch.Tensor, torch.Tensor], torch.Tensor | None],
) -> Callable[[Checked], Outputs | None]:
    def answer(case: Checked) -> Outputs | None:
        eager = floating(case.expected.eager)
        changed = {name: change(y, eager[name]) for name, y in case.outputs.items()}
        made = {name: y for name, y in changed.items() if y is not None}
        return made or None

    return answer


def _mean(y: torch.Tensor) -> torch.Tensor | None:
    finite = y[y.isfinite()]
    if y.numel() == 1:
        return None
    return torch.full_like(y, finite.mean().item() if finite.numel() else 0.0)


def _again(example: Checked) -> Callable[[Checked], Outputs | None]:
    first = example.outputs

    def answer(case: Checked) -> Outputs | None:
        same = all(first[name].shape == y.shape for name, y in case.outputs.items())
        return first or None if same else None

    return answer


def _row_mean(y: torch.Tensor) -> torch.Tensor | None:
    return y.mean(-1, keepdim=True).expand_as(y) if y.dim() and y.shape[-1] > 1 else None


def _output_rounded(y: torch.Tensor, eager: torch.Tensor) -> torch.Tensor:
    return _narrowed(y, eager.dtype)


def _narrowed(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Rounded to bfloat16 where the type is wider, to three bits of mantissa otherwise."""
    if values.is_complex():
        part_type = dtype.to_real()
        made = in_each_part(lambda part: _narrowed(part, part_type), values)
        return made.to(values.dtype)
    if dtype in (torch.float32, torch.float64):
        return values.to(torch.bfloat16).to(values.dtype)
    mantissa, exponent = torch.frexp(values.to(torch.float64))
    return torch.ldexp((mantissa * 16).round() / 16, exponent).to(values.dtype)


def _recomputed(
    reference: Reference, change: Callable[[Tensors], Tensors]
) -> Callable[[Checked], Outputs | None]:
    def answer(case: Checked) -> Outputs | None:
        return floating(reference(change(case.tensors)))

    return answer


def _all_rounded(tensors: Tensors) -> Tensors:
    return {name: _narrowed(t, t.dtype) if is_inexact(t) else t for name, t in tensors.items()}


def _replaced(name: str, value: float) -> Callable[[Tensors], Tensors]:
    def change(tensors: Tensors) -> Tensors:
        return {**tensors, name: torch.full_like(tensors[name], value)}

    return change


def _with(
    name: str, change: Callable[[torch.Tensor], torch.Tensor]
) -> Callable[[Tensors], Tensors]:
    return lambda tensors: {**tensors, name: change(tensors[name])}


def _blanked(name: str, dim: int, piece: slice) -> Callable[[Tensors], Tensors]:
    def change(tensors: Tensors) -> Tensors:
        blanked = tensors[name].detach().clone(memory_format=torch.contiguous_format)
        blanked[(slice(None),) * dim + (piece,)] = 0
        return {**tensors, name: blanked}

    return change


def _returns(name: str) -> Callable[[Checked], Outputs | None]:
    def answer(case: Checked) -> Outputs | None:
        tensor = double(case.tensors[name])
        alike = {
            out: tensor.to(y.dtype)
            for out, y in case.outputs.items()
            if y.shape == tensor.shape and y.is_complex() >= tensor.is_complex()
        }
        return alike or None

    return answer


def _fitted(name: str, example: Checked, degree: int) -> Callable[[Checked], Outputs | None] | None:
    """A polynomial of an input that fits the natural output best, used on every probe."""
    if example.tensors[name].is_complex():
        return None
    fits = {
        out: _coefficients(example.tensors[name], y, degree)
        for out, y in example.outputs.items()
        if y.shape == example.tensors[name].shape and y.numel() > degree and not y.is_complex()
    }
    if not fits:
        return None

    def answer(case: Checked) -> Outputs | None:
        x = case.tensors[name].to(torch.float64)
        return {out: _powers(x, degree) @ fit for out, fit in fits.items()}

    return answer


def _coefficients(x: torch.Tensor, y: torch.Tensor, degree: int) -> torch.Tensor:
    powers = _powers(x.to(torch.float64).reshape(-1), degree)
    target = torch.nan_to_num(y.to(torch.float64).reshape(-1, 1))
    # Of an input that holds infinities, as a bias of a softmax does, nothing but its finite elements can be fitted.
    known = powers.isfinite().all(-1, keepdim=True)
    powers, target = torch.where(known, powers, 0.0), torch.where(known, target, 0.0)
    # The driver for matrices without full rank: a constant input has no unique fit.
    solution: torch.Tensor = torch.linalg.lstsq(powers.cpu(), target.cpu(), driver="gelsd").solution
    return solution.reshape(-1).to(y.device)


def _powers(x: torch.Tensor, degree: int) -> torch.Tensor:
    return torch.stack([x**power for power in range(degree + 1)], dim=-1)
