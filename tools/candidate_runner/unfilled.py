"""Constructing as the emitted module does: parameters are left unfilled until the original's take their places."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

FILLING = ("normal_", "uniform_", "fill_", "zero_", "bernoulli_", "erfinv_", "copy_")
"""Methods that the emitted module's drop-in leaves out on parameters; `torch.nn.init`'s functions as well."""
_UNFILLED = (
    "the emitted module leaves parameters unfilled while it constructs ModelNew, until the original's take "
    "their places: nothing may be taken from their values in the constructor"
)
_OF_EVERY_MODULE = frozenset(vars(torch.nn.Module()))
_FILLS = frozenset(getattr(torch.Tensor, name) for name in FILLING)


class Unfilled(TorchFunctionMode):
    """In it nothing fills a new parameter, as in the constructor that `optimized` calls.

    There it holds what its memory held before: here NaN, so that whatever is computed from it shows.
    """

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        target = args[0] if args else (kwargs or {}).get("tensor")
        fills = function in _FILLS or getattr(function, "__module__", None) == "torch.nn.init"
        if not (fills and isinstance(target, torch.nn.Parameter)):
            return function(*args, **(kwargs or {}))
        if _may_be_nan(target):
            target.data.fill_(math.nan)
        return target


@dataclass
class TakenFromParameters(Exception):
    """The constructor needs what new parameters hold; it ends an evaluation as the candidate's own failure does."""

    message: str
    code: str = "init_error"
    detail: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.message


def as_emitted(make: Callable[[], torch.nn.Module]) -> tuple[torch.nn.Module, torch.nn.Module]:
    """An instance built as the emitted module builds it, then one built as usual.

    In this order: what the file keeps of its first instance, it keeps there of one that is unfilled.
    Raises `TakenFromParameters`, or what `make` raises as usual.
    """
    unfilled, why = None, ""
    try:
        with Unfilled():
            unfilled = make()
    except Exception as error:  # noqa: BLE001 - the candidate's constructor may raise anything
        why = f"{type(error).__name__}: {error}"
    usual = make()
    if unfilled is None:
        raise TakenFromParameters(f"the constructor raised {why[:300]} ({_UNFILLED})")
    if taken := _taken(unfilled, usual):
        raise TakenFromParameters(
            f"the constructor computes {', '.join(taken)} from its parameters ({_UNFILLED}); compute it in the forward"
        )
    return unfilled, usual


def _taken(unfilled: torch.nn.Module, filled: torch.nn.Module) -> list[str]:
    """What the constructor computed from its parameters, by name: it holds NaN where these are unfilled alone."""
    whole = dict(_held(filled))
    return [
        name
        for name, value in _held(unfilled)
        if name in whole and _has_nan(value) and not _has_nan(whole[name])
    ]


def _held(module: torch.nn.Module) -> Iterator[tuple[str, Any]]:
    """Attributes and unsaved buffers, besides what is the module's state."""
    state = {id(tensor) for tensor in module.state_dict(keep_vars=True).values()}
    for path, part in module.named_modules():
        own = {n: v for n, v in vars(part).items() if n not in _OF_EVERY_MODULE}
        for name, value in (*own.items(), *part._buffers.items()):
            if not any(id(leaf) in state for leaf in tree_leaves(value)):
                yield ".".join(filter(None, (path, name))), value


def _has_nan(value: Any) -> bool:
    leaves = tree_leaves(value)
    numbers = any(leaf != leaf for leaf in leaves if isinstance(leaf, float))
    tensors = (leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and _may_be_nan(leaf))
    return numbers or any(bool(tensor.isnan().any()) for tensor in tensors)


def _may_be_nan(tensor: torch.Tensor) -> bool:
    """Whether torch can tell: not of the narrowest types."""
    dense = tensor.layout is torch.strided and not tensor.is_meta
    return dense and tensor.is_floating_point() and tensor.element_size() > 1
