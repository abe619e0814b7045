"""Large tensors that hold nothing, for code that is only traced: the author never needs their values.

Unlike meta tensors they lie on the CPU, so that the compiler writes the program it would write for
real ones; small tensors are real, because tables of constants are written into the candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from kernelagent.tools.virtual.device.storages.hollow import AliasedRange

_LARGE = 1 << 22
"""Tensors with at least this many elements are created without contents."""
_FACTORIES = frozenset(
    "rand randn randint empty zeros ones full normal arange linspace randperm eye".split()
)


_KEPT = frozenset({"requires_grad_", "detach", "as_subclass", "cpu", "to", "numel", "size"})
"""Methods that run on the tensor itself: they allocate nothing when they have nothing to change."""


class HollowTensors(TorchFunctionMode):
    """Active around a constructor or input function; keeps the address ranges it reserved alive."""

    def __init__(self) -> None:
        super().__init__()
        self._ranges: list[AliasedRange] = []

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = dict(kwargs or {})
        given = [leaf for leaf in tree_leaves((args, named)) if isinstance(leaf, torch.Tensor)]
        name = str(getattr(func, "__name__", ""))
        if any(t.numel() >= _LARGE for t in given):
            return self._of_large(func, name, args, named)
        if name in _FACTORIES:
            form = func(*args, **{**named, "device": "meta"})
            if form.numel() >= _LARGE:
                return self._hollow(form)
        return func(*args, **named)

    def _of_large(
        self, func: Callable[..., Any], name: str, args: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        first = args[0] if args else None
        in_place = name.endswith("_") and not name.endswith("__") and name not in _KEPT
        if in_place and isinstance(first, torch.Tensor) and first.numel() >= _LARGE:
            # It would fill what is never read.
            return first
        if name.startswith("__") or name in _KEPT:
            return func(*args, **named)
        made = func(*tree_map(_on_meta, args), **tree_map(_on_meta, named))
        return tree_map(self._hollow_or_itself, made)

    def _hollow_or_itself(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.device.type != "meta":
            return value
        return self._hollow(value) if value.numel() else torch.empty(value.shape, dtype=value.dtype)

    def _hollow(self, form: torch.Tensor) -> torch.Tensor:
        steps = zip(form.shape, form.stride(), strict=True)
        count = sum((size - 1) * step for size, step in steps) + 1
        self._ranges.append(AliasedRange(count * form.element_size()))
        flat = torch.frombuffer(self._ranges[-1].memory, dtype=form.dtype, count=count)
        return flat.as_strided(form.shape, form.stride()).requires_grad_(form.requires_grad)


def _on_meta(value: Any) -> Any:
    return value.to("meta") if isinstance(value, torch.Tensor) else value
