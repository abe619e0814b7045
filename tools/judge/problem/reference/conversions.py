"""Conversions of floating numbers to integers that cannot hold them: undefined, and another number on a GPU.

`(x * 4096).to(torch.int32)` of 1e6 is -2147483648 on a CPU and 2147483647 on a GPU; so are NaN's.
Inputs that a probe makes must not ask that of a reference that never does it on its own inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_ATEN = torch.ops.aten
_AGREED: dict[torch.dtype, tuple[float, float]] = {
    # Both cut 8 bits out of a wider integer: of 16 bits on a GPU, with 0 the smallest for one without a sign.
    torch.uint8: (-1.0, 2.0**16),
    torch.int8: (-(2.0**15) - 1, 2.0**15),
    torch.int16: (-(2.0**15) - 1, 2.0**15),
    torch.int32: (-(2.0**31) - 1, 2.0**31),
    torch.int64: (-(2.0**63) - 1, 2.0**63),
}
"""By integer: numbers between the two, both excluded, are the same integer everywhere once the fraction is cut off."""


class Undefined(ValueError):
    """What a number becomes is not defined."""


class Conversions(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While entered, conversions of floating numbers to integers are looked at.

    `refuse`: one of a number out of range raises `Undefined`; else `undefined` says that there was one.
    """

    def __init__(self, *, refuse: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._refuse = refuse
        self.seen = False
        """Whether there was any such conversion."""
        self.undefined = False

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        match func.overloadpacket:
            case _ATEN._to_copy:
                self._look(args[0], kwargs.get("dtype"))
            case _ATEN.copy_:
                self._look(args[1], args[0].dtype)
        return func(*args, **kwargs)

    def _look(self, numbers: torch.Tensor, to: torch.dtype | None) -> None:
        if to is None or to not in _AGREED or not numbers.is_floating_point():
            return
        self.seen = True
        low, high = _AGREED[to]
        wide = numbers if numbers.element_size() >= 4 else numbers.to(torch.float32)
        if bool(((wide > low) & (wide < high)).all()):
            return
        self.undefined = True
        if self._refuse:
            raise Undefined(f"it converts numbers that {str(to).partition('.')[2]} cannot hold")


def defined_as_in(natural: Callable[[], Any]) -> AbstractContextManager[Any]:
    """Refuses undefined conversions if a natural call makes conversions, and defined ones alone."""
    looked = Conversions()
    with looked:
        natural()
    return Conversions(refuse=True) if looked.seen and not looked.undefined else nullcontext()
