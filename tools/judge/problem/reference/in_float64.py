"""A module run in float64, casts inside it included."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, Self

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from kernelagent.tools.calls.torch_dtypes import FLOAT_TYPES

_FLOATS = frozenset(FLOAT_TYPES)
_COMPLEX = frozenset((torch.complex32, torch.complex64))
_CASTS = {"float", "half", "bfloat16"}
_OWN = __name__.partition(".")[0] + "."
_COMPLEX_CASTS = {"cfloat", "chalf"}
NO_FLOAT64 = (RuntimeError, TypeError, NotImplementedError)
"""What torch raises for an operation without a float64 path."""


class InFloat64(TorchFunctionMode):
    """Raises every floating type asked for inside a module to float64, the usual one too."""

    def __enter__(self) -> Self:
        self._usual = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        return super().__enter__()  # type: ignore[no-untyped-call, no-any-return]

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)  # type: ignore[no-untyped-call]
        torch.set_default_dtype(self._usual)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name == "view" and _reads_bits(args, kwargs or {}) and not _is_ours(sys._getframe(1)):
            raise NotImplementedError("in float64 a number has other bits, and more of them")
        raised = tuple(_raised(arg) for arg in args)
        named = {key: _raised(value) for key, value in (kwargs or {}).items()}
        if name in _CASTS and args and isinstance(args[0], torch.Tensor):
            return args[0].double()
        if name in _COMPLEX_CASTS and isinstance(args[0], torch.Tensor):
            return args[0].to(torch.complex128)
        return func(*raised, **named)


def _reads_bits(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether memory of whole numbers is taken for fractions, or the other way round."""
    kinds = [value for value in (*args[1:], *kwargs.values()) if isinstance(value, torch.dtype)]
    return bool(kinds) and _is_fraction(kinds[0]) != _is_fraction(args[0].dtype)


def _is_fraction(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex


def _is_ours(frame: FrameType) -> bool:
    """Whether the judge itself looks at bytes, as where it compares or copies."""
    return str(frame.f_globals.get("__name__", "")).startswith(_OWN)


def _raised(value: Any) -> Any:
    if not isinstance(value, torch.dtype):
        return value
    if value in _COMPLEX:
        return torch.complex128
    return torch.float64 if value in _FLOATS else value


def double(value: Any) -> Any:
    return value.to(_raised(value.dtype)) if isinstance(value, torch.Tensor) else value


def typed_as(value: Any, natural: Any) -> Any:
    """A nest with each tensor in the type of the one in its place in another."""
    leaves, form = tree_flatten(value)
    typed = [
        leaf.to(like.dtype) if isinstance(leaf, torch.Tensor) else leaf
        for leaf, like in zip(leaves, tree_leaves(natural), strict=True)
    ]
    return tree_unflatten(typed, form)


def doubled_once(value: Any) -> Any:
    """A nest with its floating tensors in float64; one tensor that stands in it twice stays one."""
    made: dict[int, Any] = {}
    return tree_map(lambda leaf: made.setdefault(id(leaf), double(leaf)), value)
