"""Arguments and results as data: a nest of plain values to JSON plus raw tensor bytes, and back.

Used on both sides of every border that tensors cross. Nothing is pickled; a value without a
spelling here is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

from kernelagent.tools.calls.torch_dtypes import name_of

Spec = Any
_GAPS = 4
_ANY_GAPS = 1 << 30
"""A tensor with gaps is laid out as it was up to this many bytes, or this many times its values'."""
_DEVICE_WORDS = ("cpu", "cuda", "meta")


class NotPortable(Exception):
    """A value that cannot cross between processes as data; the message names it."""


class Malformed(Exception):
    """A description that does not describe anything; whoever sent it broke the protocol."""


def tensors_of(value: Any) -> list[torch.Tensor]:
    """The tensors of a nest."""
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


@dataclass(frozen=True)
class TensorSpec:
    """All that is needed to lay a tensor out again."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    requires_grad: bool = False
    parameter: bool = False
    device: str = "cpu"

    @property
    def bytes(self) -> int:
        """Size of the values sent, without gaps; nothing for a tensor that holds none."""
        if self.device == "meta":
            return 0
        count = 1
        for size in self.shape:
            count *= size
        return count * dtype_of(self.dtype).itemsize


def spec_of(tensor: torch.Tensor) -> TensorSpec:
    return TensorSpec(
        dtype=name_of(tensor.dtype),
        shape=tuple(tensor.shape),
        strides=tuple(tensor.stride()),
        requires_grad=tensor.requires_grad,
        parameter=isinstance(tensor, torch.nn.Parameter),
        device=tensor.device.type,
    )


def dtype_of(name: str) -> torch.dtype:
    result = getattr(torch, name, None)
    if not isinstance(result, torch.dtype):
        raise Malformed(f"{name!r} is not a dtype")
    return result


def pack(value: Any, tensors: list[torch.Tensor]) -> Spec:
    """Describe `value`, appending its tensors to `tensors`; raises `NotPortable`."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return {"float": value.hex()}
        case complex():
            return {"complex": [value.real.hex(), value.imag.hex()]}
        case torch.Tensor():
            tensors.append(value)
            return {"tensor": len(tensors) - 1}
        case torch.Size():
            return {"size": list(value)}
        case list():
            return {"list": [pack(item, tensors) for item in value]}
        case tuple():
            return {"tuple": [pack(item, tensors) for item in value]}
        case Mapping():
            return {"dict": [[pack(k, tensors), pack(v, tensors)] for k, v in value.items()]}
        case torch.dtype():
            return {"dtype": name_of(value)}
        case torch.device():
            return {"device": str(value)}
        case slice():
            return {"slice": [pack(p, tensors) for p in (value.start, value.stop, value.step)]}
    return _pack_by_name(value)


def _pack_by_name(value: Any) -> Spec:
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if module and name and str(module).split(".")[0] == "torch" and "<" not in name:
        return {"torch": f"{module}.{name}"}
    raise NotPortable(
        f"a value of type {type(value).__module__}.{type(value).__qualname__} cannot cross to the "
        f"candidate's process as data"
    )


def unpack(spec: Spec, tensors: Sequence[Any]) -> Any:
    """Inverse of `pack`; raises `Malformed`."""
    if spec is None or isinstance(spec, bool | int | str):
        return spec
    if not isinstance(spec, dict) or len(spec) != 1:
        raise Malformed(f"not a description of a value: {str(spec)[:80]}")
    kind, body = next(iter(spec.items()))
    reader = _READERS.get(kind)
    if reader is None:
        raise Malformed(f"unknown kind of value {kind!r}")
    try:
        return reader(body, tensors)
    except (
        TypeError,
        LookupError,
        ArithmeticError,
        ValueError,
        AttributeError,
        RuntimeError,
    ) as error:
        raise Malformed(f"a {kind} is not well formed: {error}") from error


