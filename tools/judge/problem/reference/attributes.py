"""What a forward leaves behind besides parameters and saved buffers: attributes, other buffers, globals.

An auxiliary loss, a counter, a registry of metrics: users read them, and the state_dict has none of them.
Values of tensors, numbers and text are followed, alone or in lists and dictionaries; other objects are not.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from kernelagent.tools.calls.same_values import same_values

_OF_EVERY_MODULE = frozenset(vars(torch.nn.Module()))
_PLAIN = (bool, int, float, complex, str, torch.dtype, torch.device, type(None))
GLOBAL = "global "
"""What the name of a variable of the problem's file begins with here."""


@dataclass(frozen=True)
class _Place:
    """Where a value is kept: a dictionary of the module's or of its file, and the key there."""

    holder: dict[str, Any]
    key: str


@dataclass(frozen=True)
class _Kept:
    value: Any
    """The object itself, which is put back."""
    copy: Any
    """The same with tensors and containers of its own, which nobody writes to."""


@dataclass(frozen=True)
class Attributes:
    """What a module held before any call, by name."""

    kept: Mapping[str, _Kept] = field(default_factory=dict)
    others: frozenset[str] = frozenset()
    """Names of what is not followed: objects, and what holds the module's own weights once more.

    `torch.nn.LSTM` keeps its parameters in a list besides; copies in their place would never learn.
    """
    parts: tuple[tuple[torch.nn.Module, Mapping[str, torch.nn.Module | None]], ...] = ()
    """Each module in it, and what it consists of: a forward may put others there, as BigBird's does for short texts."""

    @classmethod
    def of(cls, module: torch.nn.Module) -> Attributes:
        kept: dict[str, _Kept] = {}
        others: set[str] = set()
        held = module.state_dict(keep_vars=True).values()
        state = {_memory(t) for t in held if isinstance(t, torch.Tensor)}
        for name, place in _places(module):
            value = place.holder[place.key]
            if _is_followed(value) and not _holds(value, state):
                kept[name] = _Kept(value, _copied(value))
            else:
                others.add(name)
        parts = tuple((part, dict(part._modules)) for part in module.modules())
        return cls(kept, frozenset(others), parts)

    def was(self, name: str, value: Any) -> bool:
        """Whether it held this under this name."""
        return name in self.kept and same_values(value, self.kept[name].copy)

    def changed(self, module: torch.nn.Module) -> dict[str, Any]:
        """Copies of what a call has left in `module` that was not there before."""
        return {
            name: _copied(value)
            for name, place in _places(module)
            if not self._is_untouched(name, value := place.holder[place.key])
            and name not in self.others
            and _is_followed(value)
            and not self.was(name, value)
        }

    def _is_untouched(self, name: str, value: Any) -> bool:
        """At once, for the many that are numbers and text."""
        return name in self.kept and value is self.kept[name].value and isinstance(value, _PLAIN)

    def restore(self, module: torch.nn.Module) -> None:
        """Put back what was there, and take away what was not."""
        for part, inside in self.parts:
            if part._modules != inside:
                part._modules.clear()
                part._modules.update(inside)
        for name, place in list(_places(module)):
            kept, value = self.kept.get(name), place.holder[place.key]
            if self._is_untouched(name, value):
                continue
            if kept is not None:
                place.holder[place.key] = _refilled(kept)
            elif name not in self.others and _is_followed(value):
                # What is not followed, such as a `forward` of the instance's own, somebody else has put there.
                del place.holder[place.key]


def left_under(module: torch.nn.Module, names: Collection[str]) -> dict[str, Any]:
    """Copies of what `module` holds now under these names."""
    return {
        name: _copied(place.holder[place.key]) for name, place in _places(module) if name in names
    }


def _places(module: torch.nn.Module) -> Iterator[tuple[str, _Place]]:
    for prefix, part in module.named_modules():
        start = f"{prefix}." if prefix else ""
        own = vars(part)
        for key in own.keys() - _OF_EVERY_MODULE:
            yield start + key, _Place(own, key)
        for key in part._non_persistent_buffers_set:
            if key in part._buffers:
                yield start + key, _Place(part._buffers, key)
    file = sys.modules.get(type(module).__module__)
    for key, value in list(vars(file).items()) if file is not None else ():
        if isinstance(value, torch.Tensor | list | dict | int | float) and not key.startswith("__"):
            yield GLOBAL + key, _Place(vars(file), key)


def _is_followed(value: Any) -> bool:
    return all(isinstance(leaf, (torch.Tensor, *_PLAIN)) for leaf in tree_leaves(value))


def _holds(value: Any, memory: Collection[int]) -> bool:
    """Whether a tensor in it lies in one of these."""
    leaves = tree_leaves(value)
    return any(isinstance(leaf, torch.Tensor) and _memory(leaf) in memory for leaf in leaves)


def _memory(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _copied(value: Any) -> Any:
    def copied(leaf: Any) -> Any:
        return leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf

    return tree_map(copied, value)


def _refilled(kept: _Kept) -> Any:
    """The same object with the contents that it had."""
    value = kept.value
    if isinstance(value, torch.Tensor):
        if not same_values(value, kept.copy):
            value.data.copy_(kept.copy)
    elif isinstance(value, dict):
        value.clear()
        value.update(_copied(kept.copy))
    elif isinstance(value, list):
        value[:] = _copied(kept.copy)
    return value
