"""Builds a problem's module and inputs without their contents, however many gigabytes they have.

First everything on `meta`. A constructor that asks for values (`.item()`, `.tolist()`) is run again
with small tensors real and large ones on `meta`, and its module moved to `meta` afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from kernelagent.domain.errors import ProblemError

_LARGE_BYTES = 16 << 20
"""A tensor of this size is never given contents."""
_TO_A_DEVICE = frozenset({"cuda", "cpu", "to"})
_SIZES_FIRST = frozenset("rand randn empty zeros ones full".split())
_SIZES_SECOND = frozenset({"randint"})


@dataclass(frozen=True)
class Described:
    """A module and one set of inputs, all of it on `meta`."""

    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


@contextmanager
def without_contents() -> Iterator[None]:
    """In it tensors are made on `meta`, whatever device the code names."""
    with torch.device("meta"), _OnMeta(), torch.no_grad():
        yield


@contextmanager
def _small_ones_real() -> Iterator[None]:
    with torch.device("cpu"), _LargeOnMeta(), torch.no_grad():
        yield


def built(make: Callable[[], torch.nn.Module]) -> torch.nn.Module:
    """The module, on `meta`; raises `ProblemError` when it can be made in neither way."""
    try:
        with without_contents():
            return make()
    except (ProblemError, RuntimeError, NotImplementedError, TypeError, ValueError):
        with _small_ones_real():
            made = make()
    return on_meta(made)


def drawn(make: Callable[[], Any]) -> Any:
    """What an input function returns, its tensors on `meta`; small ones may have been real before."""
    try:
        with without_contents():
            return make()
    except (ProblemError, RuntimeError, NotImplementedError, TypeError, ValueError):
        with _small_ones_real():
            return tree_map(_moved, make())


def on_meta(module: torch.nn.Module) -> torch.nn.Module:
    """The module on `meta`, with the tensors that are plain attributes of it and of its parts."""
    module = module.to("meta")
    for part in module.modules():
        for name, value in list(vars(part).items()):
            if isinstance(value, torch.Tensor):
                setattr(part, name, _moved(value))
    return module


def _moved(value: Any) -> Any:
    return value.to("meta") if isinstance(value, torch.Tensor) else value


class _OnMeta(TorchFunctionMode):
    """Turns every device that is named into `meta`; a move between devices moves nothing."""

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if isinstance(args[0] if args else None, torch.Tensor) and name in _TO_A_DEVICE:
            if name != "to":
                return args[0]
            args = tuple(a for a in args if not _device(a))
            kwargs.pop("device", None)
            if len(args) == 1 and not set(kwargs) & {"dtype", "other", "memory_format"}:
                return args[0]
            return func(*args, **kwargs)
        if kwargs.get("device") is not None:
            kwargs["device"] = torch.device("meta")
        kwargs.pop("pin_memory", None)
        return func(*args, **kwargs)


class _LargeOnMeta(TorchFunctionMode):
    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        first = args[0] if args else None
        if isinstance(first, torch.Tensor) and name in _TO_A_DEVICE:
            args = tuple(a for a in args if not _device(a))
            kwargs.pop("device", None)
            return func(*args, **kwargs) if len(args) > 1 or kwargs else first
        if "device" in kwargs:
            kwargs["device"] = torch.device("cpu")
        if _asked_bytes(name, args, kwargs) >= _LARGE_BYTES:
            kwargs["device"] = torch.device("meta")
        return func(*args, **kwargs)


def _device(value: Any) -> bool:
    if isinstance(value, torch.device):
        return True
    return isinstance(value, str) and value.partition(":")[0] in ("cuda", "cpu", "meta")


def _asked_bytes(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    """Bytes of the tensor that a factory is asked for, 0 for anything else."""
    if name in _SIZES_FIRST:
        sizes = kwargs.get("size", args)
    elif name in _SIZES_SECOND:
        sizes = kwargs.get("size", args[1:])
    else:
        return 0
    flat = [n for n in tree_leaves(sizes) if isinstance(n, int) and not isinstance(n, bool)]
    return 4 * math.prod(flat) if flat else 0
