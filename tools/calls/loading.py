"""The ways in which weights come into a module: as a user's program changes them, and as the emitted module binds them.

The emitted module puts the original's own Parameter objects in the place of the kernels' module's; code that
keeps an earlier object, or anything computed from it, does not notice that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Literal

import torch

Loading = Literal["load", "in place", "in a parent", "bound", "data"]
"""By `load_state_dict`, by `copy_` to each tensor, as a part of a larger module, by other objects, by other `.data`."""
EXCHANGES: tuple[Loading, ...] = ("bound", "data")
"""The ways in which no tensor is written to: others take their places."""
CAME_IN: dict[Loading, str] = {
    "load": "by load_state_dict",
    "in place": "by copy_ to each parameter, as an optimizer's step",
    "in a parent": "by the load_state_dict of a larger module that contains it",
    "bound": "by new Parameter objects, as the emitted module, `m.weight = nn.Parameter(...)` and "
    "load_state_dict(assign=True) do, which may lie at addresses that an earlier module's weights had",
    "data": "by `p.data = ...`, which changes neither the Parameter object nor its version",
}


Memory = Mapping[str, torch.UntypedStorage]
"""By entry of the state: memory that was freed, to be used again."""
NOWHERE: Memory = MappingProxyType({})


def put_in(
    module: torch.nn.Module,
    values: Mapping[str, torch.Tensor],
    how: Loading,
    memory: Memory = NOWHERE,
) -> None:
    """Change the weights; raises what `load_state_dict` raises, or KeyError for one that has no place.

    `memory`: where new Parameter objects ("bound") are to lie, as in a program whose allocator hands out freed
    memory again.
    """
    if how == "in a parent":
        torch.nn.Sequential(module).load_state_dict(
            {f"0.{name}": value for name, value in values.items()}, strict=True
        )
        return
    held = dict(places(module))
    if how == "load" or (how == "in place" and not values.keys() <= held.keys()):
        module.load_state_dict(values, strict=True)
        return
    with torch.no_grad():
        _exchange(held, values, how, memory)


def _exchange(
    held: Mapping[str, tuple[dict[str, Any], str]],
    values: Mapping[str, torch.Tensor],
    how: Loading,
    memory: Memory,
) -> None:
    bound: dict[int, torch.Tensor] = {}
    # They live on until all others have been made, which are therefore at other addresses.
    kept = []
    for name, value in values.items():
        own, last = held[name]
        old = own[last]
        kept.append(old)
        if how == "in place":
            old.copy_(value)
            continue
        new = _laid_out_like(old, memory.get(name) if how == "bound" else None)
        if how == "data":
            kept.append(old.data)
            old.data = new.copy_(value)
            continue
        tied = bound.get(id(old))
        if tied is None or not torch.equal(tied, value):
            # Of version 0, wherever it lies.
            tied = new.copy_(value).data
            if isinstance(old, torch.nn.Parameter):
                tied = torch.nn.Parameter(tied, requires_grad=old.requires_grad)
        own[last] = bound[id(old)] = tied


def _laid_out_like(old: torch.Tensor, storage: torch.UntypedStorage | None) -> torch.Tensor:
    new = torch.empty_strided(old.shape, old.stride(), dtype=old.dtype, device=old.device)
    if storage is None or storage.nbytes() != new.untyped_storage().nbytes():
        return new
    return torch.empty(0, dtype=old.dtype, device=old.device).set_(
        storage, 0, old.shape, old.stride()
    )


@contextmanager
def plain_weights(module: torch.nn.Module) -> Iterator[None]:
    """In it plain tensors are in the places of its parameters, in the same memory."""
    before = [(own, last, own[last]) for _, (own, last) in places(module)]
    try:
        for own, last, old in before:
            if isinstance(old, torch.nn.Parameter):
                own[last] = old.detach()
        yield
    finally:
        for own, last, old in before:
            if isinstance(old, torch.nn.Parameter):
                own[last] = old


def memory_left_by(module: torch.nn.Module) -> dict[str, torch.UntypedStorage]:
    """The memory of its parameters and buffers, to be asked with `is_free` once it is gone."""
    every = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return {name: tensor.untyped_storage() for name, tensor in every.items()}


def is_free(storage: torch.UntypedStorage) -> bool:
    """Whether nobody holds it but whoever asks."""
    return int(torch._C._storage_Use_Count(storage._cdata)) == 1


def unplaced(module: torch.nn.Module) -> list[str]:
    """Entries of the state that are no parameter or buffer of their name: nothing can be bound there."""
    held = dict(places(module))
    return [name for name in module.state_dict() if name not in held]


def state_of(module: torch.nn.Module, how: Loading) -> dict[str, torch.Tensor]:
    """What `state_dict` shows of it, or that of a module around it."""
    if how != "in a parent":
        return {name: tensor.detach() for name, tensor in module.state_dict().items()}
    whole = torch.nn.Sequential(module).state_dict()
    return {name.removeprefix("0."): tensor.detach() for name, tensor in whole.items()}


def places(module: torch.nn.Module) -> Iterator[tuple[str, tuple[dict[str, Any], str]]]:
    """Each parameter and buffer by name, with where it is: a dict, and the name in it."""
    for path, part in torch.nn.Module.named_modules(module, remove_duplicate=False):
        for own in (part._parameters, part._buffers):
            for name, tensor in own.items():
                if tensor is not None:
                    yield f"{path}.{name}".strip("."), (own, name)
