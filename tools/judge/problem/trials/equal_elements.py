"""Elements made equal to those of another input, of a weight or of a buffer, which draws hardly ever are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice, permutations, product

import torch

from kernelagent.tools.judge.problem.trials.input_domain import Tensors, laid_out_like, observe
from kernelagent.tools.judge.problem.trials.unlike import SIZED, Unlike, some_floating, wide
from kernelagent.tools.judge.problem.trials.unlike_integers import INTEGERS, some_places

_MOST_OTHERS = 2
"""Inputs, weights and buffers whose elements an input is made equal to."""
_EQUAL_EVERY = 5


def equal_elements(
    natural: Tensors, state: Tensors, generator: torch.Generator
) -> Iterator[Unlike]:
    """Each input with some elements as another has them; `state`: the weights and buffers."""
    names = some_floating(natural, generator)
    own = {name: t for name, t in natural.items() if t.is_floating_point() and t.numel()}
    kept = [n for n, t in state.items() if t.is_floating_point() and t.numel() > 1 and n not in own]
    for name in (n for n in names if n in own):
        for other in [*[n for n in own if n != name][:_MOST_OTHERS], *kept[:_MOST_OTHERS]]:
            made_equal = _equal(natural[name], own.get(other, state.get(other)), generator)
            if made_equal is not None:
                yield _with_equals(name, other, natural[name], made_equal)
    whole = [name for name, t in natural.items() if t.dtype in INTEGERS and t.numel()]
    tables = [name for name, t in state.items() if t.dtype in INTEGERS and t.numel() > 1]
    for first, other in chain(
        islice(permutations(whole, 2), _MOST_OTHERS),
        islice(product(whole, tables), _MOST_OTHERS),
    ):
        others = natural[other] if other in natural else state[other]
        equals = _equal_integers(natural[first], others, generator)
        yield _with_equals(first, other, natural[first], equals)


def _with_equals(name: str, other: str, tensor: torch.Tensor, values: torch.Tensor) -> Unlike:
    changed = laid_out_like(values.to(tensor.dtype), tensor)
    held = "has no element that equals one of {other}"
    return Unlike("equal", held, "elements that do", name, {name: changed}, other)


def _equal(
    first: torch.Tensor, other: torch.Tensor | None, generator: torch.Generator
) -> torch.Tensor | None:
    """Elements of the other where it has them beside it, else from anywhere in it; none that `first` never reaches."""
    if other is None or other.dtype != first.dtype or observe(first).kind not in SIZED:
        return None
    seen, values = observe(first), wide(first)
    beside = _beside(values, wide(other), generator)
    places = (torch.rand(first.shape, generator=generator) < 1 / _EQUAL_EVERY).to(first.device)
    places &= (beside >= seen.low) & (beside <= seen.high)
    return torch.where(places, beside, values) if bool(places.any()) else None


def _equal_integers(
    first: torch.Tensor, other: torch.Tensor, generator: torch.Generator
) -> torch.Tensor:
    """Each element of `other` may be one that the reference takes in the place of `first`'s, or it refuses the call."""
    values = first.detach().long()
    beside = _beside(values, other.detach().long(), generator)
    return torch.where(some_places(first, 1 / _EQUAL_EVERY, generator), beside, values)


def _beside(values: torch.Tensor, other: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """The other's elements at the same places, else from anywhere in it."""
    try:
        return other.expand(values.shape)
    except RuntimeError:
        flat = other.reshape(-1)
        at = torch.randint(len(flat), (values.numel(),), generator=generator).to(flat.device)
        return flat[at].reshape(values.shape)
