"""What values a problem's own inputs take, and new values of the same kind.

A probe may surprise a kernel, never leave the problem: integers stay in range, masks stay masks,
simplexes stay simplexes. What is looked at is one tensor as the user's generator gave it.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from kernelagent.tools.judge.problem.trials.layouts import with_strides

Tensors = Mapping[str, torch.Tensor]
Kind = Literal[
    "fixed", "boolean", "rows", "integer", "sorted", "permutation", "observed", "simplex",
    "log_simplex", "positive", "real"
]  # fmt: skip
Pattern = Literal["lower", "upper", "diagonal", "none"]
Repeats = Literal["halves", "pairs", "none"]
_MOST_VALUES = 16
_MASK_LEVEL = -1e4
_JITTER = 1 / 16
_FEWEST_REPEATED = 16
"""Fewer elements may be equal by chance."""


@dataclass(frozen=True)
class Domain:
    """What was observed of one tensor.

    `fixed` keeps its values; `rows` are masks whose rows may change places; `observed` takes only
    values that were seen; `positive` is bounded away from zero; `real` is everything else.
    """

    kind: Kind
    low: float = 0.0
    high: float = 0.0
    scale: float = 0.0
    """RMS of the finite values."""
    density: float = 0.0
    """Share of True."""
    pattern: Pattern = "none"
    """Zeros off the lower, upper triangle or diagonal of the last two dimensions."""
    symmetric: bool = False
    ordered: bool = False
    """Floating values ascend along the last dimension."""
    simplex_dim: int = -1
    repeats: Repeats = "none"
    """Both halves of the last dimension, or both of each pair in it, hold the same numbers, as the cosines and
    sines of rotary embeddings do."""

    @property
    def constant(self) -> bool:
        return self.low == self.high

    @property
    def nonnegative(self) -> bool:
        return self.low >= 0 and self.high > 0


_SEEN: MutableMapping[torch.Tensor, tuple[int, Domain]] = WeakTensorKeyDictionary()
"""What was observed of each tensor that lives, and the version of its values."""


def observe(tensor: torch.Tensor) -> Domain:
    """Describe the values of `tensor`; looks at all of them, once for as long as they stay the same.

    Each probe of a trial asks it of the same draw, at each of its degrees of freedom.
    """
    if tensor.is_inference():
        return _observed(tensor.detach())
    known = _SEEN.get(tensor)
    if known is None or known[0] != tensor._version:
        known = _SEEN[tensor] = tensor._version, _observed(tensor.detach())
    return known[1]


def _observed(values: torch.Tensor) -> Domain:
    if values.numel() == 0 or values.is_complex():
        return Domain("fixed" if values.numel() == 0 else "real", scale=_complex_scale(values))
    if values.dtype == torch.bool:
        return _observe_boolean(values)
    if not values.dtype.is_floating_point:
        return _observe_integer(values)
    return _observe_floating(values)


def fresh_like(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """New values of the same kind in the same shape, dtype and strides, on the same device.

    Integers in the observed range, booleans at the observed density, floats with the observed
    location, scale and sign. Depends on nothing but `tensor` and `generator`.
    """
    return laid_out_like(fresh_values(tensor, observe(tensor), generator), tensor)


def fresh_values(tensor: torch.Tensor, domain: Domain, generator: torch.Generator) -> torch.Tensor:
    """As `fresh_like`, without the layout."""
    match domain.kind:
        case "fixed":
            return tensor.detach().clone()
        case "boolean":
            return _uniform(tensor, generator) < domain.density
        case "rows":
            return _rows_exchanged(tensor, generator)
        case "integer":
            return _integers(tensor, domain, generator)
        case "sorted":
            return _integers(tensor, domain, generator).sort(-1).values
        case "permutation":
            return _uniform(tensor, generator).argsort(-1).to(tensor.dtype) + int(domain.low)
        case "observed":
            return _redrawn(tensor, generator)
        case "simplex" | "log_simplex":
            return on_simplex(standard_normal(tensor, generator), tensor, domain)
    jitter = 1 + _JITTER * standard_normal(tensor, generator)
    return shaped_like(_redrawn(tensor, generator) * jitter, tensor, domain)


def standard_normal(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Normal values of `like`'s shape on its device, float32 unless `like` is more exact."""
    dtype = like.dtype if like.is_complex() or like.dtype == torch.float64 else torch.float32
    drawn = torch.randn(like.shape, generator=generator, dtype=dtype, device=generator.device)
    return drawn.to(like.device)


