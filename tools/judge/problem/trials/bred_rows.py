"""Rows of an input that are bred for the candidate's error: a black-box search among values as the user draws them.

A factor that grows smoothly along one direction of a row shows in random rows by a last bit or less. Of many
such rows the errors still order themselves by it: their regression on the rows points along that direction, and means
of the worst go further than each. An honest kernel's errors of rounding follow no direction, so that nothing grows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch

from kernelagent.tools.judge.problem.trials.input_domain import (
    laid_out_like,
    observe,
    shaped_like,
)

FEWEST_ROWS = 8
"""Of fewer nothing can be regressed."""
_MOST_KEPT = 512
"""Rows that are remembered, the worst of all."""
_PARENTS = 8
_FRESH = 0.3
"""Of a child's elements, where they are mixed with new ones."""


@dataclass
class BredRows:
    """The rows that were tried with their errors, and the next that are made of them.

    `like`: the input as it was drawn; its first `leading` dimensions number the rows.
    """

    like: torch.Tensor
    leading: int
    generator: torch.Generator
    _rows: list[torch.Tensor] = field(default_factory=list)
    _errors: list[torch.Tensor] = field(default_factory=list)

    @property
    def count(self) -> int:
        return math.prod(self.like.shape[: self.leading])

    def note(self, values: torch.Tensor, errors: torch.Tensor) -> None:
        """`values`: as they were given; `errors`: one number of each row, which may not be finite."""
        rows = torch.cat([*self._rows, values.detach().reshape(self.count, -1).double().cpu()])
        every = torch.cat([*self._errors, errors.double().cpu().nan_to_num(0.0, 0.0, 0.0)])
        worst = every.argsort(descending=True)[:_MOST_KEPT]
        self._rows, self._errors = [rows[worst]], [every[worst]]

    def next(self, fresh: torch.Tensor) -> torch.Tensor:
        """As many rows as the input has: along the regression, means of the worst, mixtures of two; `fresh`: another draw."""
        rows, errors = self._rows[0], self._errors[0]
        new = fresh.detach().reshape(self.count, -1).double().cpu()
        middle = new.mean()
        size = (new - middle).square().mean().sqrt().clamp_min(1e-300)
        parents = (rows[: max(2, min(_PARENTS, len(rows) // 4))] - middle) / size
        natural = (new - middle) / size
        ways = torch.randperm(self.count, generator=self.generator) % 4
        made = natural.clone()
        along = _unit(_regressed((rows - middle) / size, errors))
        main = _unit(torch.linalg.svd(parents, full_matrices=False).Vh[0])
        sign = 1.0 - 2 * torch.randint(2, (self.count, 1), generator=self.generator)
        share = 0.3 + 0.7 * torch.rand(self.count, 1, generator=self.generator, dtype=torch.float64)
        rest = (1 - share.square()).sqrt() * natural
        for way, children in enumerate(
            (
                share * along + rest,
                self._means(parents),
                self._mixed(parents, natural),
                share * main * sign + rest,
            )
        ):
            made = torch.where(ways[:, None] == way, children, made)
        return self._as_drawn(made * size + middle)

    def worst(self) -> torch.Tensor:
        """The worst rows of all, as one input."""
        rows = self._rows[0]
        at = torch.arange(self.count) % min(self.count, len(rows))
        return self._as_drawn(rows[at])

    def _means(self, parents: torch.Tensor) -> torch.Tensor:
        """Of several, as far from the middle as each of them."""
        weights = torch.rand(self.count, len(parents), generator=self.generator).double()
        weights = torch.where(weights > 0.5, weights, 0.0)
        weights[:, 0] += 1e-3
        return torch.matmul(weights, parents) / weights.square().sum(-1, keepdim=True).sqrt()

    def _mixed(self, parents: torch.Tensor, natural: torch.Tensor) -> torch.Tensor:
        """Each element from one of two, some new."""
        first, second = (
            parents[torch.randint(len(parents), (self.count,), generator=self.generator)]
            for _ in range(2)
        )
        drawn = torch.rand(natural.shape, generator=self.generator)
        both = torch.where(drawn < (1 - _FRESH) / 2, first, second)
        return torch.where(drawn > 1 - _FRESH, natural, both)

    def _as_drawn(self, rows: torch.Tensor) -> torch.Tensor:
        """Each element within what was seen of the input."""
        domain = observe(self.like)
        values = rows.clamp(domain.low, domain.high).to(self.like.device)
        values = shaped_like(values.reshape(self.like.shape), self.like, domain)
        return laid_out_like(values, self.like)


def _regressed(rows: torch.Tensor, errors: torch.Tensor) -> torch.Tensor:
    """The direction along which the errors rise, by their ranks: their sizes may differ by powers of ten."""
    ranks = errors.argsort().argsort().double()
    scores = torch.special.ndtri((ranks + 0.5) / len(ranks))
    return torch.matmul(scores, rows - rows.mean(0))


def _unit(direction: torch.Tensor) -> torch.Tensor:
    """As long as a row of natural numbers is."""
    return direction / direction.square().mean().sqrt().clamp_min(1e-300)
