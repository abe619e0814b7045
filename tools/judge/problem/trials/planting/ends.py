"""Values at and near the ends of what a function takes: bounds of the inputs, and pairs that are nearly alike.

Draws from a part of an interval never meet its ends, where logarithms, angles and quotients have theirs. Of two inputs of
one form every second index of the first dimension holds a pair that is alike, opposite or proportional.
"""

from __future__ import annotations

from typing import Any

import torch

from kernelagent.tools.judge.problem.trials.input_domain import Domain, Tensors, observe
from kernelagent.tools.judge.problem.trials.planting.patterns import Draw
from kernelagent.tools.judge.problem.trials.probes import Freedom

_NEAREST: dict[Freedom, float] = {"any": 1e-6, "signs": 1e-3, "range": 0.02}
"""Distances from an end, the least; and by how much two that are nearly alike differ."""
_FURTHEST = 0.3
_EXACT = 0.15
"""Share of the elements that are at either end, where ends are tried."""
_NEAR = 0.3
_ALIKE: dict[Freedom, float] = {"any": 1e-3, "signs": 1e-2, "range": 0.1}
_FREE = ("real", "positive")


def bounds_of(tensor: torch.Tensor) -> tuple[float, float] | None:
    """The ends of the interval that its draws seem to be from: zero and one, or minus one and one."""
    domain = observe(tensor)
    if not _is_free(tensor) or domain.constant or domain.high > 1 or domain.low < -1:
        return None
    return (0.0, 1.0) if domain.low >= 0 else (-1.0, 1.0)


def has_ends(tensors: Tensors) -> bool:
    """Whether an input has bounds, or two are of one form."""
    free = [t for t in tensors.values() if _is_free(t) and t.numel() > 1]
    forms = [(t.shape, t.dtype) for t in free]
    return len(set(forms)) < len(forms) or any(bounds_of(t) is not None for t in free)


def at_the_ends(natural: Tensors, freedom: Freedom, draw: Draw) -> dict[str, torch.Tensor]:
    """The free ones of them, in float32 or wider, changed; the others are left out."""
    made = {
        name: _to_the_ends(tensor, bounds, freedom, draw)
        for name, tensor in natural.items()
        if (bounds := bounds_of(tensor)) is not None
    }
    first_of: dict[Any, str] = {}
    for name, tensor in natural.items():
        if not _is_free(tensor) or tensor.numel() < 2:
            continue
        first = first_of.setdefault((tensor.shape, tensor.dtype), name)
        if first != name:
            left, right = (made.get(n, _wide(natural[n])) for n in (first, name))
            made[name] = _paired(_wide(natural[first]), right, observe(tensor), freedom, draw)
            made[first] = _without_pairs(_wide(natural[first]), left)
    return made


def _is_free(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and tensor.numel() > 0 and observe(tensor).kind in _FREE


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().to(torch.float64 if tensor.dtype == torch.float64 else torch.float32)


def _uniform(like: torch.Tensor, draw: Draw) -> torch.Tensor:
    return torch.rand(like.shape, generator=draw, dtype=like.dtype).to(like.device)


def _to_the_ends(
    tensor: torch.Tensor, bounds: tuple[float, float], freedom: Freedom, draw: Draw
) -> torch.Tensor:
    values = _wide(tensor)
    low, high = bounds
    least = max(_NEAREST[freedom], 8 * torch.finfo(tensor.dtype).eps)
    distance = least * (_FURTHEST / least) ** _uniform(values, draw)
    upper = _uniform(values, draw) < 0.5
    chosen = _uniform(values, draw)
    near = torch.where(upper, high - distance, low + distance)
    made = torch.where(chosen < _EXACT + _NEAR, near, values)
    if freedom == "any":
        made = torch.where(chosen < _EXACT, torch.where(upper, high, low).to(made), made)
    return made


def _second_ones(like: torch.Tensor) -> torch.Tensor:
    """True at every second index of the first dimension; of one dimension, everywhere."""
    if like.dim() < 2:
        return torch.ones_like(like, dtype=torch.bool)
    at = torch.arange(like.shape[0], device=like.device) % 2 == 1
    return at.reshape(-1, *[1] * (like.dim() - 1)).expand(like.shape)


def _without_pairs(natural: torch.Tensor, made: torch.Tensor) -> torch.Tensor:
    return torch.where(_second_ones(natural), natural, made)


def _paired(
    first: torch.Tensor,
    right: torch.Tensor,
    domain: Domain,
    freedom: Freedom,
    draw: Draw,
) -> torch.Tensor:
    """At every second index `first` itself, or its opposite, times a number, and a thousandth besides."""
    shape = (first.shape[0], *[1] * (first.dim() - 1)) if first.dim() > 1 else ()
    kind = torch.randint(5, shape, generator=draw).to(first.device)
    size = first.square().mean().sqrt()
    noise = torch.randn(first.shape, generator=draw, dtype=first.dtype).to(first.device)
    signs = torch.where(kind % 2 == 1, -1.0, 1.0)
    # A power of two: what is proportional is so exactly.
    factor = torch.where(kind == 4, torch.tensor(0.5, dtype=first.dtype), 1.0)
    apart = torch.where((kind < 2) & torch.tensor(freedom == "any"), 0.0, _ALIKE[freedom])
    made = signs * factor * first + apart * size * noise
    if domain.nonnegative:
        made = made.abs()
    if domain.low >= -1 and domain.high <= 1:
        made = made.clamp(0.0 if domain.low >= 0 else -1.0, 1.0)
    return torch.where(_second_ones(first), made, right)