def _nested(items: Any, tensors: Sequence[Any]) -> Iterator[Any]:
    return (unpack(item, tensors) for item in items)


def _named(name: str, _: Sequence[Any]) -> Any:
    head, *rest = name.split(".")
    if head != "torch":
        raise Malformed(f"{name!r} is not torch's")
    result: Any = torch
    for part in rest:
        result = getattr(result, part)
    if str(getattr(result, "__module__", "")).split(".")[0] != "torch":
        raise Malformed(f"{name!r} is not torch's")
    return result


_READERS: dict[str, Callable[[Any, Sequence[Any]], Any]] = {
    "float": lambda body, _: float.fromhex(body),
    "complex": lambda body, _: complex(*map(float.fromhex, body)),
    "tensor": lambda body, tensors: tensors[body] if body >= 0 else _refuse(body),
    "size": lambda body, _: torch.Size(body),
    "list": lambda body, tensors: list(_nested(body, tensors)),
    "tuple": lambda body, tensors: tuple(_nested(body, tensors)),
    "dict": lambda body, t: {unpack(k, t): unpack(v, t) for k, v in body},
    "dtype": lambda body, _: dtype_of(body),
    "device": lambda body, _: torch.device(body),
    "slice": lambda body, tensors: slice(*_nested(body, tensors)),
    "torch": _named,
}


def _refuse(body: Any) -> Any:
    raise Malformed(f"tensor number {body}")


def raw_bytes(tensor: torch.Tensor) -> memoryview:
    """The values in row-major order, without gaps, on the CPU; no copy where none is needed."""
    if tensor.device.type == "meta":
        return memoryview(b"")
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    if flat.numel() == 0:
        return memoryview(b"")
    if flat.is_conj() or flat.is_neg():
        flat = flat.resolve_conj().resolve_neg()
    return flat.view(torch.uint8).numpy().data.cast("B")


def from_bytes(spec: TensorSpec, values: memoryview, *, device: str = "cpu") -> torch.Tensor:
    """Lay out `values` as `spec` says, strides and expanded dimensions included; owns its memory.

    Strides that would claim far more memory than the values are left out. Raises `Malformed`.
    """
    if values.nbytes != spec.bytes or len(spec.shape) != len(spec.strides):
        raise Malformed(f"{values.nbytes} bytes for a tensor of {spec.bytes}")
    try:
        return _laid_out(spec, values, device)
    except (RuntimeError, ValueError, TypeError, OverflowError) as error:
        raise Malformed(f"no tensor has this description: {str(error)[:200]}") from error


def _laid_out(spec: TensorSpec, values: memoryview, device: str) -> torch.Tensor:
    dtype = dtype_of(spec.dtype)
    if spec.device == "meta":
        return torch.empty_strided(spec.shape, spec.strides, dtype=dtype, device="meta")
    if values.nbytes == 0:
        plain = torch.empty(spec.shape, dtype=dtype, device=device)
    else:
        plain = _own_bytes(values, device).view(dtype).reshape(spec.shape)
    if tuple(plain.stride()) == spec.strides or plain.numel() == 0 or _claims_too_much(spec):
        return plain
    repeated = [
        d for d, (n, s) in enumerate(zip(spec.shape, spec.strides, strict=True)) if s == 0 and n > 1
    ]
    kept = tuple(slice(0, 1) if d in repeated else slice(None) for d in range(plain.dim()))
    base_shape = [1 if d in repeated else n for d, n in enumerate(spec.shape)]
    laid_out = torch.empty_strided(base_shape, spec.strides, dtype=dtype, device=device)
    storage = torch.empty(0, dtype=torch.uint8, device=device).set_(laid_out.untyped_storage())
    # What lies between is the same in every call, and NaN where it is read as numbers.
    storage.fill_(1 if dtype == torch.bool else 0xFF)
    laid_out.copy_(plain[kept])
    return laid_out.expand(spec.shape) if repeated else laid_out


