"""Rows and pairs of inputs of which something that a kernel computes is a number of the sources, or lies between two.

The mean of a row, its sum, one of its elements; the product, sum, difference or ratio of two inputs: a candidate
that is wrong in a band of one of these says so in its source by the band's ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from kernelagent.tools.judge.problem.trials.planting.patterns import Draw, below

_SPREAD = 0.25
"""Of a row of one sign, relative to its mean: enough for its variance to be known."""
_KEPT, _LEAST_KEPT = 4, 16
"""One row in so many stays as it was drawn; where there is no room for all numbers otherwise, one in so many."""
_FORMS = 3
"""Mean, sum, one element."""
_EVERY = 8
"""One element in so many is planted by each relation of two inputs."""


def numbers_between(
    known: Sequence[float], least: float, most: float, draw: Draw, *, signs: bool
) -> list[float]:
    """The numbers from `least` to `most`, and two between each two neighbours: by size, and by distance.

    `signs`: of either sign, and of the two between neighbours one of each, so that no band is without both.
    """
    edges = sorted({n for n in known if least <= n <= most} | {least, most})
    share = torch.rand(2, len(edges), generator=draw, dtype=torch.float64).tolist()
    of_numbers, of_pairs = (1 - 2 * torch.randint(2, (2, len(edges)), generator=draw)).tolist()
    result = [sign * number for sign, number in zip(of_numbers, edges[1:-1], strict=False)]
    for low, high, by_size, by_distance, sign in zip(
        edges, edges[1:], *share, of_pairs, strict=False
    ):
        result += [
            sign * low * (high / low) ** by_size,
            -sign * (low + (high - low) * by_distance),
        ]
    return result if signs else [abs(number) for number in result]


def rows_about(values: torch.Tensor, numbers: Sequence[float], draw: Draw) -> torch.Tensor:
    """Rows whose mean, sum or one element is one of the numbers, in turn."""
    rows = values.reshape(-1, values.shape[-1]).clone()
    order = torch.randperm(len(rows), generator=draw)
    room = len(rows) - (len(rows) + _LEAST_KEPT - 1) // _LEAST_KEPT
    most = max(len(rows) - len(rows) // _KEPT, min(_FORMS * len(numbers), room))
    chosen = order[: max(1, most)]
    at = torch.arange(len(chosen)) + below(_FORMS * len(numbers), draw)
    mixed = torch.tensor(numbers, dtype=torch.float64)
    mixed = mixed[torch.randperm(len(numbers), generator=draw)]
    size, form = mixed[at % len(numbers)], at // len(numbers) % _FORMS
    size, form = size[:, None].to(rows), form[:, None].to(rows.device)
    noise = torch.randn(len(chosen), rows.shape[1], generator=draw).clamp(-3, 3).to(rows)
    about = 1 + _SPREAD * (noise - noise.mean(-1, keepdim=True))
    place = torch.randint(rows.shape[1], (len(chosen), 1), generator=draw).to(rows.device)
    chosen = chosen.to(rows.device)
    item = rows[chosen].scatter(1, place, size)
    made = torch.where(
        form == 0, size * about, torch.where(form == 1, size * about / rows.shape[1], item)
    )
    rows[chosen] = made
    return rows.reshape(values.shape)


def pairs_about(
    first: torch.Tensor, second: torch.Tensor, numbers: Sequence[float], draw: Draw
) -> torch.Tensor:
    """The second with some elements such that product, sum, difference or ratio of both is one of the numbers."""
    at = torch.randint(_EVERY, first.shape, generator=draw)
    which = torch.randint(len(numbers), first.shape, generator=draw)
    size = torch.tensor(numbers, dtype=torch.float64)[which]
    item, made = first.double().cpu(), second.double().cpu().clone()
    for kind, other in enumerate((size / item, size - item, item - size, item / size)):
        made = torch.where((at == kind) & other.isfinite() & (other.abs() < 1e30), other, made)
    return made.to(second)
