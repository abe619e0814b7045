"""What a call must leave as it was of its caller's tensors, besides their values: flags, gradients, hooks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from kernelagent.tools.candidate_runner.candidate import CandidateFailure

_NAMES = (
    "whether it requires a gradient",
    "its gradient",
    "its hooks",
    "hooks after its gradient",
)


@dataclass(frozen=True)
class Flags:
    """Of the parameters, the buffers and the inputs at one moment."""

    of_tensors: tuple[tuple[str, torch.Tensor, tuple[Any, ...]], ...]

    @classmethod
    def of(cls, module: torch.nn.Module, inputs: Iterable[torch.Tensor]) -> Flags:
        named = [*module.named_parameters(), *module.named_buffers()]
        named += [("an input", tensor) for tensor in inputs]
        return cls(tuple((name, tensor, _flags(tensor)) for name, tensor in named))

    def require_as_they_were(self) -> None:
        """Raises `CandidateFailure` for the first that differs."""
        for name, tensor, before in self.of_tensors:
            for what, old, new in zip(_NAMES, before, _flags(tensor), strict=True):
                if old != new:
                    raise CandidateFailure(
                        "tampering",
                        f"the forward changes {what} of {name}, which belongs to the user's program",
                        {"tensor": name},
                    )


def _flags(tensor: torch.Tensor) -> tuple[Any, ...]:
    return (
        tensor.requires_grad,
        None if tensor.grad is None else id(tensor.grad),
        len(tensor._backward_hooks or {}),
        len(getattr(tensor, "_post_accumulate_grad_hooks", None) or {}),
    )
