"""The reference's float32 products as a GPU forms them where torch's settings allow less than float32.

`torch.set_float32_matmul_precision("high")` lets a GPU use TF32 (or three bfloat16 products), and
`"medium"` bfloat16; cuDNN's convolutions may use TF32 unless the user's file says otherwise. On a CPU torch
goes on in float32. What the user allowed belongs into the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernelagent.tools.calls.float32_precision import (
    MatmulPrecision,
    convolutions_round,
    is_depthwise,
    matmul_precision,
)

_FACTORS: Mapping[str, tuple[int, ...]] = {
    "mm": (0, 1),
    "bmm": (0, 1),
    "mv": (0, 1),
    "addmm": (1, 2),
    "addmv": (1, 2),
    "addbmm": (1, 2),
    "baddbmm": (1, 2),
    "_addmm_activation": (1, 2),
}
"""Places of the factors among the arguments."""
_CONVOLVED: Mapping[str, tuple[int, ...]] = {
    "convolution": (0, 1),
    "convolution_backward": (0, 1, 2),
}
"""The same of convolutions; the weight is the last."""
_Round = Callable[[torch.Tensor], torch.Tensor]
_TF32_MASK = ~0x1FFF
"""A tensor core reads a float32 without its low 13 bits."""


def as_allowed(on_convolution: Callable[[], object] = lambda: None) -> AbstractContextManager[Any]:
    """In it float32 products of torch on the CPU round their factors as the precision in force allows.

    `on_convolution` is called where one was rounded.
    """
    precision, convolutions = matmul_precision(), convolutions_round()
    if (precision == "highest" and not convolutions) or torch.cuda._initialized:
        return nullcontext()
    return _Lowered(precision, convolutions, on_convolution)


class _Lowered(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(
        self,
        precision: MatmulPrecision,
        convolutions: bool,
        on_convolution: Callable[[], object],
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._rounded = {"highest": None, "high": _to_tf32, "medium": _to_bf16}[precision]
        self._convolutions = convolutions
        self._on_convolution = on_convolution

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        name = str(func.overloadpacket).partition(".")[2]
        places, rounded = self._of(name, args)
        if rounded is None or not _is_float32(next(iter(args), None)):
            return func(*args, **(kwargs or {}))
        if name in _CONVOLVED:
            self._on_convolution()
        args = tuple(rounded(value) if at in places else value for at, value in enumerate(args))
        return func(*args, **(kwargs or {}))

    def _of(self, name: str, args: tuple[Any, ...]) -> tuple[tuple[int, ...], _Round | None]:
        """Places of the factors, and how they are rounded; None: not at all."""
        if name in _FACTORS:
            return _FACTORS[name], self._rounded
        if name in _CONVOLVED and self._convolutions and not _is_depthwise(name, args):
            return _CONVOLVED[name], _to_tf32
        return (), None


def _is_float32(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype == torch.float32


def _is_depthwise(name: str, args: tuple[Any, ...]) -> bool:
    first = 0 if name == "convolution" else 1
    transposed, groups = args[6 if first == 0 else 7], args[-1] if first == 0 else args[9]
    return is_depthwise(args[first].shape[1], groups, transposed=transposed)


def _to_tf32(values: torch.Tensor) -> torch.Tensor:
    if values.device.type == "meta":
        return values
    bits = values.detach().view(torch.int32)
    return (bits & _TF32_MASK).view(torch.float32)


def _to_bf16(values: torch.Tensor) -> torch.Tensor:
    return values.to(torch.bfloat16).to(torch.float32)
