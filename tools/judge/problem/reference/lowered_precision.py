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
UNITS: Mapping[str, float] = {"high": 2.0**-11, "medium": 2.0**-8}
"""Half a last place of what factors are rounded to, by the precision asked for; one that is cut off loses up to two."""
_Round = Callable[[torch.Tensor], torch.Tensor]
_TF32_MASK = ~0x1FFF
"""A tensor core reads a float32 without its low 13 bits."""


def as_allowed(lowered: dict[str, float]) -> AbstractContextManager[Any]:
    """In it float32 products of torch on the CPU round their factors as the precision in force allows.

    `lowered` is told what was rounded: names of operations, and what a factor of theirs may be off by, of its size.
    On a GPU torch rounds by itself, and is not looked at: every operation that may be is named.
    """
    precision, convolutions = matmul_precision(), convolutions_round()
    if precision == "highest" and not convolutions:
        return nullcontext()
    if torch.cuda._initialized:
        lowered.update(dict.fromkeys(_CONVOLVED, UNITS["high"]) if convolutions else {})
        lowered.update({} if precision == "highest" else dict.fromkeys(_FACTORS, UNITS[precision]))
        return nullcontext()
    return _Lowered(precision, convolutions, lowered)


def convolutions_among(lowered: Mapping[str, float]) -> bool:
    """Whether a convolution is one of what was rounded."""
    return not _CONVOLVED.keys().isdisjoint(lowered)


def factors_of(name: str, args: Sequence[Any]) -> tuple[int, ...]:
    """Places of the factors among an operation's arguments; none of what a GPU always leaves in float32."""
    if name in _CONVOLVED:
        return () if _is_depthwise(name, args) else _CONVOLVED[name]
    return _FACTORS.get(name, ())


class _Lowered(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(
        self,
        precision: MatmulPrecision,
        convolutions: bool,
        lowered: dict[str, float],
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._rounded = {"highest": None, "high": _to_tf32, "medium": _to_bf16}[precision]
        self._precision = precision
        self._convolutions = convolutions
        self._lowered = lowered

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        name = str(func.overloadpacket).partition(".")[2]
        rounded = self._rounding(name)
        places = () if rounded is None else factors_of(name, args)
        if rounded is None or not places or not _is_float32(args[0]):
            return func(*args, **(kwargs or {}))
        self._lowered[name] = UNITS["high" if name in _CONVOLVED else self._precision]
        args = tuple(rounded(value) if at in places else value for at, value in enumerate(args))
        return func(*args, **(kwargs or {}))

    def _rounding(self, name: str) -> _Round | None:
        """How factors of this operation are rounded; None: not at all."""
        if name in _CONVOLVED:
            return _to_tf32 if self._convolutions else None
        return self._rounded if name in _FACTORS else None


def _is_float32(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype == torch.float32


def _is_depthwise(name: str, args: Sequence[Any]) -> bool:
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
