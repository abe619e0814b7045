"""Integers that are not repeated, as the slots that a module writes to: what `defined_writes` finds out is kept to here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch

from kernelagent.tools.judge.problem.trials.input_domain import Tensors, laid_out_like

Along = Literal["all", "rows", "as drawn"]
"""Distinct in the whole tensor, in each row of its last dimension; or the user's own numbers, which only together are."""
ORDER_SHOWS = (
    "the reference's own answer depends there on which of its writes to one place comes last"
)
_MOST_RANGE = 1 << 24
"""Numbers that are listed to find unused ones among; in a larger range hardly any is used."""


@dataclass(frozen=True)
class DefinedWrites:
    """Which inputs hold no number twice, by name; negative numbers are no places and may repeat."""

    along: Mapping[str, Along] = field(default_factory=dict)
    because: str = ""

    def legal(self, tensors: Tensors, natural: Tensors) -> dict[str, torch.Tensor]:
        """The same tensors, numbers that came before in them exchanged for unused ones of the `natural` range."""
        result = dict(tensors)
        for name, along in self.along.items():
            if name not in tensors:
                continue
            if along == "as drawn":
                result[name] = natural[name]
            elif tensors[name].shape == natural[name].shape:
                result[name] = made_distinct(tensors[name], natural[name], along)
        return result

    def said(self, called: Callable[[str], str] = str) -> str:
        """For the reader of a verdict; `called`: the reader's name of an input."""
        names = " and ".join(map(called, self.along))
        return f"a number more than once in {names}: {self.because}, so no candidate is refused for what it does there"


ANYWHERE = DefinedWrites()
"""No input has to be distinct."""


def made_distinct(tensor: torch.Tensor, natural: torch.Tensor, along: Along) -> torch.Tensor:
    """Itself where it is distinct, and where the range of `natural` has too few numbers."""
    if not repeats(tensor, along):
        return tensor
    values = tensor.detach().to("cpu", torch.int64).clone()
    rows = values.reshape(1, -1) if along == "all" else values.reshape(-1, values.shape[-1])
    ascends = bool((values.diff() >= 0).all())
    seen = natural.to(torch.int64)
    low, high = max(0, int(seen.min())), int(seen.max())
    for row in rows:
        _exchange(row, low, min(high, low + _MOST_RANGE))
    whole = rows.reshape(values.shape)
    return laid_out_like(whole.sort().values if ascends else whole, tensor)


def _exchange(row: torch.Tensor, low: int, high: int) -> None:
    """Of several equal numbers the first stays."""
    order = row.argsort(stable=True)
    ordered = row[order]
    again = torch.zeros_like(row, dtype=torch.bool)
    again[order[1:]] = (ordered[1:] == ordered[:-1]) & (ordered[1:] >= 0)
    count = int(again.sum())
    unused = torch.ones(high - low + 1, dtype=torch.bool)
    used = row[(row >= low) & (row <= high)]
    unused[used - low] = False
    free = unused.nonzero().reshape(-1) + low
    if count and len(free) >= count:
        # Spread over the range, from the place of the row's first number on.
        start = int(row[0]) % len(free)
        row[again] = free[(start + torch.arange(count) * len(free) // count) % len(free)]


def holds_integers(tensor: torch.Tensor) -> bool:
    """Whether it is a tensor of several whole numbers."""
    if tensor.layout != torch.strided:
        return False
    whole = not tensor.is_floating_point() and not tensor.is_complex()
    return whole and tensor.dtype != torch.bool and tensor.dim() > 0 and tensor.numel() > 1


def repeats(tensor: torch.Tensor, along: Along) -> bool:
    """Whether a number that may be a place comes more than once."""
    values = tensor.detach().to(torch.int64)
    rows = values.reshape(1, -1) if along == "all" else values
    ordered = rows.sort(-1).values
    return bool(((ordered[..., 1:] == ordered[..., :-1]) & (ordered[..., 1:] >= 0)).any())
