"""Whether a result has the form of the reference's: containers, shapes, types, devices and strides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from kernelagent.domain.evaluation import Disclosure, Reason
from kernelagent.tools.calls.torch_dtypes import name_of

_CONTAINERS = {list: "list", tuple: "tuple", dict: "dict"}


def structure_mismatch(got: Any, want: Any, name: str) -> str | None:
    kind, wanted = _kind(got), _kind(want)
    if kind != wanted:
        return f"{name} is {_article(kind)}; the reference returns {_article(wanted)}"
    if isinstance(want, list | tuple):
        if len(got) != len(want):
            return f"{name} has {len(got)} items; the reference returns {len(want)}"
        pairs = [(f"{name}[{at}]", a, b) for at, (a, b) in enumerate(zip(got, want, strict=True))]
    elif isinstance(want, Mapping):
        if set(got) != set(want):
            return (
                f"{name} has the keys {sorted(map(str, got))}; the reference returns "
                f"{sorted(map(str, want))}"
            )
        pairs = [(f"{name}[{key!r}]", got[key], want[key]) for key in want]
    else:
        return None
    return next(
        (result for label, a, b in pairs if (result := structure_mismatch(a, b, label))), None
    )


def _kind(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return "tensor"
    for container, word in _CONTAINERS.items():
        if isinstance(value, Mapping if container is dict else container):
            return word
    return "None" if value is None else type(value).__name__


def _article(kind: str) -> str:
    return kind if kind == "None" else f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def form_mismatch(name: str, got: Any, want: Any, device: str | None) -> Reason | None:
    if not isinstance(want, torch.Tensor):
        return None
    if got.shape != want.shape:
        shapes = {"got": list(got.shape), "expected": list(want.shape)}
        message = f"{name} has shape {tuple(got.shape)}; the reference's is {tuple(want.shape)}"
        return Reason("wrong_shape", message, {"output": name, **shapes})
    if got.dtype != want.dtype:
        got_dtype, dtype = spelt(got.dtype), spelt(want.dtype)
        message = f"{name} is {got_dtype}; the reference returns {dtype}: cast before returning it"
        detail = {"output": name, "got": got_dtype, "expected": dtype}
        return Reason("wrong_dtype", message, detail)
    lives_on = device or got.device.type
    if lives_on != want.device.type:
        message = f"{name} is on {lives_on}; the reference's is on {want.device.type}"
        detail = {"output": name, "got": lives_on, "expected": want.device.type}
        return Reason("wrong_device", message, detail)
    return None


def spelt(dtype: torch.dtype) -> str:
    return name_of(dtype)


def layout(name: str, got: Any, want: Any) -> Sequence[Disclosure]:
    if not isinstance(want, torch.Tensor) or want.numel() < 2 or got.stride() == want.stride():
        return ()
    message = f"{name} has strides {tuple(got.stride())}, the reference's {tuple(want.stride())}"
    return (Disclosure("layout_differs", message),)
