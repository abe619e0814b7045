"""The gate: is one floating output near enough to the float64 oracle, measured in eager's own error?

`E = max(rms(e - y64), u_out * rms(y64), floor)`, `M = max(max|e - y64|, u_out * max|y64|, 4 * floor)`
with `floor = 4 * 2**-24 * natural_rms`; accepted iff `rms(c - y64) <= 4 E` and
`max|c - y64| <= 8 M`, on the whole output and on each block of rows with its own E and M. The RMS limit
of a region of n elements is never below `8 M / sqrt(n)`: one element at its limit must not fail it.
`compare` checks shapes, dtypes and integers; `diagnosis` writes the sentences for the reader.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kernelagent.domain.evaluation import Disclosure
from kernelagent.tools.calls.torch_dtypes import FLOAT_TYPES, RANGE_OF_FLOAT32
from kernelagent.tools.judge.verify.compare.regions import (
    Noise,
    NoiseSources,
    as_real,
    block_length,
    blocks,
    norms,
    with_the_whole,
)

RMS_FACTOR = 4.0
MAX_FACTOR = 8.0
MOST_NOISE = 8.0
"""Noise of the inputs raises the whole output's E to at most this many times what it was."""
MOST_NOISE_IN_A_BLOCK = 32.0
"""Noise of the inputs raises a block's E to at most this many times the whole output's: cancellation differs by row."""
_FLOOR_UNITS = 4.0
_FP64_FLOOR_UNITS = 64.0
"""The oracle of a float64 output is no more exact than the output: both carry summation noise."""


@dataclass(frozen=True)
class Budget:
    """The largest errors accepted in one region of an output."""

    rms: float
    max: float


@dataclass(frozen=True)
class GateResult:
    """What the gate found, in the region nearest to (or furthest over) its budget."""

    passed: bool
    rms_error: float
    rms_budget: float
    max_error: float
    max_budget: float
    worst_index: tuple[int, ...] | None
    """The element furthest from the oracle in that region, or the first wrong NaN or infinity."""
    worst_block: tuple[int, int] | None = None
    """First and one past last element of that region, row-major; None: the whole output."""
    nonfinite: bool = False
    """True: NaN or an infinity stands where it must not, or is missing where it must be."""
    disclosures: tuple[Disclosure, ...] = ()
    refused: torch.Tensor | None = None
    """Elements that were refused each by itself, whatever its region has; None where regions decided."""

    @property
    def budget(self) -> Budget:
        return Budget(self.rms_budget, self.max_budget)

    @property
    def ratio(self) -> float:
        """Error over budget, the larger of the two: accepted up to 1; infinite for a wrong NaN."""
        if self.nonfinite:
            return math.inf
        return max(_ratio(self.rms_error, self.rms_budget), _ratio(self.max_error, self.max_budget))


_OUTPUT_UNITS = {
    dtype: row.output_unit for dtype, row in FLOAT_TYPES.items() if row.output_unit is not None
}


def unit_roundoff(dtype: torch.dtype) -> float:
    """Half an ulp at 1: 2**-53, 2**-24, 2**-8 (bfloat16), 2**-11 (float16), 2**-4 and 2**-3 (fp8)."""
    row = FLOAT_TYPES.get(dtype)
    if row is None:  # a complex type
        return float(torch.finfo(dtype).eps) / 2
    # torch.finfo gives half of the distance from 1 to the next number as that of float8_e5m2fnuz.
    return 2.0**-row.digits


def output_unit(dtype: torch.dtype) -> float:
    """The rounding error every output of `dtype` may have: `u_out` of the gate, mostly half an ulp."""
    return _OUTPUT_UNITS.get(dtype) or unit_roundoff(dtype)


def gate(
    candidate: torch.Tensor,
    eager: torch.Tensor,
    oracle64: torch.Tensor,
    natural_rms: float,
    *,
    noise: NoiseSources | None = None,
) -> GateResult:
    """Judge one output; all three tensors have one shape, candidate and eager one dtype.

    NaN and infinities must stand where the oracle has them, or where eager has them if the two
    disagree. `noise` raises the floor of each region; its `long_sum` is accepted as it is, without
    a factor (see `conditioning`). Raises ValueError on shapes or dtypes that `compare` must refuse.
    """
    if candidate.shape != eager.shape or eager.shape != oracle64.shape:
        raise ValueError("gate() compares tensors of one shape; compare() refuses the others")
    if candidate.dtype != eager.dtype:
        raise ValueError("gate() compares tensors of one dtype; compare() refuses the others")
    shape = tuple(candidate.shape)
    parts = tuple(as_real(tensor).reshape(-1) for tensor in (candidate, eager, oracle64))
    if parts[0].numel() == 0:
        return GateResult(True, 0.0, 0.0, 0.0, 0.0, None)
    real_shape = (*shape, 2) if candidate.is_complex() else shape
    regions = _measured(parts, block_length(real_shape), of_parts=candidate.is_complex())
    budgets = _budgets(regions, parts[1].dtype, natural_rms, noise)
    return _verdict(regions, budgets, shape, real_shape)


