"""What the searches for a pattern look at: the wrong output, the right one, and what else it may be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from kernelagent.tools.judge.verify.compare.tiles import only_diagonal_right
from kernelagent.tools.judge.verify.diagnosis.error_locations import restrictions

LOOKED_AT = 1 << 22
"""Elements that fits and shifts are tried on; where errors lie is found over all of them."""
_MUCH_NEARER = 0.05
"""A result is another answer, up to rounding, if its distance to it is below this share of the error."""


@dataclass(frozen=True)
class Found:
    pattern: str
    words: str
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Evidence:
    inputs: Mapping[str, torch.Tensor]
    without: Mapping[str, torch.Tensor]
    instead: Mapping[str, torch.Tensor]
    shortened: Iterable[tuple[str, torch.Tensor]]
    vectors: Mapping[str, torch.Tensor]
    previous: torch.Tensor | None
    poison: tuple[float, ...]


Close = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""`(candidate, expected) -> bool per element`: equal up to rounding."""


@dataclass(frozen=True)
class Look:
    candidate: torch.Tensor
    expected: torch.Tensor
    wrong: torch.Tensor
    close: Close
    evidence: Evidence

    def same(self, left: torch.Tensor, right: torch.Tensor) -> bool:
        """Equal up to rounding in nearly all of the elements looked at."""
        if left.shape != right.shape or left.numel() == 0:
            return False
        near = self.close(some(left), some(right))
        return float(near.to(torch.float32).mean()) > 0.999

    def is_instead(self, other: torch.Tensor) -> bool:
        """Whether the candidate equals `other` and the right answer does not; with few wrong elements both would."""
        return self.same(self.candidate, other) and not self.same(self.expected, other)

    def answers(self, other: torch.Tensor) -> bool:
        """Whether the candidate computes `other` instead of what is expected.

        Elements much nearer to `other` count as equal too: the tolerance is that of the block of rows that
        failed, and a row with hardly any variance rounds far worse. That holds only while the distance to `other`
        is at most the RMS of `other`: else an output that is merely far too small would pass for all zeros.
        """
        if self.candidate.shape != other.shape or self.candidate.numel() == 0:
            return False
        got, want, answer = (some(t) for t in (self.candidate, self.expected, other))
        missed = (wide(got) - wide(answer)).abs()
        nearer = missed <= _MUCH_NEARER * (wide(got) - wide(want)).abs()
        typical = wide(answer).abs().square().nan_to_num().mean().sqrt()
        near = self.close(got, answer) | (nearer & (missed <= typical))
        wrong = some(self.wrong)
        shares = (near, near[wrong]) if bool(wrong.any()) else (near,)
        return all(float(share.to(torch.float32).mean()) > 0.99 for share in shares)


def where_of(look: Look) -> str:
    places = " and ".join(along.named(look.wrong.dim()) for along in restrictions(look.wrong))
    return places or off_the_diagonal(look)


def off_the_diagonal(look: Look) -> str:
    tile = only_diagonal_right(look.wrong)
    if tile is None:
        return ""
    return f"all but the tiles of {tile[0]} rows by {tile[1]} columns on the diagonal"


def some(tensor: torch.Tensor) -> torch.Tensor:
    """The leading elements, enough to recognise a pattern by."""
    return tensor.reshape(-1)[:LOOKED_AT]


def wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def plain(value: Any) -> Any:
    """A JSON value; NaN, infinities and complex numbers as text."""
    if isinstance(value, complex) or (isinstance(value, float) and value - value != 0):
        return str(value)
    return value
