"""torch's writes into a tensor whose elements share memory: one after the other on a CPU, at the same time on a GPU.

torch itself refuses them where a stride is 0 only (ATen/MemoryOverlap.cpp, `has_internal_overlap`: other strides are
"too hard"), on both kinds of device.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

_IN_PLACE = re.compile(r"__i(add|sub|mul|truediv|floordiv|mod|pow|and|or|xor|lshift|rshift)__")
_NOTHING_WRITTEN = frozenset(
    """requires_grad_ detach_ t_ transpose_ squeeze_ unsqueeze_ swapdims_ swapaxes_ as_strided_ resize_ resize_as_ set_
    rename_ share_memory_ fill_ zero_""".split()
)
"""In-place operations that change no elements, or give all of them one value."""
_ASSIGNING = ("copy_", "__setitem__")
_MOST_COUNTED = 1 << 24
_NO_OVERLAP = 0


class WritesOverlap(RuntimeError):
    """Several elements of what is written lie in one place: which of them stays is not defined on a GPU."""

    code = "data_race"

    def __init__(self, name: str, tensor: torch.Tensor) -> None:
        super().__init__(
            f"torch's {name} writes into a tensor of shape {list(tensor.shape)} with strides {list(tensor.stride())}, "
            f"whose elements share memory: a GPU writes them at the same time, and which stays is not defined; "
            f"write into a tensor of its own, and add up with index_add_ or in a kernel"
        )
        self.detail: dict[str, Any] = {"operation": name}


def require_no_overlap(
    name: str, args: tuple[Any, ...], named: Mapping[str, Any], function: Callable[..., Any]
) -> None:
    """Raises `WritesOverlap` before the operation, unless all that it writes in one place is equal."""
    name = name.partition(".")[0]
    if "out" in named:
        written = named["out"]
    elif name == "__setitem__" or (name[-1:] == "_" and _writes(name)):
        written = args[0] if args else None
    else:
        return
    for target in _tensors(written):
        if not _overlaps(target):
            continue
        assigned = name in _ASSIGNING and written is target
        # Of an assignment to elements these are compared alone.
        key = args[1] if name == "__setitem__" and len(args) > 1 else ...
        if not (assigned and _agrees(target, args, named, function, key)):
            raise WritesOverlap(name, target)


def _writes(name: str) -> bool:
    if name.startswith("__"):
        return _IN_PLACE.fullmatch(name) is not None
    return name not in _NOTHING_WRITTEN


def _tensors(written: Any) -> Iterator[torch.Tensor]:
    if isinstance(written, torch.Tensor):
        if written.layout is torch.strided and written.device.type == "cpu":
            yield written
    elif isinstance(written, list | tuple):
        for item in written:
            yield from _tensors(item)


def _overlaps(tensor: torch.Tensor) -> bool:
    """Whether two elements lie in one place."""
    if torch._debug_has_internal_overlap(tensor) == _NO_OVERLAP or not tensor.numel():
        return False
    reach = 0
    axes = zip(tensor.stride(), tensor.shape, strict=True)
    for stride, size in sorted(axis for axis in axes if axis[1] > 1):
        if stride <= reach:
            break
        reach += stride * (size - 1)
    else:
        return False
    if tensor.numel() > _MOST_COUNTED:
        return True
    places = _places(tensor)
    return bool(np.unique(places).size < places.size)


def _places(tensor: torch.Tensor) -> Any:
    """Where each element lies in the storage."""
    places = np.zeros((), np.int64)
    for stride, size in zip(tensor.stride(), tensor.shape, strict=True):
        places = places[..., None] + np.arange(size) * stride
    return places.reshape(-1)


def _agrees(
    target: torch.Tensor,
    args: tuple[Any, ...],
    named: Mapping[str, Any],
    function: Callable[..., Any],
    key: Any,
) -> bool:
    """Whether an assignment, tried on copies, leaves every element as it was given."""
    whole = torch.empty(0, dtype=target.dtype).set_(target.untyped_storage()).clone()
    layout = (target.shape, target.stride(), target.storage_offset())
    shared, own = whole.as_strided(*layout), target.detach().clone()
    given = tuple(item.detach() if isinstance(item, torch.Tensor) else item for item in args[1:])
    with torch.no_grad():
        function(shared, *given, **named)
        function(own, *given, **named)
    return _bytes(shared[key]) == _bytes(own[key])


def _bytes(tensor: torch.Tensor) -> bytes:
    # By bits: NaN is what it was.
    values = tensor.contiguous().reshape(-1)
    return values.view(torch.uint8).numpy().tobytes()