@dataclass(frozen=True)
class _Regions:
    """Norms of the whole output (first entry) and of each block, on the CPU in float64."""

    error_rms: torch.Tensor
    error_max: torch.Tensor
    counts: torch.Tensor
    eager_rms: torch.Tensor
    eager_max: torch.Tensor
    oracle_rms: torch.Tensor
    oracle_max: torch.Tensor
    worst_at: torch.Tensor
    """Row-major position of the largest error of each region."""
    misplaced_at: int | None
    """Row-major position of the first NaN or infinity that is where it must not be."""
    block: int
    count: int


def _measured(parts: tuple[torch.Tensor, ...], block: int, *, of_parts: bool) -> _Regions:
    columns: list[list[torch.Tensor]] = []
    misplaced: list[torch.Tensor] = []
    start = 0
    for candidate, eager, oracle in blocks(parts, block):
        measured, wrong = _measured_blocks(candidate, eager, oracle)
        if of_parts:
            wrong &= ~(_alike_as_a_whole(candidate, oracle) | _alike_as_a_whole(candidate, eager))
        worst = measured[-1] + start + torch.arange(len(candidate), device=wrong.device) * block
        columns.append([*measured[:-1], worst])
        misplaced.append(_first(wrong.reshape(-1), start))
        start += candidate.numel()
    table = [torch.cat(column).cpu() for column in zip(*columns, strict=True)]
    first = int(torch.stack(misplaced).amin())
    return _collected(table, first if first < start else None, block, start)


def _collected(
    table: list[torch.Tensor], misplaced_at: int | None, block: int, count: int
) -> _Regions:
    def joined(first: int) -> tuple[torch.Tensor, torch.Tensor]:
        noise = with_the_whole(*table[first : first + 3])
        return noise.rms, noise.max

    error, eager, oracle = joined(0), joined(3), joined(6)
    worst_at = torch.cat([table[9][table[1].argmax()].reshape(1), table[9]])
    counts = torch.cat([table[2].sum().reshape(1), table[2]])
    return _Regions(*error, counts, *eager, *oracle, worst_at, misplaced_at, block, count)


def _measured_blocks(
    candidate: torch.Tensor, eager: torch.Tensor, oracle: torch.Tensor
) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
    """Per row of a chunk: rms, max, count of error, eager error, oracle; place of the worst.

    The second value marks the elements whose NaN or infinity is out of place.
    """
    plainly = _all_finite(candidate, eager, oracle)
    if plainly is not None:
        return plainly, torch.zeros_like(candidate, dtype=torch.bool)
    fine, exact = candidate.isfinite(), oracle.isfinite()
    plain = eager.isfinite()
    misplaced = ~(_same_kind(candidate, oracle) | _same_kind(candidate, eager))
    # Where the oracle is not finite but eager is, a finite candidate is held to eager's value.
    target = torch.where(exact, oracle, eager)
    compared = fine & (exact | plain)
    error = torch.where(compared, (candidate - target).abs(), 0.0)
    both = exact & plain
    eager_error = torch.where(both, (eager - oracle).abs(), 0.0)
    scale = torch.where(exact, oracle.abs(), 0.0)
    return (
        *norms(error, compared.sum(1)),
        *norms(eager_error, both.sum(1)),
        *norms(scale, exact.sum(1)),
        error.argmax(1),
    ), misplaced


def _all_finite(
    candidate: torch.Tensor, eager: torch.Tensor, oracle: torch.Tensor
) -> tuple[torch.Tensor, ...] | None:
    """The same norms where nothing is NaN or infinite, at half the cost; None where something is."""
    counts = torch.full((len(oracle),), oracle.shape[1], device=oracle.device)
    error = (candidate - oracle).abs()
    measured = [norms(part, counts) for part in (error, (eager - oracle).abs(), oracle.abs())]
    if not all(bool(peak.isfinite().all()) for _, peak, _ in measured):
        return None
    return (*measured[0], *measured[1], *measured[2], error.argmax(1))