def _own_bytes(values: memoryview, device: str) -> torch.Tensor:
    """A copy of them on the device, made once.

    Torch's memory begins at a multiple of 64 bytes, as on a GPU at one of 512; a received frame's may lie across
    sectors, which would be counted.
    """
    if device != "cpu":
        return torch.frombuffer(values, dtype=torch.uint8).to(device)
    copied = torch.empty(values.nbytes, dtype=torch.uint8)
    copied.numpy()[:] = np.frombuffer(values, dtype=np.uint8)
    return copied


def _claims_too_much(spec: TensorSpec) -> bool:
    reach = sum((n - 1) * s for n, s in zip(spec.shape, spec.strides, strict=True) if n > 0)
    return (reach + 1) * dtype_of(spec.dtype).itemsize > max(_GAPS * spec.bytes, _ANY_GAPS)


def spec_to_data(spec: TensorSpec) -> dict[str, Any]:
    return {
        "dtype": spec.dtype,
        "shape": list(spec.shape),
        "strides": list(spec.strides),
        "requires_grad": spec.requires_grad,
        "parameter": spec.parameter,
        "device": spec.device,
    }


def spec_from_data(data: Any) -> TensorSpec:
    """Raises `Malformed` unless `data` is exactly what `spec_to_data` makes."""
    try:
        spec = TensorSpec(
            dtype=str(data["dtype"]),
            shape=tuple(int(n) for n in data["shape"]),
            strides=tuple(int(n) for n in data["strides"]),
            requires_grad=bool(data["requires_grad"]),
            parameter=bool(data["parameter"]),
            device=str(data["device"]),
        )
    except (TypeError, ValueError, KeyError) as error:
        raise Malformed(f"not a tensor's description: {error}") from error
    if (
        any(n < 0 for n in (*spec.shape, *spec.strides))
        or len(spec.shape) > 64
        or spec.device not in _DEVICE_WORDS
    ):
        raise Malformed(f"not a tensor's description: {data!r:.100}")
    dtype_of(spec.dtype)
    return spec


@dataclass(frozen=True)
class Parcel:
    """A packed value, ready to be sent: header part and payload."""

    header: dict[str, Any]
    payload: tuple[memoryview, ...]

    @property
    def bytes(self) -> int:
        return sum(view.nbytes for view in self.payload)


def parcel(value: Any) -> Parcel:
    """Pack `value` with its tensors' bytes; a tensor that appears twice travels once."""
    result: list[torch.Tensor] = []
    spec = pack(value, result)
    unique: list[torch.Tensor] = []
    places: list[int] = []
    for tensor in result:
        at = next((i for i, other in enumerate(unique) if other is tensor), None)
        if at is None:
            unique.append(tensor)
            at = len(unique) - 1
        places.append(at)
    header = {
        "value": spec,
        "places": places,
        "tensors": [spec_to_data(spec_of(tensor)) for tensor in unique],
    }
    return Parcel(header, tuple(raw_bytes(tensor) for tensor in unique))


def open_parcel(header: Mapping[str, Any], payload: memoryview, *, device: str = "cpu") -> Any:
    """Inverse of `parcel`; raises `Malformed`."""
    try:
        specs = [spec_from_data(data) for data in header["tensors"]]
        places = [int(at) for at in header["places"]]
    except (KeyError, TypeError, ValueError) as error:
        raise Malformed(f"a parcel without its list of tensors: {error}") from error
    made: list[torch.Tensor] = []
    offset = 0
    for spec in specs:
        made.append(from_bytes(spec, payload[offset : offset + spec.bytes], device=device))
        offset += spec.bytes
    if offset != payload.nbytes or any(at < 0 or at >= len(made) for at in places):
        raise Malformed("a parcel whose payload does not fit its list of tensors")
    return unpack(header["value"], [made[at] for at in places])
