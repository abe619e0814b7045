"""Sizes that a program leaves open: those declared dynamic, else the first axes of the first input.

A program is traced at the given sizes and must hold at others too, one larger where a size is open.
Which sizes change together is known from the declaration, or by asking the module with tensors that
have shapes alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_flatten, tree_unflatten

from kernelagent.models.compiler.capturing.capture import Smaller
from kernelagent.models.compiler.capturing.recurrent import as_recurrences

Places = Sequence[tuple[int, int]]
"""Tensors, by their number among those of the arguments, and their axes, of one size."""

_AXES = (0, 1)
"""Batches and sequences: what changes from call to call where nothing is declared."""
_LEAST_RANK = (1, 3)
"""Rows and features alone: the second axis of a matrix is its features."""


def at_other_sizes(given: Smaller, every: Sequence[Places]) -> Smaller:
    """The call with each of these sizes open: one larger where it is not another anyway."""
    leaves, spec = tree_flatten((tuple(given.args), dict(given.kwargs)))
    at = [n for n, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    for places in every:
        for tensor, axis in places:
            leaves[at[tensor]] = _longer(leaves[at[tensor]], axis)
    args, kwargs = tree_unflatten(leaves, spec)
    return Smaller(given.module, args, kwargs, grows=True)


def first_axes(
    module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[Places]:
    """The first axes of the first input that the module takes at another size, with what else changes."""
    given = Smaller(module, args, kwargs)
    tensors = [
        v for v in tree_flatten((tuple(args), dict(kwargs)))[0] if isinstance(v, torch.Tensor)
    ]
    result: list[Places] = []
    for axis, rank in zip(_AXES, _LEAST_RANK, strict=True):
        if not tensors or tensors[0].dim() < rank or tensors[0].shape[axis] < 2:
            continue
        taken = {place for places in result for place in places}
        for places in _changing_with(axis, tensors, taken):
            if _accepts(at_other_sizes(given, [*result, places])):
                result.append(places)
                break
    return result


def _changing_with(
    axis: int, tensors: Sequence[torch.Tensor], taken: set[tuple[int, int]]
) -> Iterator[Places]:
    """Guesses at which axes change together with `axis` of the first input, in the order to try them.

    That axis of every input where it has the same size; that of the first input alone; every axis with that size.
    """
    size = tensors[0].shape[axis]
    places = [
        (number, at)
        for number, tensor in enumerate(tensors)
        for at in range(tensor.dim())
        if tensor.shape[at] == size and (number, at) not in taken
    ]
    same = tuple(place for place in places if place[1] == axis)
    yield from dict.fromkeys((same, ((0, axis),), tuple(places)))


def _longer(tensor: torch.Tensor, axis: int) -> torch.Tensor:
    shape = list(tensor.shape)
    shape[axis] += 1
    return torch.empty(shape, dtype=tensor.dtype, device="meta")


def _accepts(call: Smaller) -> bool:
    """Whether the module runs on tensors of these shapes without contents."""
    leaves, spec = tree_flatten((tuple(call.args), dict(call.kwargs)))
    with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True) as mode, as_recurrences():
        fake = [_fake(mode, leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        args, kwargs = tree_unflatten(fake, spec)
        try:
            call.module(*args, **kwargs)
        except Exception:  # noqa: BLE001 - the user's forward raises anything where it does not take a size
            return False
    return True


def _fake(mode: FakeTensorMode, tensor: torch.Tensor) -> torch.Tensor:
    if tensor.device.type == "meta":
        return torch.empty(tensor.shape, dtype=tensor.dtype)
    return mode.from_tensor(tensor)
