"""Inputs that tell a right kernel from one that only looks right on the user's own inputs.

Each probe starts from a fresh natural draw and keeps to the domain of each tensor (`domain`). A
probe on which the reference has no finite answer is tried nearer to the natural values, then dropped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Literal

import torch

from kernelagent.domain.tables.probes import PROBE
from kernelagent.tools.calls.complex_numbers import in_each_part, without_tiny
from kernelagent.tools.judge.problem.trials.input_domain import (
    Domain,
    Tensors,
    fresh_like,
    fresh_values,
    laid_out_like,
    observe,
    on_simplex,
    shaped_like,
    standard_normal,
)
from kernelagent.tools.judge.problem.trials.layouts import in_layout_of
from kernelagent.tools.judge.problem.trials.masked_answers import (
    FINITE,
    Shares,
    is_as_finite,
    shares_nonfinite,
    with_natural_numbers,
)
from kernelagent.tools.judge.problem.trials.refusals import REFUSALS
from kernelagent.tools.judge.verify.compare.compare import leaves

Freedom = Literal["any", "signs", "range"]
"""How far a probe may go: any value, only signs that were seen, only the range that was seen."""
Reference = Callable[[Tensors], Any]
"""The float64 reference on named tensors; returns its result tree."""
_LADDER: tuple[Freedom, ...] = ("any", "signs", "range")
_WIDEST = 4
"""Rows of `rowaffine` differ in scale by powers of two up to this one."""
_SPIKE = 30.0
_LEAST_BLOCK = 16
_ON_AN_AXIS = 0.1
"""Of complex elements, on each axis from each of its sides."""
_OVERFLOWING = 200.0
"""Its exponential is infinite in float32, so a softmax with the maximum of the wrong part overflows."""
_ONE_TRUTH: dict[Freedom, tuple[bool, ...]] = {
    "any": (True, False),
    "signs": (True,),
    "range": (False,),
}
"""Values for whole rows of a mask: a fully masked row shows which fill value the kernel uses."""
_UNTOLD_DENSITY = 0.75
"""Share of True in a redrawn mask if the natural mask is constant."""


@dataclass(frozen=True)
class Probe:
    """Inputs to judge on, with the oracle's answer."""

    name: str
    tensors: dict[str, torch.Tensor]
    oracle64: Any
    freedom: Freedom = "any"


@dataclass(frozen=True)
class Dropped:
    """A probe the reference has no answer to."""

    name: str
    reason: str


def named_tensors(arguments: Any) -> dict[str, torch.Tensor]:
    """The tensors of a nest of arguments by their place, for example `arguments[0][1]`."""
    result = leaves(arguments, "arguments")
    return {name: value for name, value in result if isinstance(value, torch.Tensor)}


def with_tensors(arguments: Any, tensors: Tensors, name: str = "arguments") -> Any:
    """The same nest with the named tensors put in their places; everything else is kept.

    Each lies in memory as the one it replaces: a kernel may be written for these strides alone. Only where its shape is
    another does it stay as it was made.
    """
    if isinstance(arguments, torch.Tensor):
        return in_layout_of(tensors.get(name, arguments), arguments)
    if isinstance(arguments, Mapping):
        return {
            key: with_tensors(item, tensors, f"{name}[{key!r}]") for key, item in arguments.items()
        }
    if isinstance(arguments, list | tuple):
        items = [with_tensors(item, tensors, f"{name}[{at}]") for at, item in enumerate(arguments)]
        if hasattr(arguments, "_fields"):
            return type(arguments)(*items)
        return items if isinstance(arguments, list) else tuple(items)
    return arguments


