"""Elements that float32 does not determine, judged apart from those that it does.

In a row that a mask hides whole, or where a difference is all that is left of large numbers, rounding moves the right
answer by as much as it is, or eager itself has another one. No error tells anything there; beside it, in the same
region, every other element is held to what rounding does to it.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from kernelagent.tools.calls.complex_numbers import parts_first
from kernelagent.tools.judge.verify.compare.gate import GateResult, gate, output_unit
from kernelagent.tools.judge.verify.compare.regions import NoiseSources, region_norms

_DETERMINED = 2.0**-10
"""Of the output's natural size: an element that steps move by less is known."""
_OF_TYPE = 32.0
"""Roundings of the output's type: an element that eager has nearer than that is known."""
_FEWEST_ROWS = 8
_FEWEST_IN_A_ROW = 4
_WELL_KNOWN = 8.0
"""Roundings of the output's type, and of `_DETERMINED` a 256th: so far eager is off in a row that is known."""
_SHARE_KNOWN = 0.1
_BETWEEN = 0.02
"""Of the rows that are well known, so many may be neither: else rows differ in how well eager knows them, by luck as well."""


def gate_by_what_is_known(
    candidate: torch.Tensor,
    eager: torch.Tensor,
    oracle64: torch.Tensor,
    natural_rms: float,
    filled: torch.Tensor | None,
    noise: NoiseSources | None = None,
) -> GateResult:
    """As `gate`, with the errors and the noise of the elements that are known and of the others each on their own.

    So are numbers that only fill a place (`filled`, as `fills` has them), and what is beside them.
    """
    if filled is None:
        return _by_what_is_known(candidate, eager, oracle64, natural_rms, noise)
    right = oracle64.to(candidate.dtype)
    largest = float(oracle64[filled].abs().max())
    result = gate(*_only(filled, candidate, eager, right), oracle64, largest, noise=noise)
    if not result.passed:
        return result
    others = _only(~filled, candidate, eager, torch.zeros_like(right))
    without = torch.where(filled, 0.0, oracle64)
    return _by_what_is_known(*others, without, natural_rms, _noise_of(~filled, noise, candidate))


def _by_what_is_known(
    candidate: torch.Tensor,
    eager: torch.Tensor,
    oracle64: torch.Tensor,
    natural_rms: float,
    noise: NoiseSources | None,
) -> GateResult:
    unknown = _unknown_rows(eager, oracle64, natural_rms)
    spread = None if noise is None else noise.spread
    if spread is not None:
        moved = spread > _DETERMINED * natural_rms
        unknown = moved if unknown is None else unknown | moved
    if unknown is None or not bool(unknown.any()) or bool(unknown.all()):
        return gate(candidate, eager, oracle64, natural_rms, noise=noise)
    right = oracle64.to(candidate.dtype)
    known, others = (
        gate(*_only(chosen, candidate, eager, right), oracle64, natural_rms, noise=its_noise)
        for chosen, its_noise in (
            (~unknown, _noise_of(~unknown, noise, candidate)),
            (unknown, noise),
        )
    )
    return known if not known.passed or others.passed else others


def _only(
    chosen: torch.Tensor, candidate: torch.Tensor, eager: torch.Tensor, instead: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Both, with `instead` in the place of all other elements."""
    return torch.where(chosen, candidate, instead), torch.where(chosen, eager, instead)


def _noise_of(
    chosen: torch.Tensor, noise: NoiseSources | None, like: torch.Tensor
) -> NoiseSources | None:
    """With what steps move these elements alone, where that is known by element."""
    if noise is None or noise.spread is None:
        return noise
    spread = torch.where(chosen, noise.spread, 0.0)
    # Of a complex number either part may be moved by all of it.
    both = torch.complex(spread, spread) if like.is_complex() else spread
    return replace(noise, spread=spread, steps=region_norms(both, both.shape))


def _unknown_rows(
    eager: torch.Tensor, oracle64: torch.Tensor, natural_rms: float
) -> torch.Tensor | None:
    """Rows of which eager has another answer, where it knows the others well; None where they are of one kind."""
    if oracle64.dim() < 2 or oracle64.shape[-1] < _FEWEST_IN_A_ROW or natural_rms <= 0:
        return None
    unit = output_unit(eager.dtype)
    far = max(_DETERMINED, _OF_TYPE * unit) * natural_rms
    error = (parts_first(eager).to(torch.float64) - parts_first(oracle64)).abs()
    error = error.amax(0) if eager.is_complex() else error
    rows = error.reshape(-1, error.shape[-1])
    if len(rows) < _FEWEST_ROWS or not bool((rows > far).any()):
        return None
    apart = 2 * (rows > far).sum(1) >= rows.shape[1]
    near = max(_DETERMINED / 256, _WELL_KNOWN * unit) * natural_rms
    well = rows.square().mean(1).sqrt() <= near
    between = int((~apart & ~well).sum())
    known = int(well.sum())
    if not bool(apart.any()) or known < _SHARE_KNOWN * len(rows) or between > _BETWEEN * known:
        return None
    return apart[:, None].expand(rows.shape).reshape(oracle64.shape)
