"""Inputs beyond what the user's own show: NaN and infinities, and other values of what never changed.

No candidate is refused for them. Where it answers otherwise than the reference the verdict says so, and
what never changed is compared at every call of the emitted module.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

import torch

from kernelagent.tools.judge.problem.trials.input_domain import Tensors, laid_out_like, observe

Extreme = Literal["nan", "infinity", "largest", "zero"]
EXTREMES: Mapping[Extreme, str] = {
    "nan": "NaN",
    "infinity": "infinities",
    "largest": "the largest and the smallest numbers of their type",
    "zero": "zeros",
}
FREE = ("real", "positive")
BOUND = ("simplex", "log_simplex", "observed", "fixed")
"""Kinds whose numbers are bound to each other or to a few values: probabilities, counts, masks that are added."""
_EVERY = 7
"""One row in so many holds an extreme value, and always one."""


def with_extremes(
    tensors: Tensors, kind: Extreme, generator: torch.Generator, of: Collection[str] = FREE
) -> dict[str, torch.Tensor]:
    """The tensors with a few elements of the floating ones of these kinds exchanged; empty where there are none."""
    result = dict(tensors)
    some = False
    for name, tensor in tensors.items():
        if tensor.is_complex() and tensor.numel():
            some = True
            result[name] = laid_out_like(_with_complex_extremes(tensor, kind, generator), tensor)
            continue
        if (
            not tensor.is_floating_point()
            or not tensor.numel()
            or observe(tensor).kind not in of
            or (kind == "infinity" and not _has_infinity(tensor.dtype))
        ):
            continue
        some = True
        flat = tensor.detach().clone(memory_format=torch.contiguous_format).reshape(-1)
        columns = tensor.shape[-1] if tensor.dim() else 1
        rows = flat.numel() // columns
        order = torch.randperm(rows, generator=generator)
        chosen = order[: max(1, rows // _EVERY)]
        at = torch.randint(columns, (len(chosen),), generator=generator)
        values = _extreme(kind, tensor.dtype)
        put = [values[n % len(values)] for n in range(len(chosen))]
        places = (chosen * columns + at).to(flat.device)
        flat[places] = torch.tensor(put, dtype=torch.float64).to(flat)
        if kind == "infinity":
            _forbid(flat.view(rows, columns), order[len(chosen) :][: len(chosen)], generator)
        result[name] = laid_out_like(flat.reshape(tensor.shape), tensor)
    return result if some else {}


def _with_complex_extremes(
    tensor: torch.Tensor, kind: Extreme, generator: torch.Generator
) -> torch.Tensor:
    """In the real part, in the imaginary part, or in both."""
    whole = tensor.detach().resolve_conj().clone(memory_format=torch.contiguous_format)
    parts = torch.view_as_real(whole).view(-1, 2)
    values = _extreme(kind, parts.dtype)
    places = torch.randperm(len(parts), generator=generator)[: max(1, len(parts) // _EVERY)]
    put = torch.tensor([values[at // 3 % len(values)] for at in range(len(places))])
    begun = int(torch.randint(3, (), generator=generator))
    which = (torch.arange(len(places)) + begun) % 3
    if kind == "largest":
        # The modulus of two of the largest is none of their type.
        put = torch.where(which == 2, put / 2, put)
    for part in range(2):
        chosen = which != part
        parts[places[chosen].to(parts.device), part] = put[chosen].to(parts)
    return whole


def _forbid(values: torch.Tensor, rows: torch.Tensor, generator: torch.Generator) -> None:
    """Minus infinity in half of each of these rows, as where most of a vocabulary is masked; never in all of one."""
    columns = values.shape[1]
    half = torch.rand(len(rows), columns, generator=generator) < 0.5
    half[torch.arange(len(rows)), torch.randint(columns, (len(rows),), generator=generator)] = False
    rows = rows.to(values.device)
    # In float64, because not every operation has the types of 8 bits.
    wide = values[rows].double().masked_fill(half.to(values.device), -torch.inf)
    values[rows] = wide.to(values.dtype)


def with_empty_rows(tensors: Tensors, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """The tensors with nothing True in a few rows of boolean ones, nothing but what hides in additive masks; empty without."""
    result = dict(tensors)
    hiding = {
        name: False if tensor.dtype == torch.bool else _blocked(tensor)
        for name, tensor in tensors.items()
        if tensor.dim() and tensor.numel()
        if tensor.dtype == torch.bool or tensor.is_floating_point()
    }
    masks = {name: hides for name, hides in hiding.items() if hides is not None}
    for name, hides in masks.items():
        mask = tensors[name]
        rows = (
            mask.detach().clone(memory_format=torch.contiguous_format).reshape(-1, mask.shape[-1])
        )
        chosen = torch.randperm(len(rows), generator=generator)[: max(1, len(rows) // _EVERY)]
        rows[chosen.to(rows.device)] = hides
        result[name] = laid_out_like(rows.reshape(mask.shape), mask)
    return result if masks else {}


OUTSIDE = (-100, -1)
"""Integers that a reference may take though its inputs hold none: what `ignore_index` is, what stands for none."""


def with_integers_outside(
    tensors: Tensors, number: int, generator: torch.Generator
) -> dict[str, torch.Tensor]:
    """The tensors with this number in a few places of those of integers that hold none so small; empty without any."""
    result = dict(tensors)
    some = False
    for name, tensor in tensors.items():
        plain = tensor.dtype in (torch.int8, torch.int16, torch.int32, torch.int64)
        if not plain or not tensor.numel() or int(tensor.min()) <= number:
            continue
        some = True
        flat = tensor.detach().clone(memory_format=torch.contiguous_format).reshape(-1)
        order = torch.randperm(flat.numel(), generator=generator)
        flat[order[: max(1, flat.numel() // _EVERY)].to(flat.device)] = number
        result[name] = laid_out_like(flat.reshape(tensor.shape), tensor)
    return result if some else {}


def _has_infinity(dtype: torch.dtype) -> bool:
    """float8_e4m3fn has none: torch writes its largest number, or NaN, in the place of one."""
    return bool(torch.tensor(torch.inf).to(dtype).float().isinf())


def _extreme(kind: Extreme, dtype: torch.dtype) -> tuple[float, ...]:
    limits = torch.finfo(dtype)
    if kind == "nan":
        return (float("nan"),)
    if kind == "zero":
        return (0.0, -0.0)
    if kind == "infinity":
        return float("inf"), float("-inf")
    # Half of the smallest normal number is denormal in every format.
    return limits.max, limits.min, limits.tiny / 2, -limits.tiny / 2


def varied(
    tensor: torch.Tensor, generator: torch.Generator, *, in_disorder: bool = False
) -> torch.Tensor | None:
    """Other values for a tensor that always held the same; None where none can be thought of.

    `in_disorder`: integers of their range, some several times; else what ascends keeps its ends and its order,
    and each value comes as often as before.
    """
    if not tensor.numel() or tensor.is_complex():
        return None
    if tensor.dtype == torch.bool:
        values = _other_mask(tensor, generator)
    elif not tensor.is_floating_point():
        values = _other_integers(tensor, generator, in_disorder=in_disorder)
    elif (blocked := _blocked(tensor)) is not None:
        open_ = _other_mask(torch.zeros_like(tensor, dtype=torch.bool), generator)
        values = torch.where(open_, torch.zeros_like(tensor), blocked)
    else:
        order = torch.randperm(tensor.numel(), generator=generator).to(tensor.device)
        values = tensor.detach().reshape(-1)[order].reshape(tensor.shape)
    values = laid_out_like(values, tensor)
    return None if torch.equal(values, tensor) else values


def softened(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor | None:
    """An additive mask with other numbers where it hides nothing, as distances are written into one; None for other tensors."""
    if not tensor.is_floating_point() or not tensor.numel():
        return None
    blocked = _blocked(tensor)
    if blocked is None:
        return None
    drawn = torch.randn(tensor.shape, generator=generator).to(tensor)
    return laid_out_like(torch.where(tensor == 0, drawn, tensor.detach()), tensor)


def _other_mask(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Any places, but never a row without a single True."""
    drawn = (torch.rand(tensor.shape, generator=generator) < 0.5).to(tensor.device)
    if tensor.dim():
        rows = drawn.reshape(-1, tensor.shape[-1])
        at = torch.arange(len(rows), device=rows.device)
        rows[at, at % tensor.shape[-1]] = True
        return rows.reshape(tensor.shape)
    return ~tensor


