"""The user's own `--rtol` and `--atol`, beside the judge's gate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.tools.calls.complex_numbers import is_inexact
from kernelagent.tools.judge.verify.compare.compare import leaves


@dataclass(frozen=True)
class UserTolerance:
    """`|c - y64| <= atol + rtol * |y64|` for every element of every floating output."""

    rtol: float
    atol: float

    @classmethod
    def of(cls, settings: JudgeSettings) -> UserTolerance | None:
        """None where the user gave neither."""
        if settings.rtol is None and settings.atol is None:
            return None
        return cls(settings.rtol or 0.0, settings.atol or 0.0)

    def accepts(self, output: Any, oracle64: Any) -> bool:
        """False also where the shapes differ."""
        pairs = zip(leaves(output), leaves(oracle64), strict=False)
        return all(self._one(got, want) for (_, got), (_, want) in pairs)

    def _one(self, got: Any, want: Any) -> bool:
        if not isinstance(want, torch.Tensor) or not is_inexact(want):
            return True
        if not isinstance(got, torch.Tensor) or got.shape != want.shape:
            return False
        return torch.allclose(
            got.to(want.dtype), want.cpu(), rtol=self.rtol, atol=self.atol, equal_nan=True
        )

    def __str__(self) -> str:
        return f"rtol={self.rtol:g}, atol={self.atol:g}"
