"""The reverse knock-out: a forward in which torch may allocate, copy and view, and compute nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from kernelagent.tools.calls.higher_order import by_its_own_code, is_higher_order
from kernelagent.tools.candidate_runner.candidate import CandidateFailure

LIGHT = frozenset(
    """empty empty_like empty_strided new_empty new_empty_strided zeros zeros_like new_zeros ones
    ones_like new_ones full full_like new_full fill fill_ zero_ scalar_tensor arange
    clone copy copy_ _to_copy lift lift_fresh lift_fresh_copy detach contiguous
    view _unsafe_view _reshape_alias resize_ set_ is_same_size _local_scalar_dense item
    record_stream""".split()
)
"""Operations that bring memory, constants and copies of what is there, besides views."""


class Forbidding(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While entered, an operation that computes ends the forward with `kernel_not_contributing`."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if is_higher_order(func):
            return by_its_own_code(self, func, args, kwargs)
        name = str(func.overloadpacket).partition(".")[2]
        if not func.is_view and name not in LIGHT and func.namespace in {"aten", "prims"}:
            raise CandidateFailure(
                "kernel_not_contributing",
                f"the policy pure leaves nothing but Triton to compute; torch still runs {name}",
                {"torch": [name]},
            )
        return func(*args, **(kwargs or {}))
