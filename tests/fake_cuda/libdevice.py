"""CUDA's device library for the interpreter, which has none: its functions of floats, by numpy."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

_ONE = {
    "abs": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "fabs": np.abs,
    "fast_expf": np.exp,
    "fast_logf": np.log,
    "floor": np.floor,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "nearbyint": np.rint,
    "rint": np.rint,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
}
_TWO = {
    "atan2": np.arctan2,
    "copysign": np.copysign,
    "div_rn": np.divide,
    "fmod": np.fmod,
    "hypot": np.hypot,
    "pow": np.power,
}
_TRUTHS = {"isinf": np.isinf, "isnan": np.isnan, "signbit": np.signbit}


def is_libdevice(value: Any) -> bool:
    """Whether a kernel knows the device library by this name."""
    return isinstance(value, ModuleType) and value.__name__.endswith(".libdevice")


def interpreted() -> ModuleType:
    """A module with the functions above; whatever else is asked of it is missing."""
    made = ModuleType("fake_cuda_libdevice")
    for name, function in {**_ONE, **_TWO}.items():
        setattr(made, name, _over_tensors(function))
    for name, function in _TRUTHS.items():
        setattr(made, name, _over_tensors(function, truth=True))
    return made


def _over_tensors(function: Callable[..., Any], *, truth: bool = False) -> Callable[..., Any]:
    def called(first: Any, *rest: Any, **_: Any) -> Any:
        import triton.language as tl
        from triton.runtime.interpreter import TensorHandle, interpreter_semantic

        tensors = [interpreter_semantic.to_tensor(item) for item in (first, *rest)]
        tensors = list(tl.core.broadcast(*tensors)) if len(tensors) == 2 else tensors
        kind = tl.int1 if truth else tensors[0].dtype
        with np.errstate(all="ignore"):
            data = np.asarray(function(*(tensor.handle.data for tensor in tensors)))
        data = data.astype(np.bool_ if truth else tensors[0].handle.data.dtype)
        shape = tensors[0].type.shape if tensors[0].type.is_block() else []
        return tl.tensor(TensorHandle(data, kind), tl.block_type(kind, shape) if shape else kind)

    return called
