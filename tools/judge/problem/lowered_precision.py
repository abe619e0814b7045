"""The reference's float32 products as a GPU forms them where the user's file allows less than float32.

`torch.set_float32_matmul_precision("high")` lets a GPU use TF32 (or three bfloat16 products), and
`"medium"` bfloat16; on a CPU torch goes on in float32. What the user allowed belongs into the budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_FACTORS = {
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
_TF32_MASK = ~0x1FFF
"""A tensor core reads a float32 without its low 13 bits."""


def as_allowed() -> AbstractContextManager[Any]:
    """In it float32 products of torch on the CPU round their factors as the precision in force allows."""
    precision = torch.get_float32_matmul_precision()
    if precision == "highest" or torch.cuda._initialized:
        return nullcontext()
    return _Lowered(precision)


class _Lowered(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, precision: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._round = _to_bf16 if precision == "medium" else _to_tf32

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        places = _FACTORS.get(str(func.overloadpacket).partition(".")[2], ())
        if places and isinstance(args[0], torch.Tensor) and args[0].dtype == torch.float32:
            args = tuple(
                self._round(value) if at in places else value for at, value in enumerate(args)
            )
        return func(*args, **(kwargs or {}))


def _to_tf32(values: torch.Tensor) -> torch.Tensor:
    if values.device.type == "meta":
        return values
    bits = values.detach().contiguous().view(torch.int32)
    return (bits & _TF32_MASK).view(torch.float32)


def _to_bf16(values: torch.Tensor) -> torch.Tensor:
    return values.to(torch.bfloat16).to(torch.float32)
