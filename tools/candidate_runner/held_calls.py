"""A call that is held: what it was given and returned, and what has become of that since."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from kernelagent.tools.calls.same_values import same_values


@dataclass(frozen=True)
class Held:
    """What a call was given and what it returned, alive until later calls have run."""

    output: Any
    arguments: Any
    left: Any
    """Copies of the arguments as the call has left them."""
    mutated: bool
    """The call itself changed its arguments, and the judge has been told."""

    @property
    def bytes(self) -> int:
        parts = (self.output, self.arguments, self.left)
        return sum(t.numel() * t.element_size() for t in tensors_in(parts))

    @property
    def inputs_kept(self) -> bool:
        return same_values(self.left, self.arguments)


def copied(arguments: Any) -> Any:
    """The same nest with tensors and containers of its own; a parameter's copy is one."""
    return tree_map_only(torch.Tensor, _copy, arguments)


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    made = tensor.detach().clone()
    if not isinstance(tensor, torch.nn.Parameter):
        return made
    return torch.nn.Parameter(made, requires_grad=tensor.requires_grad)


def can_take(held: Held, fresh: Any) -> bool:
    olds, news = list(tensors_in(held.arguments)), list(tensors_in(fresh))
    places = [old.untyped_storage().data_ptr() for old in olds]
    outputs = {output.untyped_storage().data_ptr() for output in tensors_in(held.output)}
    return (
        len(set(places)) == len(places)
        and outputs.isdisjoint(places)
        and [_form(old) for old in olds] == [_form(new) for new in news]
        and not any(0 in old.stride() for old in olds)
    )


def _form(tensor: torch.Tensor) -> tuple[Any, ...]:
    place = tensor.storage_offset(), tensor.untyped_storage().nbytes()
    # A parameter that an earlier call was given is none of this one's.
    return type(tensor), tensor.dtype, tensor.shape, tensor.stride(), *place


def gaps_kept(before: Any, after: Any) -> bool:
    """Whether nothing was written between the elements of tensors whose elements are the same.

    Pairs in storages of other sizes or at other offsets are not compared: arguments that were copied into the memory
    of an earlier call's need not be laid out as in `before`.
    """
    return all(
        torch.equal(_whole(left), _whole(right))
        for left, right in zip(tensors_in(before), tensors_in(after), strict=True)
        if right.untyped_storage().nbytes() > right.numel() * right.element_size()
        and _place(left) == _place(right)
    )


def _place(tensor: torch.Tensor) -> tuple[int, int]:
    return int(tensor.storage_offset()), int(tensor.untyped_storage().nbytes())


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    storage = tensor.untyped_storage()
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)
