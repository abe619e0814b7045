"""A module without its forward: what `ModelNew.from_reference(shell)` receives."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from types import SimpleNamespace
from typing import Any, NoReturn

import torch
from torch.utils._pytree import tree_leaves

from kernelagent.tools.calls.tensors import NotPortable, pack

_INTERNAL = frozenset(vars(torch.nn.Module())) | {"training"}


class Shell(torch.nn.Module):
    """Parameters, buffers, attributes and children of a module under their names; it cannot be called.

    Its class is called as the module's is: a candidate may go by the name, and is given the module itself where it is used.
    """

    class_name: str

    def forward(self, *_: Any, **__: Any) -> NoReturn:
        raise RuntimeError(f"this is only the shell of a {self.class_name}: it cannot be called")

    def __getitem__(self, index: int) -> torch.nn.Module:
        return list(self.children())[index]

    def __iter__(self) -> Iterator[torch.nn.Module]:
        return self.children()

    def __len__(self) -> int:
        return len(list(self.children()))

    def __reduce__(self) -> tuple[Any, ...]:
        return _called, (self.class_name,), self.__dict__


@cache
def _kind(name: str) -> type[Shell]:
    return type(name, (Shell,), {"__module__": __name__, "class_name": name})


def _called(name: str) -> Shell:
    """An empty shell of a class of that name, which no import would find."""
    return _kind(name)()


def describe(module: torch.nn.Module) -> dict[str, Any]:
    """A nest of plain values and tensors that `shell_from` builds a shell from."""
    return {
        "class": type(module).__name__,
        "training": module.training,
        "attributes": {
            name: value
            for name, value in vars(module).items()
            if name not in _INTERNAL and _is_portable(value)
        },
        "settings": {
            name: settings
            for name, value in vars(module).items()
            if name not in _INTERNAL
            and not _is_portable(value)
            and (settings := _settings_of(value))
        },
        "parameters": dict(module._parameters),
        "buffers": {
            name: (value, name not in module._non_persistent_buffers_set)
            for name, value in module._buffers.items()
        },
        "children": {
            name: None if child is None else describe(child)
            for name, child in module._modules.items()
        },
    }


def shell_from(description: dict[str, Any]) -> Shell:
    """Build the shell that `describe` wrote down."""
    shell = _called(description["class"])
    shell.training = description["training"]
    for name, value in description["attributes"].items():
        setattr(shell, name, value)
    for name, values in description["settings"].items():
        setattr(shell, name, SimpleNamespace(**values))
    for name, value in description["parameters"].items():
        shell.register_parameter(name, None if value is None else _parameter(value))
    for name, (value, persistent) in description["buffers"].items():
        shell.register_buffer(name, value, persistent=persistent)
    for name, child in description["children"].items():
        shell.add_module(name, None if child is None else shell_from(child))
    return shell


def _parameter(value: torch.Tensor) -> torch.nn.Parameter:
    return torch.nn.Parameter(value, requires_grad=value.requires_grad)


def _settings_of(value: Any) -> dict[str, Any]:
    """The plain attributes of a configuration object, which a shell shows under the same names."""
    if isinstance(value, torch.Tensor | torch.nn.Module | type) or callable(value):
        return {}
    try:
        held = vars(value)
    except TypeError:
        return {}
    return {
        name: item
        for name, item in held.items()
        if not name.startswith("_") and not _holds_tensors(item) and _is_portable(item)
    }


def _holds_tensors(value: Any) -> bool:
    return any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(value))


def _is_portable(value: Any) -> bool:
    if isinstance(value, torch.Tensor | torch.nn.Module):
        return False
    try:
        pack(value, [])
    except NotPortable:
        return False
    return True
