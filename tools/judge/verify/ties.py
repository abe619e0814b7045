"""Indices that are not unique: among equal values, topk and sort may return any index."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.oracle import Oracle
from kernelagent.tools.judge.verify.compare import leaves
from kernelagent.tools.judge.verify.exact import IndexRule, same_gathered_values

_OPEN = frozenset("topk sort argsort msort kthvalue median".split())
"""Functions whose choice among equal values torch does not promise."""


@dataclass(frozen=True)
class _Choice:
    """One call of such a function: what it chose from, along which dimension, and what it named."""

    source: torch.Tensor
    dim: int
    indices: torch.Tensor


@dataclass
class _Recording(TorchFunctionMode):
    """While active, records every call whose index among equal values is unspecified."""

    choices: list[_Choice] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = dict(kwargs or {})
        result = func(*args, **named)
        name = getattr(func, "__name__", "")
        if name in _OPEN and args and isinstance(args[0], torch.Tensor) and not named.get("stable"):
            indices = (
                result if isinstance(result, torch.Tensor) else getattr(result, "indices", None)
            )
            if isinstance(indices, torch.Tensor) and indices.dtype == torch.int64:
                dim = _dimension(name, args, named)
                self.choices.append(_Choice(args[0].detach().clone(), dim, indices.clone()))
        return result


def _dimension(name: str, args: tuple[Any, ...], named: Mapping[str, Any]) -> int:
    if "dim" in named:
        return int(named["dim"])
    place = 2 if name in ("topk", "kthvalue") else 1
    given = args[place] if len(args) > place else -1
    return int(given) if isinstance(given, int) and not isinstance(given, bool) else -1


def index_rule(oracle: Oracle, arguments: Arguments) -> IndexRule:
    """Which other indices are right too; the reference runs once more, where an index differs at all."""
    in_use = oracle.weights

    def rule(name: str, candidate: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
        kept = oracle.weights
        oracle.use_weights(in_use)
        recording = _Recording()
        try:
            with recording:
                output = dict(leaves(oracle.eager(arguments))).get(name)
        finally:
            oracle.use_weights(kept)
        for choice in recording.choices:
            if isinstance(output, torch.Tensor) and torch.equal(output, choice.indices):
                valid = same_gathered_values({name: choice.source}, choice.dim)
                return valid(name, candidate, expected) & _each_once(candidate, choice)
        return torch.zeros_like(candidate, dtype=torch.bool)

    return rule


def _each_once(candidate: torch.Tensor, choice: _Choice) -> torch.Tensor:
    """No element may be named twice along the dimension."""
    if choice.source.dim() != candidate.dim() or not candidate.dim():
        return torch.ones_like(candidate, dtype=torch.bool)
    ordered = candidate.sort(choice.dim).values
    twice = (ordered.diff(dim=choice.dim) == 0).any(choice.dim, keepdim=True)
    return (~twice).expand_as(candidate)
