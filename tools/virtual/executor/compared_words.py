"""What is said where a compiled kernel does something else than its text as Python does."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelagent.tools.virtual.compiled_ir.comparing import Difference
from kernelagent.tools.virtual.compiled_ir.text import Module
from kernelagent.tools.virtual.device.binding import Kernel
from kernelagent.tools.virtual.executor.launch import Launch, MemoryFault, TensorArgument
from kernelagent.tools.virtual.executor.source import FILE_NAME

_CODE = "compiled_differs"
_WHY = (
    "Triton's compiler reads this text otherwise than Python does, and a GPU runs what the compiler made of it. Write "
    "it so that both agree: no `:=`, no assignments in the `else` of a loop or in a part that only Python reaches, no "
    "name that only a branch or a loop sets and a global has too, helpers of different names, and numbers that an "
    "annotation, a tuple, an `if` or a helper hands on as tensors of a type from the start"
)


def outside(kernel: Kernel, module: Module, location: str) -> MemoryFault:
    """The compiled code reaches out of its tensors."""
    line = _line(module, location)
    return _fault(
        kernel,
        line,
        "the compiled code loads or stores outside every tensor of the launch, and the same text as Python does not",
    )


def differs(
    kernel: Kernel, module: Module, launch: Launch, base: int, difference: Difference
) -> MemoryFault:
    """`base`: where the memory begins that was compared."""
    where = _element(launch, base + difference.place)
    if difference.location is None:
        what = f"the compiled code stores nothing to {where}, and the same text as Python does"
        return _fault(kernel, None, what)
    return _fault(
        kernel,
        _line(module, difference.location),
        f"the compiled code stores {_shown(difference.compiled)} to {where}, and the same text as Python leaves "
        f"{_shown(difference.interpreted)} there",
    )


def rounds(
    kernel: Kernel, module: Module, launch: Launch, base: int, difference: Difference
) -> str:
    """For a difference that may be one of rounding."""
    line = None if difference.location is None else _line(module, difference.location)
    return (
        f"kernel `{kernel.compiled.kernel}`{_at(line)}: the compiled code stores {_shown(difference.compiled)} to "
        f"{_element(launch, base + difference.place)}, and the same text as Python, whose values were judged, leaves "
        f"{_shown(difference.interpreted)} there: a GPU rounds elsewhere"
    )


def _fault(kernel: Kernel, line: int | None, what: str) -> MemoryFault:
    message = f"`{kernel.compiled.kernel}`{_at(line)}: {what}. {_WHY}"
    return MemoryFault(_CODE, message, {} if line is None else {"line": line})


def _element(launch: Launch, address: int) -> str:
    for tensor in launch.tensors:
        end = tensor.storage_address + tensor.storage_bytes
        if tensor.storage_address <= address < end:
            return f"{_index(tensor, address)} of `{tensor.name}`"
    return "memory between the tensors"


def _index(tensor: TensorArgument, address: int) -> str:
    flat = (address - tensor.address) // tensor.item_bytes
    strides: list[int] = []
    count = 1
    for size in reversed(tensor.shape):
        strides.insert(0, count)
        count *= size
    if tuple(strides) == tensor.strides and 0 <= flat < count:
        place = np.unravel_index(flat, tensor.shape)
        return f"element [{', '.join(str(int(at)) for at in place)}]"
    return f"element {flat}, counted from its first,"


def _line(module: Module, location: str) -> int | None:
    """The innermost line of the candidate's own file."""
    lines = [line for file, line in module.callers(location) if file.endswith(FILE_NAME)]
    return lines[0] if lines else None


def _at(line: int | None) -> str:
    return "" if line is None else f" at line {line}"


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
