"""Error budgets for slices of an output that are far smaller than the rest, as probabilities beside boxes in pixels are,
and for those that eager itself knows far better, as features beside values that nobody knows to a digit.

The budget of a block of rows is as wide as its largest or least known columns need. Here `out.select(dim, index)` gets a
budget of its own, for each index of each dimension whose values, or whose errors by eager, are many times smaller than
those of the whole output.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kernelagent.tools.calls.complex_numbers import parts_first
from kernelagent.tools.judge.verify.compare.gate import least_error, output_unit
from kernelagent.tools.judge.verify.compare.regions import Noise

_FEWEST = 32
"""Elements of a slice: with fewer, its own error says too little."""
_MOST_SLICES = 1 << 14
_MOST_ELEMENTS = 1 << 24
_SMALLER = 16.0
"""So many times smaller than the whole: nearer than that, the whole's budget is narrow enough."""
_RMS_FACTOR = 4.0
_MAX_FACTOR = 8.0
_FLOOR_UNITS = 4.0
_UNIT = 2.0**-24
_STEPS_OF_THE_WHOLES_SIZE = 2.0
"""So many intermediates as large as the whole output may round on the way to a small value, as both terms of the
quotient (1 - e) / (1 + e) do in a tanh."""


@dataclass(frozen=True)
class Wide:
    """A slice whose error is beyond its own budget."""

    dim: int
    at: int
    error: float
    budget: float
    size: float
    """RMS of the right values in it."""
    whole: float

    @property
    def why(self) -> str:
        """What sets it apart from the rest."""
        small = self.size < self.whole / _SMALLER
        return "small" if small else "known far better than the rest"

    @property
    def message(self) -> str:
        return (
            f"wrong where its values are {self.why}: at index {self.at} of dimension {self.dim} they are about "
            f"{self.size:.3g} (the whole output {self.whole:.3g}), off by {self.error:.3g} where "
            f"{self.budget:.3g} is allowed"
        )


def dimensions(shape: Sequence[int]) -> tuple[int, ...]:
    """Those whose indices are judged one by one; none for outputs too large to be taken to float64 at once."""
    count = math.prod(shape)
    if len(shape) < 2 or count > _MOST_ELEMENTS:
        return ()
    return tuple(
        dim
        for dim, size in enumerate(shape)
        if 1 < size <= _MOST_SLICES and count // size >= _FEWEST
    )


def slice_norms(values: torch.Tensor) -> Noise:
    """RMS and largest absolute value of each index, of all dimensions that count one after another."""
    values = parts_first(values)
    real = values.to(torch.float64)
    real = torch.where(real.isfinite(), real, 0.0)
    rms, peak = [torch.empty(0)], [torch.empty(0)]
    for dim in dimensions(values.shape):
        others = [d for d in range(real.dim()) if d != dim]
        rms.append(real.square().mean(others).sqrt().cpu())
        peak.append(real.abs().amax(others).cpu())
    return Noise(torch.cat(rms), torch.cat(peak))


def wide_slice(
    candidate: torch.Tensor,
    eager: torch.Tensor,
    oracle64: torch.Tensor,
    noise: Noise | None = None,
) -> Wide | None:
    """The slice that is furthest over its own budget; None where each small one is right.

    `noise`: how far inputs and steps known to their rounding move each slice. Where the right answer is
    not finite nothing is compared.
    """
    if not dimensions(oracle64.shape):
        return None
    right = oracle64.to(torch.float64)
    fine = right.isfinite()
    scales = slice_norms(oracle64)
    whole = float(torch.where(fine, right, 0.0).square().mean().sqrt())
    unit = output_unit(eager.dtype)
    floor = max(unit, _FLOOR_UNITS * _UNIT) if eager.dtype != torch.float64 else 64 * unit
    error = eager.to(oracle64.dtype) - oracle64
    off = float(torch.where(fine & error.isfinite(), error, 0.0).square().mean().sqrt())
    apart = scales.rms < whole / _SMALLER
    usual: Noise | None = None
    # Where eager's error is no more than rounding nothing can be known far better.
    if off > _SMALLER * floor * whole:
        usual = slice_norms(error)
        apart = apart | (usual.rms < off / _SMALLER)
    if not bool(apart.any()):
        return None
    own = slice_norms(candidate.to(oracle64.dtype) - oracle64)
    usual = slice_norms(error) if usual is None else usual
    least = least_error(eager.dtype, 0.0)
    rms = usual.rms.maximum(floor * scales.rms).clamp_min(least)
    peak = usual.max.maximum(unit * scales.max).maximum(4 * floor * scales.rms).clamp_min(4 * least)
    if noise is not None:
        rms, peak = rms.maximum(noise.rms), peak.maximum(noise.max).maximum(4 * noise.rms)
    # float32 intermediates of the whole's size err by their last bits in the small ones, too.
    last_bit = _UNIT if eager.dtype != torch.float64 else unit
    shared = _STEPS_OF_THE_WHOLES_SIZE * last_bit * whole
    peak = (_MAX_FACTOR * peak).clamp_min(4 * shared)
    rms = (_RMS_FACTOR * rms).clamp_min(shared).maximum(peak / _counts(oracle64).sqrt())
    over = torch.where(apart, (own.rms / rms).maximum(own.max / peak), 0.0)
    worst = int(over.argmax())
    if float(over[worst]) <= 1.0:
        return None
    dim, at = _place(worst, oracle64.shape)
    error, budget = own.rms[worst], rms[worst]
    if float(own.max[worst] / peak[worst]) > float(error / budget):
        error, budget = own.max[worst], peak[worst]
    return Wide(dim, at, float(error), float(budget), float(scales.rms[worst]), whole)


def _counts(tensor: torch.Tensor) -> torch.Tensor:
    count = tensor.numel()
    sizes = [tensor.shape[dim] for dim in dimensions(tensor.shape)]
    return torch.cat([torch.full((n,), count / n, dtype=torch.float64) for n in sizes])


def _place(slice_: int, shape: Sequence[int]) -> tuple[int, int]:
    for dim in dimensions(shape):
        if slice_ < shape[dim]:
            return dim, slice_
        slice_ -= shape[dim]
    raise IndexError(slice_)
