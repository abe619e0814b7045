"""What objects of other packages' classes hold, as a key/value cache among a model's arguments and outputs does.

Two such objects are never equal, even where all they hold is, and a call may write into one: they are compared by
what is in them, and copied before each call.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MemberDescriptorType
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves, tree_map

from kernelagent.tools.judge.problem.reference.copies import copied

_VALUES = (
    bool | int | float | complex | str | bytes | range | slice | Enum | type
    | FunctionType | BuiltinFunctionType
    | torch.dtype | torch.device | torch.layout | torch.memory_format | None
)  # fmt: skip
_NUMBERS = "biufc"
"""Kinds of numpy's arrays that torch has as well."""
_CLASS = "(class)"
"""Where the class of an object stands in the nest of what it holds; no attribute has such a name."""
Of = Callable[[torch.Tensor], torch.Tensor]


class NotCopied(Exception):
    """An object that cannot be copied; the message says which and why."""


@dataclass
class Opened:
    """A result as a nest of tensors and plain values."""

    nest: Any = None
    foreign: list[str] = field(default_factory=list)
    """Where objects of other packages' classes stand in it."""
    left_out: list[str] = field(default_factory=list)
    """What cannot be looked into, with its class."""


def opened(result: Any) -> Opened:
    """In the place of each object of another package's class, a copy of what it holds, attribute by attribute."""
    made = Opened()
    made.nest = _nest(result, "output", made, {})
    return made


def _nest(value: Any, name: str, made: Opened, above: Mapping[int, str]) -> Any:
    if isinstance(value, torch.Tensor | _VALUES):
        return value
    if id(value) in above:
        return f"(the same as {above[id(value)]})"
    above = {**above, id(value): name}
    if isinstance(value, Mapping):
        return {key: _nest(item, f"{name}[{key!r}]", made, above) for key, item in value.items()}
    if isinstance(value, Sequence):
        items = [_nest(item, f"{name}[{at}]", made, above) for at, item in enumerate(value)]
        return tuple(items) if isinstance(value, tuple) else items
    return _foreign(value, name, made, above)


def _foreign(value: Any, name: str, made: Opened, above: Mapping[int, str]) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind in _NUMBERS:
        return torch.from_numpy(value.copy())
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, AbstractSet) and all(isinstance(item, _VALUES) for item in value):
        return frozenset(value)
    kind = _class_of(value)
    holds = attributes(value)
    if holds is None or isinstance(value, torch.nn.Module):
        made.left_out.append(f"{name} ({kind})")
        return f"({kind}, not looked into)"
    made.foreign.append(name)
    inside = {key: _nest(item, f"{name}[{key!r}]", made, above) for key, item in holds.items()}
    # Copied: another run of the model may write into the very same object.
    return copied({_CLASS: kind, **inside})


def attributes(thing: Any) -> dict[str, Any] | None:
    """An object's attributes, those in slots too; None where its class keeps none that Python could read."""
    slots = {
        name: member
        for kind in reversed(type(thing).__mro__)
        for name, member in vars(kind).items()
        if isinstance(member, MemberDescriptorType)
    }
    own = getattr(thing, "__dict__", None)
    if own is None and not slots:
        return None
    found = {}
    for name, member in slots.items():
        try:
            found[name] = member.__get__(thing)
        except AttributeError:
            continue  # A slot that nothing was put into.
    return {**found, **(own or {})}


def is_foreign(leaf: Any) -> bool:
    """Whether a leaf of a nest is an object of another class than tensors' and plain values'."""
    return not isinstance(leaf, torch.Tensor | _VALUES)


def mapped(nest: Any, of: Of, inside: Of | None = None) -> Any:
    """A copy of a nest whose tensors are `of(tensor)`; within objects of other classes `inside(tensor)`, if given.

    Raises `NotCopied`.
    """
    memo: dict[int, Any] = {}

    def made(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return memo.setdefault(id(leaf), of(leaf))
        return _copied(leaf, inside or of, memo) if is_foreign(leaf) else leaf

    return tree_map(made, nest)


def _copied(thing: Any, of: Of, memo: dict[int, Any]) -> Any:
    for held in _held(thing, set()):
        # A module that an object points to is the model's own.
        if id(held) not in memo:
            memo[id(held)] = of(held) if isinstance(held, torch.Tensor) else held
    try:
        return copy.deepcopy(thing, memo)
    except Exception as error:  # copying runs the class's own code
        first = (str(error).splitlines() or [""])[0][:200]
        raise NotCopied(
            f"its {type(thing).__name__} cannot be copied ({type(error).__name__}: {first})"
        ) from error


def _held(value: Any, seen: set[int]) -> Iterator[torch.Tensor | torch.nn.Module]:
    """The tensors and modules that an object holds, at any depth."""
    if isinstance(value, torch.Tensor | torch.nn.Module):
        yield value
        return
    if isinstance(value, _VALUES) or id(value) in seen:
        return
    seen.add(id(value))
    inside: list[Any] = list((attributes(value) or {}).values())
    if isinstance(value, Mapping):
        inside += value.values()
    elif isinstance(value, Sequence | AbstractSet):
        inside += value
    for item in inside:
        yield from _held(item, seen)


def holds_foreign(nest: Any) -> bool:
    """Whether any leaf of it is an object that a call may write into."""
    return any(is_foreign(leaf) for leaf in tree_leaves(nest))


def _class_of(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"