def _other_integers(
    tensor: torch.Tensor, generator: torch.Generator, *, in_disorder: bool
) -> torch.Tensor:
    wide = tensor.detach().to(torch.int64)
    low, high = int(wide.min()), int(wide.max())
    if low == high:
        if tensor.numel() == 1:
            return wide - 1 if high > 0 else wide + 1
        least, most = (0, high) if high > 0 else (low, max(low + 1, 0))
        return torch.randint(least, most + 1, tensor.shape, generator=generator)
    if in_disorder:
        return torch.randint(low, high + 1, tensor.shape, generator=generator)
    ascends = tensor.dim() == 1 and bool((wide[1:] >= wide[:-1]).all())
    if ascends and low == 0 and not bool((wide[1:] - wide[:-1] == 1).all()):
        # Offsets: they end where they ended, the lengths between them differ.
        inner = torch.randint(low, high + 1, (tensor.numel() - 2,), generator=generator)
        ends = torch.tensor([low]), inner.sort().values, torch.tensor([high])
        return torch.cat(ends)
    order = torch.randperm(tensor.numel(), generator=generator)
    return wide.reshape(-1)[order.to(wide.device)].reshape(tensor.shape)


def _blocked(tensor: torch.Tensor) -> torch.Tensor | None:
    """What an additive mask has where it hides; None for other tensors."""
    values = tensor.detach()
    # torch orders no numbers of eight bits.
    hidden = (values.float() if values.element_size() == 1 else values) <= -1e4
    if not bool(hidden.any()) or not bool((hidden | (values == 0)).all()):
        return None
    return values[hidden].reshape(-1)[0]