def on_simplex(values: torch.Tensor, like: torch.Tensor, domain: Domain) -> torch.Tensor:
    """`values` as logits of rows that sum to one, or of their logarithms."""
    wide = values.to(torch.float32 if like.dtype != torch.float64 else torch.float64)
    log = domain.kind == "log_simplex"
    rows = wide.log_softmax(domain.simplex_dim) if log else wide.softmax(domain.simplex_dim)
    return rows.to(like.dtype)


def shaped_like(values: torch.Tensor, like: torch.Tensor, domain: Domain) -> torch.Tensor:
    """`values` with the structure of `like`: symmetry, zeros, order, infinities, range of the dtype."""
    if domain.symmetric:
        values = (values + values.mT) / 2
    if domain.pattern == "lower":
        values = values.tril()
    elif domain.pattern == "upper":
        values = values.triu()
    elif domain.pattern == "diagonal":
        values = values.tril().triu()
    if domain.ordered:
        values = values.sort(-1).values
    if like.dtype.is_floating_point:
        most = torch.finfo(like.dtype).max / 2
        values = values.clamp(-most, most)
    values = values.to(like.dtype)
    if like.is_complex() or bool(_finite(like).all()):
        return values
    return torch.where(_finite(like), values.to(like.dtype), like.detach())


