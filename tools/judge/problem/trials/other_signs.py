"""Weights of few elements with other signs than the user's: training gives them such, draws of so few never do."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import torch

from kernelagent.tools.judge.problem.trials.input_domain import Tensors, laid_out_like, observe
from kernelagent.tools.judge.problem.trials.perturbed_state import tied_to
from kernelagent.tools.judge.problem.trials.unlike import in_drawn_order

_FEWEST = 8
"""Elements; those of a larger weight have other signs where it was constant, and else in calls that tell of them (`unlike`)."""
_ALONE = 4
"""So many weights are tried one by one where the reference has no answer to all of them together."""


@dataclass(frozen=True)
class OtherSigns:
    """Which signs are flipped: each element in one of two rounds, whichever comes first by chance."""

    parameters: Collection[str]
    generator: torch.Generator
    _kept: dict[str, torch.Tensor] = field(default_factory=dict)
    """By name, what the last weights kept, which the next flip."""

    def tried(self, given: Tensors, weights: Tensors) -> list[dict[str, torch.Tensor]]:
        """The weights with other signs, all that are few first, then all of one; empty without any.

        `given`: as the user's module begins, where a weight has one sign or none is flipped.
        """
        flips: dict[str, torch.Tensor] = {}
        for name in weights:
            if name in self.parameters and _of_few(given[name]):
                twin = tied_to(name, given, flips)
                flips[name] = self._next(name, given[name]) if twin is None else flips[twin]
        some = {name: flip for name, flip in flips.items() if bool(flip.any())}
        if not some:
            return []
        result = [dict(weights) | {n: _flipped(weights[n], flip) for n, flip in some.items()}]
        for name in in_drawn_order([*flips], self.generator)[:_ALONE]:
            every = torch.ones_like(flips[name])
            alike = [name, *(n for n in flips if _same(given[n], given[name]))]
            result.append(dict(weights) | {n: _flipped(weights[n], every) for n in alike})
        return result

    def _next(self, name: str, like: torch.Tensor) -> torch.Tensor:
        kept = self._kept.pop(name, None)
        if kept is not None:
            return kept
        # Half of the time all or none of a weight, which single elements seldom are.
        together = bool(torch.rand((), generator=self.generator) < 0.5)
        shape = torch.Size() if together else like.shape
        flip = (torch.rand(shape, generator=self.generator) < 0.5).expand(like.shape)
        self._kept[name] = ~flip
        return flip


def _of_few(tensor: torch.Tensor) -> bool:
    if not tensor.is_floating_point() or not 0 < tensor.numel() < _FEWEST:
        return False
    seen = observe(tensor)
    # What lies between zero and one may be a decay, whose logarithm an honest kernel takes: that is told (`unlike`).
    return max(-seen.low, seen.high) >= 1 and seen.low * seen.high >= 0


def _same(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Perhaps one tensor under two names, which stay alike."""
    return left.dtype == right.dtype and left.shape == right.shape and torch.equal(left, right)


def _flipped(tensor: torch.Tensor, flip: torch.Tensor) -> torch.Tensor:
    values = tensor.detach()
    return laid_out_like(torch.where(flip.to(values.device), -values, values), tensor)