def fresh_inputs(example: Tensors, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """A natural draw where the user gave example tensors and no function that draws."""
    return {name: fresh_like(tensor, generator) for name, tensor in example.items()}


def make_probe(
    name: str,
    natural: Tensors,
    generator: torch.Generator,
    reference: Reference,
    *,
    usual: Shares = FINITE,
) -> Probe | Dropped:
    """The probe called `name` (one of `domain.tables.probes.PROBES`) from a fresh natural draw.

    `reference` must be as finite on it as on natural inputs, whose shares of what is not are `usual`. The generator's state
    is the only randomness.
    """
    reason = ""
    start = generator.get_state()
    for freedom in _LADDER if name != "natural" else _LADDER[:1]:
        generator.set_state(start)
        tensors = probe_inputs(name, natural, generator, freedom)
        try:
            answer = reference(tensors)
        except REFUSALS as error:
            message = str(error).strip().splitlines() or [type(error).__name__]
            reason = f"the reference refuses it: {message[-1]:.200}"
            continue
        if is_as_finite(answer, usual, partial(reference, with_natural_numbers(tensors, natural))):
            return Probe(name, tensors, answer, freedom)
        reason = f"{share_nonfinite(answer):.1%} of the reference's answer is not finite"
    return Dropped(name, reason)


def share_nonfinite(result: Any) -> float:
    """Largest share of NaN and infinite elements in one output of a result tree."""
    return max(shares_nonfinite(result), default=0.0)


def probe_inputs(
    name: str, natural: Tensors, generator: torch.Generator, freedom: Freedom = "any"
) -> dict[str, torch.Tensor]:
    """Every tensor of the probe, in the strides, dtypes and devices of the natural ones."""
    if name == "natural":
        return {key: laid_out_like(tensor, tensor) for key, tensor in natural.items()}
    if name == "one_truth":
        return {
            key: laid_out_like(_of_one_truth(tensor, generator, freedom), tensor)
            for key, tensor in natural.items()
        }
    change = _CHANGES[name]
    return {
        key: laid_out_like(_probed(change, tensor, generator, freedom), tensor)
        for key, tensor in natural.items()
    }


def applies(name: str, tensors: Tensors) -> bool:
    """True where the tensors have what the probe needs (masks to change, for example)."""
    match PROBE[name].needs:
        case "masks":
            return any(_is_mask(tensor) for tensor in tensors.values())
        case "bfloat16":
            return any(tensor.dtype == torch.bfloat16 for tensor in tensors.values())
        case None:
            return True


def _is_mask(tensor: torch.Tensor) -> bool:
    return tensor.dim() > 0 and observe(tensor).kind == "boolean"


def _of_one_truth(
    tensor: torch.Tensor, generator: torch.Generator, freedom: Freedom
) -> torch.Tensor:
    """A mask in which every other row holds one value only; other tensors as they are."""
    if not _is_mask(tensor):
        return tensor
    changed = tensor.detach().clone(memory_format=torch.contiguous_format)
    rows = changed.reshape(-1, changed.shape[-1])
    order = torch.randperm(len(rows), generator=generator, device=generator.device)
    values = _ONE_TRUTH[freedom]
    for place, at in enumerate(order[: max(len(values), len(rows) // 2)].tolist()):
        rows[at] = values[place % len(values)]
    return rows.reshape(tensor.shape)


Change = Callable[[torch.Tensor, float, torch.Generator], torch.Tensor]
"""`(natural values in float32 or wider, their scale, generator) -> probe values`."""


def _probed(
    change: Change, tensor: torch.Tensor, generator: torch.Generator, freedom: Freedom
) -> torch.Tensor:
    domain = observe(tensor)
    if change is _edges and domain.kind == "integer":
        return _at_the_ends(fresh_values(tensor, domain, generator), domain)
    if domain.kind == "boolean" and domain.constant and freedom == "any":
        return fresh_values(tensor, Domain("boolean", density=_UNTOLD_DENSITY), generator)
    if domain.kind not in ("real", "positive", "simplex", "log_simplex"):
        return fresh_values(tensor, domain, generator)
    scale = domain.scale or 1.0
    if tensor.dim() == 0:
        # A 0-d tensor is often a temperature or a step size: keep its sign.
        factor = (standard_normal(tensor, generator) / 2).exp()
        return tensor * factor if domain.scale else standard_normal(tensor, generator)
    if domain.kind in ("simplex", "log_simplex"):
        return on_simplex(change(_wide(torch.zeros_like(tensor)), 1.0, generator), tensor, domain)
    values = change(_wide(tensor), scale, generator)
    if freedom == "range" and not tensor.is_complex():
        inside = torch.sigmoid(values / scale)
        values = domain.low + (domain.high - domain.low) * inside
    elif domain.kind == "positive":
        values = values.abs() + domain.low / 8
    elif freedom != "any" and domain.nonnegative:
        values = values.abs()
    return shaped_like(values, tensor, domain)


def _at_the_ends(values: torch.Tensor, domain: Domain) -> torch.Tensor:
    flat = values.reshape(-1)
    flat[:1], flat[-1:] = int(domain.low), int(domain.high)
    return flat.reshape(values.shape)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    values = tensor.detach()
    if values.is_complex() or values.dtype == torch.float64:
        return values
    return torch.nan_to_num(values.to(torch.float32))


def _row_like(values: torch.Tensor) -> torch.Tensor:
    """One element per row, to draw a number for each row."""
    return values[..., :1]


def _rowaffine(values: torch.Tensor, scale: float, generator: torch.Generator) -> torch.Tensor:
    row = _row_like(values)
    powers = torch.randint(
        -_WIDEST, _WIDEST + 1, row.shape, generator=generator, device=generator.device
    ).to(values.device)
    spread = standard_normal(values, generator) * torch.exp2(powers.to(torch.float32))
    return scale * (spread + 3 * standard_normal(row, generator))


def _onehot(values: torch.Tensor, scale: float, generator: torch.Generator) -> torch.Tensor:
    return _with_spikes(values, scale, _SPIKE * scale, generator)


def _spikes(values: torch.Tensor, scale: float, generator: torch.Generator) -> torch.Tensor:
    return _with_spikes(values, scale, _OVERFLOWING * max(scale, 1.0), generator)


def _with_spikes(
    values: torch.Tensor, scale: float, height: float, generator: torch.Generator
) -> torch.Tensor:
    row = _row_like(values)
    places = _places(row, values.shape[-1], generator)
    spikes = height * (1 + standard_normal(row, generator).abs())
    signs = torch.where(standard_normal(row, generator).real < 0, -1.0, 1.0).reshape(-1)
    # The last element is seen with both signs: a softmax notices only the positive one.
    signs[:2] = torch.tensor([1.0, -1.0])[: signs.numel()]
    spikes = spikes * signs.reshape(row.shape)
    return (scale * standard_normal(values, generator) / 10).scatter(
        -1, places, spikes.to(values.dtype)
    )


def _places(row: torch.Tensor, columns: int, generator: torch.Generator) -> torch.Tensor:
    """A column for each row: any one, but the last in two rows, the first in two, every fourth near the end, two of four
    at the edges of blocks."""
    device = generator.device
    anywhere = torch.randint(columns, (row.numel(),), generator=generator, device=device)
    near_the_end = columns - 1 - anywhere // 16
    at = torch.arange(row.numel(), device=device)
    places = torch.where(at % 4 == 0, near_the_end, anywhere)
    places = torch.where(at % 4 >= 2, _at_edges(row.numel(), columns, generator), places)
    places[:2] = columns - 1
    places[2:4] = 0
    # The largest block that does not hold the whole row ends and the next one begins here.
    whole = 1 << ((columns - 1).bit_length() - 1) if columns > 1 else 0
    places[6:7], places[7:8] = max(0, whole - 1), whole
    return places.reshape(row.shape).to(row.device)


def _at_edges(count: int, columns: int, generator: torch.Generator) -> torch.Tensor:
    """Columns that begin or end a block of some power of two; any where there is no such block."""
    device = generator.device
    drawn = torch.rand((3, count), generator=generator, device=device)
    if columns < 2 * _LEAST_BLOCK:
        return (drawn[0] * columns).long()
    kinds = (columns // _LEAST_BLOCK).bit_length()
    block = _LEAST_BLOCK << (drawn[0] * kinds).long()
    begins = block * (1 + (drawn[1] * torch.div(columns, block, rounding_mode="floor")).long())
    return (begins - (drawn[2] < 0.5).long()).clamp_max(columns - 1)


def _mean100(values: torch.Tensor, scale: float, generator: torch.Generator) -> torch.Tensor:
    row = _row_like(values)
    at = torch.arange(row.numel(), device=row.device).reshape(row.shape)
    # Rows of either sign: what a mask fills in is larger than all of a negative row, and an exponential that counts
    # from there is zero in float32 for each of its numbers, as it is below -104.
    above = at % 2 == int(torch.randint(2, (), generator=generator))
    return scale * (standard_normal(values, generator) + torch.where(above, 100.0, -130.0))


def _large_logits(values: torch.Tensor, scale: float, generator: torch.Generator) -> torch.Tensor:
    return 60 * scale * standard_normal(values, generator)


def _edges(values: torch.Tensor, scale: float, generator: torch.Generator) -> torch.Tensor:
    """Exact zeros of both signs, ties, whole rows of zero or of one value, and denormals."""
    if values.is_complex():
        made = in_each_part(lambda part: _edges(part, scale, generator), values)
        return without_tiny(_on_axes(made, generator))
    rows = values.reshape(-1, values.shape[-1]) if values.dim() else values.reshape(1, 1)
    drawn = scale * standard_normal(rows, generator)
    tied = (2 * drawn / (scale or 1.0)).round() / 2 * scale
    some = torch.rand(rows.shape, generator=generator, device=generator.device).to(rows.device)
    made = torch.where(some < 0.1, 0.0, drawn)
    made = torch.where((some > 0.9) & (some < 0.95), -0.0, made)
    made = torch.where(some > 0.97, 1e-39, made)
    kind = torch.arange(len(rows), device=rows.device).reshape(-1, 1) % 4
    made = torch.where(kind == 1, tied, made)
    order = torch.randperm(len(rows), generator=generator)
    if len(rows) > 3:
        made[order[0]] = 0.0
        # A power of two: its sums are exact in every order, so a correct kernel gets the same result in any order.
        made[order[1]] = 2.0 ** round(math.log2(scale or 1.0))
    return made.reshape(values.shape)


def _on_axes(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Some elements on either axis, from both of its sides: roots and logarithms have a branch cut there."""
    parts = torch.view_as_real(values).clone()
    drawn = torch.rand(parts.shape[:-1], generator=generator, device=generator.device)
    for part, (low, zero) in product((0, 1), ((0.0, 0.0), (0.5, -0.0))):
        begin = low + _ON_AN_AXIS * part
        on = ((drawn >= begin) & (drawn < begin + _ON_AN_AXIS)).to(parts.device)
        parts[..., part] = torch.where(on, zero, parts[..., part])
    return torch.view_as_complex(parts)


_CHANGES: dict[str, Change] = {
    "edges": _edges,
    "rowaffine": _rowaffine,
    "onehot": _onehot,
    "times30": lambda values, scale, generator: values * 30,
    "times1e-3": lambda values, scale, generator: values * 1e-3,
    "mean100": _mean100,
    "large_logits": _large_logits,
    "spikes": _spikes,
    "times1e5": lambda values, scale, generator: values * 1e5,
}