def laid_out_like(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """`values` in `like`'s dtype, strides (gaps, expanded and overlapping ones too) and device, repeated as there."""
    values = repeated_like(values.to(dtype=like.dtype, device=like.device), like)
    return with_strides(values, like.stride()).requires_grad_(like.requires_grad)


def _observe_boolean(values: torch.Tensor) -> Domain:
    density = float(values.to(torch.float32).mean())
    low, high = float(values.all()), float(values.any())
    described = Domain("boolean", low=low, high=high, density=density)
    if low == high:
        return described
    if _pattern(values) != "none" or _pattern(~values) != "none":
        return Domain("fixed", low=low, high=high, density=density)
    steps = (
        values[..., 1:].to(torch.int8) - values[..., :-1].to(torch.int8) if values.dim() else None
    )
    if steps is not None and (bool((steps <= 0).all()) or bool((steps >= 0).all())):
        return Domain("rows", low=low, high=high, density=density)
    return described


def _observe_integer(values: torch.Tensor) -> Domain:
    wide = values.to(torch.int64)
    low, high = int(wide.amin()), int(wide.amax())
    if low == high:
        return Domain("fixed", low=low, high=high)
    if values.dim() and values.shape[-1] > 1:
        steps = wide[..., 1:] - wide[..., :-1]
        # Positions count up by one; offsets start at zero and mean the lengths between them.
        if bool((steps == 1).all()) or (
            bool((steps >= 0).all()) and low == 0 and values.dim() == 1
        ):
            return Domain("fixed", low=low, high=high)
        if bool((steps >= 0).all()):
            return Domain("sorted", low=low, high=high)
        places = torch.arange(low, low + values.shape[-1], device=values.device)
        if bool((wide.sort(-1).values == places).all()):
            return Domain("permutation", low=low, high=high)
    # A negative integer is often a sentinel (such as ignore_index): values that were not seen may be invalid.
    return Domain("observed" if low < 0 else "integer", low=low, high=high)


def _observe_floating(values: torch.Tensor) -> Domain:
    wide = values.to(torch.float64 if values.dtype == torch.float64 else torch.float32)
    all_finite = bool(wide.isfinite().all())
    finite = wide.reshape(-1) if all_finite else wide[wide.isfinite()]
    if finite.numel() == 0:
        return Domain("fixed")
    low, high = (float(end) for end in finite.aminmax())
    norm = torch.linalg.vector_norm(finite, dtype=torch.float64)
    scale = float(norm) / finite.numel() ** 0.5
    if _is_additive_mask(wide, low, high):
        return Domain("fixed", low=low, high=high, scale=scale)
    kind: Kind = "real"
    dim = -1
    if all_finite and (result := _simplex(wide, low, high)) is not None:
        kind, dim = result
    elif _is_discrete(finite, low, high):
        kind = "fixed" if _pattern(wide != 0) != "none" else "observed"
    elif _is_bounded_away(low, high, finite.numel()):
        kind = "positive"
    square = wide.dim() >= 2 and wide.shape[-1] == wide.shape[-2] > 1
    return Domain(
        kind,
        low=low,
        high=high,
        scale=scale,
        pattern=_pattern(wide != 0),
        symmetric=square and low < high and bool(torch.equal(wide, wide.mT)),
        ordered=_ascends(wide),
        simplex_dim=dim,
        repeats=_repeats(wide),
    )


def _repeats(values: torch.Tensor) -> Repeats:
    size = values.shape[-1] if values.dim() else 0
    if size < 4 or size % 2 or values.numel() < _FEWEST_REPEATED:
        return "none"
    if torch.equal(values, values[..., :1].expand_as(values)):
        return "none"
    if torch.equal(values[..., : size // 2], values[..., size // 2 :]):
        return "halves"
    return "pairs" if torch.equal(values[..., 0::2], values[..., 1::2]) else "none"


def repeated_like(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """`values` with the first half, or the first of each pair, in the places where `like` repeats them."""
    repeats = observe(like).repeats if like.is_floating_point() else "none"
    if repeats == "halves":
        return torch.cat([values[..., : values.shape[-1] // 2]] * 2, -1)
    if repeats == "pairs":
        return values[..., 0::2].repeat_interleave(2, -1)
    return values


def _ascends(values: torch.Tensor) -> bool:
    if (
        values.dim() == 0
        or values.shape[-1] < 8
        or not bool((values[..., -1] > values[..., 0]).all())
    ):
        return False
    return bool((values[..., 1:] >= values[..., :-1]).all())


def _pattern(marked: torch.Tensor) -> Pattern:
    if marked.dim() < 2 or min(marked.shape[-2:]) < 2 or bool(marked.all()) or not marked.any():
        return "none"
    below, above = not marked.triu(1).any(), not marked.tril(-1).any()
    if below and above:
        return "diagonal"
    return "lower" if below else "upper" if above else "none"


def _is_additive_mask(values: torch.Tensor, low: float, high: float) -> bool:
    if high != 0:
        return False
    blocked = (values == -torch.inf) | (values <= _MASK_LEVEL)
    return bool(blocked.any()) and bool((blocked | (values == 0)).all())


def _is_discrete(finite: torch.Tensor, low: float, high: float) -> bool:
    if finite.numel() < 16 or low == high or high - low > 4 * _MOST_VALUES:
        return False
    if not bool((finite == finite.round()).all()):
        return False
    distinct: torch.Tensor = torch.unique(finite)
    return distinct.numel() <= min(_MOST_VALUES, finite.numel() // 4)


def _is_bounded_away(low: float, high: float, count: int) -> bool:
    """Whether `low` is too large for a uniform distribution that starts at zero, given the number of values."""
    return 0 < low < high and count >= 16 and high < low * (4 if count < 1024 else 128)


def _simplex(values: torch.Tensor, low: float, high: float) -> tuple[Kind, int] | None:
    if low == high:
        return None
    for dim in (-1, 1):
        if values.dim() <= max(dim, 0) or values.shape[dim] < 2:
            continue
        if low >= 0 and bool(((values.sum(dim) - 1).abs() < 1e-2).all()):
            return "simplex", dim
        if high <= 1e-3 and bool(((values.exp().sum(dim) - 1).abs() < 1e-2).all()):
            return "log_simplex", dim
    return None


def _complex_scale(values: torch.Tensor) -> float:
    return float(values.abs().square().mean().sqrt()) if values.numel() else 0.0


def _finite(values: torch.Tensor) -> torch.Tensor:
    return values.detach().to(torch.float32).isfinite()


def _uniform(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.rand(like.shape, generator=generator, device=generator.device).to(like.device)


def _integers(like: torch.Tensor, domain: Domain, generator: torch.Generator) -> torch.Tensor:
    drawn = torch.randint(
        int(domain.low), int(domain.high) + 1, like.shape, generator=generator,
        device=generator.device,
    )  # fmt: skip
    return drawn.to(device=like.device, dtype=like.dtype)


def _rows_exchanged(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    rows = like.detach().reshape(-1, like.shape[-1])
    order = torch.randperm(len(rows), generator=generator, device=generator.device)
    return rows[order.to(like.device)].reshape(like.shape)


def _redrawn(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Each element an element of `like` at a random place; the finite ones only."""
    flat = like.detach().reshape(-1)
    if like.is_floating_point():
        wide = flat if like.dtype == torch.float64 else flat.to(torch.float32)
        flat = wide[wide.isfinite()]
    places = torch.randint(len(flat), (like.numel(),), generator=generator, device=generator.device)
    return flat[places.to(like.device)].reshape(like.shape)
