"""The regions an output is judged in, the whole and each block of rows, and norms over them.

At most a few million elements are in float64 at once, whatever the size of the output.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

MOST_BLOCKS = 256
FEWEST_ELEMENTS = 512
"""Fewest elements of a block: with fewer, its own E is too noisy to judge by."""
FEWEST_ROWS = 16
"""With fewer rows, blocks are parts of rows, so that the errors of one bad tile are not averaged away."""
_CHUNK = 1 << 20
"""Elements taken to float64 at once: the gate never holds a float64 copy of a whole output."""


@dataclass(frozen=True)
class Noise:
    """How far an exact computation may move for reasons that are not the candidate's fault.

    One entry per region as `regions_of` counts them: the whole output, then each block.
    """

    rms: torch.Tensor
    max: torch.Tensor


@dataclass(frozen=True)
class NoiseSources:
    """The noise of one output by what makes it."""

    inputs: Noise
    """Inputs known to their own rounding only; capped by the gate, as ill-conditioned inputs have no end of it."""
    steps: Noise
    """Each operation's result known to float32's rounding only: any order of float32 sums has it."""
    slices: Noise | None = None
    """Of inputs and steps, by `slices`; None where it was not measured."""
    long_sum: Noise | None = None
    """One sequential sum of many terms; None where there is none."""
    spread: torch.Tensor | None = None
    """By how much steps move each element at most, where they move some; None where it was not measured."""


Enough = Callable[[NoiseSources], bool]
"""Whether what was measured so far, without long sums, excuses an answer: more draws only ever allow more."""


class MeasureNoise(Protocol):
    """Called with an output's name after the gate refused it; without `enough` all draws are made."""

    def __call__(self, name: str, enough: Enough | None = None) -> NoiseSources: ...


MeasureSpread = Callable[[str], torch.Tensor | None]
"""By output's name: how far rounding each step moves each element, where functions err as their usual formulas do."""


def block_length(shape: Sequence[int]) -> int:
    """Elements in one block: at most 256 blocks, of whole rows unless there are only a few long ones."""
    count = math.prod(shape)
    wanted = max(FEWEST_ELEMENTS, -(-count // MOST_BLOCKS))
    row = shape[-1] if len(shape) > 1 else 1
    if row > wanted and count < FEWEST_ROWS * row:
        return wanted
    return -(-wanted // max(row, 1)) * max(row, 1)


def regions_of(shape: Sequence[int]) -> int:
    """How many regions an output of this shape is judged in: the whole and each block."""
    return 1 + -(-math.prod(shape) // block_length(shape))


def natural_rms(oracle: torch.Tensor) -> float:
    """RMS of the finite elements of the oracle on the natural input: the scale of the floor."""
    flat = as_real(oracle).reshape(-1)
    result = [
        norms(torch.where(values.isfinite(), values, 0.0), values.isfinite().sum(1))
        for (values,) in blocks((flat,), block_length(flat.shape))
    ]
    if not result:
        return 0.0
    rms = torch.cat([rms for rms, _, _ in result])
    counts = torch.cat([count for _, _, count in result])
    return float(pooled_rms(rms, counts))


def region_norms(values: torch.Tensor, shape: Sequence[int]) -> Noise:
    """RMS and largest absolute value of `values`, which lie as an output of `shape` does, by region."""
    flat = as_real(values).reshape(-1)
    real_shape = (*shape, 2) if values.is_complex() else tuple(shape)
    result = [
        norms(torch.where(block.isfinite(), block, 0.0), block.isfinite().sum(1))
        for (block,) in blocks((flat,), block_length(real_shape))
    ]
    rms, peak, counts = (torch.cat(column).cpu() for column in zip(*result, strict=True))
    return with_the_whole(rms, peak, counts)


def with_the_whole(rms: torch.Tensor, peak: torch.Tensor, counts: torch.Tensor) -> Noise:
    """The blocks' norms with the whole output's put before them."""
    return Noise(
        rms=torch.cat([pooled_rms(rms, counts).reshape(1), rms]),
        max=torch.cat([peak.amax().reshape(1), peak]),
    )


def blocks(parts: tuple[torch.Tensor, ...], block: int) -> Iterator[tuple[torch.Tensor, ...]]:
    """Equal pieces of flat tensors in float64, as (blocks, elements); the last one may be short."""
    count = parts[0].numel()
    whole = count // block
    at_once = max(1, _CHUNK // block)
    for first in range(0, whole, at_once):
        last = min(first + at_once, whole)
        yield tuple(
            part[first * block : last * block].to(torch.float64).reshape(last - first, block)
            for part in parts
        )
    if whole * block < count:
        yield tuple(part[whole * block :].to(torch.float64).reshape(1, -1) for part in parts)


def norms(
    values: torch.Tensor, counts: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """RMS over `counts` elements, largest absolute value, and the counts, by row."""
    peak = values.abs().amax(1)
    # Squares of values beyond 1e154 overflow; dividing by the largest first keeps them in range.
    scale = torch.where((peak > 0) & peak.isfinite(), peak, 1.0)
    squares = (values / scale[:, None]).square().sum(1)
    return scale * (squares / counts.clamp(min=1)).sqrt(), peak, counts.to(torch.float64)


def pooled_rms(rms: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    largest = rms.amax()
    scale = torch.where((largest > 0) & largest.isfinite(), largest, 1.0)
    squares = ((rms / scale).square() * counts).sum()
    return scale * (squares / counts.sum().clamp(min=1)).sqrt()


def as_real(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
