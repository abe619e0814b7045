"""Elements that float32 does not determine, judged apart from those that it does.

In a row that a mask hides whole, or where a difference is all that is left of large numbers, rounding moves the right
answer by as much as it is. No error tells anything there; beside it, in the same region, every other element is held
to what rounding does to it.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from kernelagent.tools.judge.verify.compare.gate import GateResult, gate
from kernelagent.tools.judge.verify.compare.regions import NoiseSources, region_norms

_DETERMINED = 2.0**-10
"""Of the output's natural size: an element that steps move by less is known."""


def gate_by_what_is_known(
    candidate: torch.Tensor,
    eager: torch.Tensor,
    oracle64: torch.Tensor,
    natural_rms: float,
    noise: NoiseSources,
) -> GateResult:
    """As `gate`, with the noise of the elements that are known and of the others each on their own."""
    spread = noise.spread
    unknown = None if spread is None else spread > _DETERMINED * natural_rms
    if spread is None or unknown is None or not bool(unknown.any()) or bool(unknown.all()):
        return gate(candidate, eager, oracle64, natural_rms, noise=noise)
    right = oracle64.to(candidate.dtype)

    def only(chosen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return (
            torch.where(chosen, candidate, right),
            torch.where(chosen, eager, right),
            oracle64,
        )

    moved = torch.where(unknown, 0.0, spread)
    # Of a complex number either part may be moved by all of it.
    both = torch.complex(moved, moved) if candidate.is_complex() else moved
    steps = region_norms(both, both.shape)
    known = gate(*only(~unknown), natural_rms, noise=replace(noise, steps=steps))
    others = gate(*only(unknown), natural_rms, noise=noise)
    return known if not known.passed or others.passed else others
