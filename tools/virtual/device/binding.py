"""A launch's arguments as the interpreter takes them: tensors in some memory, numbers, descriptors."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from triton.runtime.jit import JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor

from kernelagent.tools.calls.tensors import dtype_of
from kernelagent.tools.virtual.compiled.compiling import Compiled
from kernelagent.tools.virtual.device.codec import decode, named_tuple
from kernelagent.tools.virtual.device.storages.addresses import Pointee
from kernelagent.tools.virtual.executor.launch import Launch, TensorArgument
from kernelagent.tools.virtual.executor.requests import LaunchRequest, StorageRow
from kernelagent.tools.virtual.interpreter.interpreter import CompiledIn, Scalar


@dataclass(frozen=True)
class Kernel:
    """A compiled specialisation."""

    function: JITFunction[Any]
    signature: Mapping[str, Any]
    """The type of each argument, as Triton spells them; a tuple's as a tuple."""
    constants: Mapping[Any, Any]
    """By place, what was compiled in; an integer argument that is 1 is among them."""
    compiled: Compiled
    needs_hints: Callable[[frozenset[tuple[int, int]]], bool]
    """Whether the machine code would be another without the compiler hints on these lines, for these axes."""


class Bound:
    """A launch's arguments as the interpreter takes them."""

    def __init__(
        self,
        memory_of: Callable[[StorageRow], tuple[Any, int]],
        kernel: Kernel,
        request: LaunchRequest,
    ) -> None:
        self._memory_of = memory_of
        self._kernel = kernel
        self._storages = request.storages
        self._tensors: list[TensorArgument] = []
        self.storages: list[torch.Tensor] = []
        """The bytes of the storage behind each of `record().tensors`."""
        names = kernel.function.arg_names
        self.arguments = {
            name: self._argument(name, (place,), kernel.signature.get(name), reported)
            for place, (name, reported) in enumerate(zip(names, request.args, strict=True))
        }
        self._pointees = tuple(
            self._pointee(f"what a table points at [{at}]", low, body)
            for at, (low, body) in enumerate(request.pointees)
        )

    def record(self, index: int, grid: tuple[int, int, int]) -> Launch:
        compiled, function = self._kernel.compiled, self._kernel.function
        constant = {p.name for p in function.params if p.is_constexpr}
        plain = {
            name: value.value if isinstance(value, Scalar | CompiledIn) else value
            for name, value in self.arguments.items()
        }
        scalars = {n: v for n, v in plain.items() if isinstance(v, int | float)}
        return Launch(
            index=index,
            kernel=compiled.kernel,
            line=compiled.line,
            grid=grid,
            tensors=tuple(self._tensors),
            scalars={n: v for n, v in scalars.items() if n not in constant},
            constexprs={n: v for n, v in plain.items() if n in constant},
            pointees=self._pointees,
            options={k: compiled.metadata[k] for k in ("num_warps", "num_stages", "num_ctas")},
        )

    def _argument(self, name: str, path: tuple[int, ...], kind: Any, encoded: Any) -> Any:
        """What the compiled code finds there: numbers of their types, and what is compiled in."""
        if path in self._kernel.constants:
            value = self._kernel.constants[path]
            return CompiledIn(value) if isinstance(value, int | float) else value
        if isinstance(encoded, dict) and "items" in encoded:
            kinds = kind if isinstance(kind, tuple) else (None,) * len(encoded["items"])
            fields = getattr(kinds, "_fields", None)
            values = [
                self._argument(
                    f"{name}.{fields[i]}" if fields else f"{name}[{i}]", (*path, i), its, item
                )
                for i, (its, item) in enumerate(zip(kinds, encoded["items"], strict=True))
            ]
            return named_tuple(fields)(*values) if fields else tuple(values)
        value = self._made(name, encoded)
        if isinstance(value, int | float) and isinstance(kind, str):
            return Scalar(value, tl.str_to_ty(kind, None))
        return value

    def _made(self, name: str, encoded: Any) -> Any:
        if isinstance(encoded, dict) and "tensor" in encoded:
            tensor = self._tensor(name, encoded["tensor"])
            kind = encoded.get("as")
            return triton.reinterpret(tensor, decode({"dtype": kind}, None)) if kind else tensor
        if isinstance(encoded, dict) and "descriptor" in encoded:
            body = encoded["descriptor"]
            return TensorDescriptor(
                self._tensor(name, body["base"]),
                body["shape"],
                body["strides"],
                body["block_shape"],
                body["padding"],
            )
        return decode(encoded, self._no_function)

    def _pointee(self, name: str, low: int, body: Mapping[str, Any]) -> Pointee:
        self._tensor(name, body)
        item = self._tensors[-1]
        return Pointee(low, low + item.storage_bytes, item.storage_address - low)

    def _no_function(self, name: str, line: int) -> Any:
        for value in self._kernel.constants.values():
            if isinstance(value, JITFunction) and value.fn.__name__ == name:
                return value
        raise KeyError(name)

    def _tensor(self, name: str, body: Mapping[str, Any]) -> torch.Tensor:
        row = self._storages[int(body["storage"])]
        memory, at = self._memory_of(row)
        dtype, size = dtype_of(str(body["dtype"])), row.bytes
        base = ctypes.addressof(ctypes.c_char.from_buffer(memory)) + at
        if size >= dtype.itemsize:
            usable = (size - int(body["offset"])) // dtype.itemsize
            flat = torch.frombuffer(
                memory, dtype=dtype, count=max(usable, 1), offset=at + int(body["offset"])
            )
            tensor = flat.as_strided(body["shape"], body["strides"])
            self.storages.append(torch.frombuffer(memory, dtype=torch.uint8, count=size, offset=at))
        else:
            tensor = torch.empty(body["shape"], dtype=dtype)
            base = tensor.data_ptr()
            self.storages.append(torch.empty(0, dtype=torch.uint8))
        self._tensors.append(
            TensorArgument(
                name=name,
                address=base + int(body["offset"]),
                storage_address=base,
                storage_bytes=size,
                item_bytes=dtype.itemsize,
                dtype=str(body["dtype"]),
                shape=tuple(body["shape"]),
                strides=tuple(body["strides"]),
            )
        )
        return tensor