def _same_kind(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return (left.isfinite() & right.isfinite()) | (left == right) | (left.isnan() & right.isnan())


def _alike_as_a_whole(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Of each pair of parts: whether both complex numbers have a NaN, or both an infinity; which part has it is convention.

    A product with an infinity is `inf+nanj` by one formula and `nan+nanj` by another.
    """

    def some(flags: torch.Tensor) -> torch.Tensor:
        return flags.view(len(flags), -1, 2).any(-1, keepdim=True).expand(-1, -1, 2)

    both = (some(left.isnan()) & some(right.isnan())) | (some(left.isinf()) & some(right.isinf()))
    return both.reshape(left.shape)


def _first(flags: torch.Tensor, start: int) -> torch.Tensor:
    """Position of the first True, counted from `start`; a number past the end if there is none."""
    at = torch.where(flags.any(), flags.to(torch.uint8).argmax(), torch.iinfo(torch.int64).max // 2)
    return at + start


def _budgets(
    regions: _Regions,
    dtype: torch.dtype,
    natural: float,
    noise: NoiseSources | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    half_ulp = output_unit(dtype)
    floor = least_error(dtype, natural)
    rms = regions.eager_rms.maximum(half_ulp * regions.oracle_rms).clamp(min=floor)
    peak = regions.eager_max.maximum(half_ulp * regions.oracle_max).clamp(min=4 * floor)
    if noise is not None:
        most = torch.full_like(rms, MOST_NOISE_IN_A_BLOCK)
        most[0] = MOST_NOISE
        inputs, steps = noise.inputs, noise.steps
        capped = _peak(inputs).minimum(most * peak[0]), inputs.rms.minimum(most * rms[0])
        peak, rms = peak.maximum(capped[0]), rms.maximum(capped[1])
        if dtype != torch.float64:
            # Steps are float32's: a result in float64 has to be more exact than that.
            peak, rms = peak.maximum(_peak(steps)), rms.maximum(steps.rms)
    peak = MAX_FACTOR * peak
    # One element as far off as the maximum allows must not fail the RMS of its region alone.
    rms = (RMS_FACTOR * rms).maximum(peak / regions.counts.clamp(min=1).sqrt())
    if noise is not None and noise.long_sum is not None:
        rms, peak = rms.maximum(noise.long_sum.rms), peak.maximum(noise.long_sum.max)
    return rms, peak


def _peak(noise: Noise) -> torch.Tensor:
    return (4 * noise.rms).maximum(noise.max)


def least_error(dtype: torch.dtype, natural: float) -> float:
    """What any result of this type and size may be off by."""
    facts = torch.finfo(dtype)
    if dtype == torch.float64:
        return max(_FP64_FLOOR_UNITS * 2.0**-53 * natural, float(facts.smallest_normal))
    # Kernels may flush subnormals of the 8-bit exponent to zero; narrower formats hold values there.
    wide = dtype in RANGE_OF_FLOAT32
    spacing = 1.0 if wide else float(facts.eps) / 2
    return max(_FLOOR_UNITS * 2.0**-24 * natural, float(facts.smallest_normal) * spacing)


def _verdict(
    regions: _Regions,
    budgets: tuple[torch.Tensor, torch.Tensor],
    shape: tuple[int, ...],
    real_shape: tuple[int, ...],
) -> GateResult:
    rms_budget, max_budget = budgets
    good = (regions.error_rms <= rms_budget) & (regions.error_max <= max_budget)
    good &= rms_budget.isfinite() & max_budget.isfinite()
    ratios = torch.maximum(regions.error_rms / rms_budget, regions.error_max / max_budget)
    ratios = torch.where(ratios.isnan(), torch.where(good, 0.0, math.inf), ratios)
    region = int(ratios.argmax())
    misplaced = regions.misplaced_at
    at = int(regions.worst_at[region]) if misplaced is None else misplaced
    first = (region - 1) * regions.block
    return GateResult(
        passed=misplaced is None and bool(good.all()),
        rms_error=float(regions.error_rms[region]),
        rms_budget=float(rms_budget[region]),
        max_error=float(regions.error_max[region]),
        max_budget=float(max_budget[region]),
        worst_index=_unravelled(at, real_shape)[: len(shape)],
        worst_block=None if region == 0 else (first, min(first + regions.block, regions.count)),
        nonfinite=misplaced is not None,
    )


def _unravelled(position: int, shape: Sequence[int]) -> tuple[int, ...]:
    index: list[int] = []
    for size in reversed(shape):
        index.append(position % size)
        position //= size
    return tuple(reversed(index))


def _ratio(error: float, budget: float) -> float:
    if budget > 0 and math.isfinite(budget):
        return error / budget
    return 0.0 if error <= budget < math.inf else math.inf
