"""The last section of emitted modules, part 4: whether arguments are like the verified ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from kernelagent.dropin.template.module import _is_traced

    ENVELOPE_VERIFIED: dict[str, Any] = {}


def _looks(values: Any) -> tuple[Any, ...] | None:
    """All that a refusal can depend on, as a key; None where there is no such key."""
    seen: list[Any] = []
    for value in values:
        kind = type(value)
        if kind in _PLAIN_TENSORS:
            try:
                shape, strides, address = value.shape, value.stride(), value.data_ptr()
            except RuntimeError:  # sparse, nested or without storage
                return None
            seen += (value.dtype, value.device, shape, strides, address % _ALIGNMENT)
        elif kind in _EXACT:
            seen += (kind, value)
        elif kind is float:
            seen += (kind, repr(value))
        elif kind in (tuple, list, dict):
            inside = _looks((*value, *value.values()) if kind is dict else value)
            if inside is None:
                return None
            seen += (kind, inside)
        else:
            return None
    return tuple(seen)


def _tensors_in(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in _tensors_in(item)]
    return []


def _arguments_refusal(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, str] | None:
    refusals = []
    for item in ENVELOPE_VERIFIED["input_sets"]:
        refusal = _set_refusal(item, args, kwargs)
        if refusal is None:
            return None
        refusals.append(refusal)
    # The set with the right number of arguments says more than one with another number.
    reason, sentence = min(refusals, key=lambda refusal: refusal[0] == "arguments")
    others = f" (nor do {len(refusals) - 1} other input sets fit)" if len(refusals) > 1 else ""
    return reason, sentence + others


def _set_refusal(
    one: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[str, str] | None:
    named = one.get("kwargs", {})
    if len(args) != len(one["args"]) or kwargs.keys() != named.keys():
        return "arguments", (
            f"{len(args)} arguments by position and {sorted(kwargs)} by name; "
            f"verified: {len(one['args'])} and {sorted(named)}"
        )
    sizes: dict[str, int] = {}
    for index, (value, facts) in enumerate(zip(args, one["args"], strict=True)):
        refusal = _value_refusal(f"argument {index}", value, facts, sizes)
        if refusal is not None:
            return refusal
    for name, facts in named.items():
        refusal = _value_refusal(name, kwargs[name], facts, sizes)
        if refusal is not None:
            return refusal
    return None


def _value_refusal(
    label: str, value: Any, facts: dict[str, Any], sizes: dict[str, int]
) -> tuple[str, str] | None:
    if "literal" in facts:
        if _spelled(value) == facts["literal"]:
            return None
        return "value", f"{label} is {_spelled(value)}, verified: {facts['literal']}"
    for kind in _NESTS:
        if kind.__name__ in facts:
            return _nest_refusal(label, value, kind, facts[kind.__name__], sizes)
    if not isinstance(value, torch.Tensor):
        return "arguments", f"{label} is of type {type(value).__name__}, verified: a tensor"
    refusal = _storage_refusal(label, value, facts["dtype"])
    return refusal or _shape_refusal(label, value, facts, sizes)


def _with_digests(facts: Any, value: Any) -> list[tuple[str, torch.Tensor]]:
    """The digests that were verified, each with the tensor that stands there now."""
    if isinstance(facts, dict) and "values" in facts:
        return [(facts["values"], value)]
    for kind in _NESTS:
        if isinstance(facts, dict) and kind.__name__ in facts:
            inner = facts[kind.__name__]
            keys = list(inner) if kind is dict else range(len(inner))
            return [pair for key in keys for pair in _with_digests(inner[key], value[key])]
    return []


def _digest(tensor: torch.Tensor) -> str:
    import hashlib

    flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return hashlib.sha256(flat.numpy().tobytes()).hexdigest()


def _nest_refusal(
    label: str, value: Any, kind: Any, facts: Any, sizes: dict[str, int]
) -> tuple[str, str] | None:
    if type(value) is not kind or len(value) != len(facts):
        return "arguments", f"{label} is not a {kind.__name__} of {len(facts)}, as verified"
    if kind is dict and value.keys() != facts.keys():
        return "arguments", f"{label} has the keys {sorted(value)}, verified: {sorted(facts)}"
    for key in facts if kind is dict else range(len(facts)):
        refusal = _value_refusal(f"{label}[{key!r}]", value[key], facts[key], sizes)
        if refusal is not None:
            return refusal
    return None


def _storage_refusal(label: str, tensor: torch.Tensor, dtype: str) -> tuple[str, str] | None:
    if type(tensor) not in _PLAIN_TENSORS:
        return "tensor type", f"{label} is a {type(tensor).__name__}, verified: a plain tensor"
    if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_quantized:
        return "tensor type", f"{label} is sparse, nested or quantized, verified: a dense tensor"
    if tensor.dtype is not getattr(torch, dtype):
        return "dtype", f"{label} is {tensor.dtype}, verified: torch.{dtype}"
    types = ENVELOPE_VERIFIED["device_types"]
    if tensor.device.type not in types:
        return "device", f"{label} is on {tensor.device}, verified: {' or '.join(types)}"
    if not _is_traced() and tensor.data_ptr() % _ALIGNMENT:
        return "alignment", f"{label} does not begin at a multiple of {_ALIGNMENT} bytes"
    return None


def _shape_refusal(
    label: str, tensor: torch.Tensor, facts: dict[str, Any], sizes: dict[str, int]
) -> tuple[str, str] | None:
    shape, verified = tuple(tensor.shape), facts["shape"]
    if len(shape) != len(verified):
        return "rank", f"{label} has {len(shape)} dimensions, verified: {len(verified)}"
    if not all(_size_fits(size, rule, sizes) for size, rule in zip(shape, verified, strict=True)):
        return "shape", f"{label} has the shape {shape}, verified: {tuple(verified)}"
    if tensor.is_complex() if _is_traced() else (tensor.is_conj() or tensor.is_neg()):
        return "tensor type", f"{label} is lazily conjugated or negated"
    strides = facts.get("strides")
    if strides is not None and _same_layout(shape, tensor.stride(), strides):
        return None
    if ENVELOPE_VERIFIED["contiguous"] and tensor.is_contiguous():
        return None
    return "strides", f"{label} has the strides {tensor.stride()}, verified: " + (
        f"{tuple(strides)}" if strides is not None else "contiguous"
    )


def _size_fits(size: int, rule: Any, sizes: dict[str, int]) -> bool:
    """`rule`: a number, "any", or a dict of min, max, multiple_of, name (one name, one size)."""
    if isinstance(rule, dict):
        return (
            rule.get("min", 0) <= size <= rule.get("max", size)
            and size % rule.get("multiple_of", 1) == 0
            and sizes.setdefault(rule.get("name", str(id(rule))), size) == size
        )
    return bool(rule == "any" or rule == size)


def _same_layout(shape: Any, one: Any, other: Any) -> bool:
    """Equal strides, but for dimensions of one element, where a stride means nothing."""
    return all(a == b for size, a, b in zip(shape, one, other, strict=True) if size != 1)


def _spelled(value: Any) -> str:
    """`value` as Python text, the same for equal values of one type."""
    if isinstance(value, list | tuple):
        inner = ", ".join(map(_spelled, value))
        if isinstance(value, list):
            return f"[{inner}]"
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_spelled(k)}: {_spelled(v)}" for k, v in value.items()) + "}"
    if isinstance(value, float) and (value != value or value in (float("inf"), -float("inf"))):
        return f"float('{value}')"
    if value is None or isinstance(value, bool | int | float | str | torch.dtype):
        return repr(value)
    if isinstance(value, torch.device):
        return f"torch.device({str(value)!r})"
    name = getattr(value, "__qualname__", "<")
    if "<" not in name:
        return f"{value.__module__}.{name}"
    # Nothing that can be written down tells this value from another: only itself is equal.
    return f"<{type(value).__name__} {id(value):#x}>"


_PLAIN_TENSORS = frozenset({torch.Tensor, torch.nn.Parameter})
_EXACT = frozenset({int, bool, str, type(None), torch.dtype, torch.device})
_ALIGNMENT = 16
_NESTS: tuple[Any, ...] = (list, tuple, dict)
