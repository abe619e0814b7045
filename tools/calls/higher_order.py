"""Operators of torch that take functions or kernels, as `torch.library.wrap_triton` makes one, under a mode of ours.

Torch refuses them under a mode that does not say what it does with them. Nothing is known of one but what its own code
calls, so that code is run with the mode still entered: all that it asks of torch comes by there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode

_OWN = torch._C.DispatchKey.CompositeExplicitAutograd


def is_higher_order(function: Any) -> bool:
    """Whether a mode was asked about such an operator, which has neither overloads nor a schema."""
    return isinstance(function, HigherOrderOperator)


def by_its_own_code(
    mode: TorchDispatchMode,
    operator: HigherOrderOperator,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None,
) -> Any:
    """What the operator makes; raises NotImplementedError where torch has no code of its own for it."""
    code = operator.py_kernels.get(_OWN)
    if code is None:
        name = operator.name()  # type: ignore[no-untyped-call]
        raise NotImplementedError(f"{name} cannot be run while its operations are watched")
    with still_entered(mode):
        return code(*args, **(kwargs or {}))


@contextmanager
def still_entered(mode: TorchDispatchMode) -> Iterator[None]:
    """Within what a mode does with one operation others come by it, too; what it begins and ends with is not begun again."""
    TorchDispatchMode.__enter__(mode)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        TorchDispatchMode.__exit__(mode, None, None, None)  # type: ignore[no-untyped-call]
