"""How many terms the longest sum of a reference has, read from the operations that it runs.

Shapes of inputs and outputs do not tell: a softmax adds up rows and returns as many elements as it was given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from kernelagent.tools.calls.complex_numbers import is_inexact

_ATEN = torch.ops.aten
_TO_FEWER = frozenset(
    [
        *(_ATEN.sum, _ATEN.nansum, _ATEN.mean, _ATEN.var, _ATEN.var_mean, _ATEN.std, _ATEN.norm),
        *(_ATEN.linalg_vector_norm, _ATEN.logsumexp, _ATEN.dot),
    ]
)
"""What they return is as many times smaller than what they take as a sum has terms."""
_ALONG = frozenset([_ATEN._softmax, _ATEN._log_softmax, _ATEN.cumsum, _ATEN.logcumsumexp])
"""Their second argument is the dimension that is added up."""
_PRODUCTS = frozenset([_ATEN.mm, _ATEN.bmm, _ATEN.mv, _ATEN.addmm, _ATEN.baddbmm, _ATEN.addmv])
_NORMALIZED = frozenset([_ATEN.native_layer_norm, _ATEN.native_group_norm, _ATEN.native_batch_norm])
"""Their second result is a mean for each sum."""


class SummedTerms(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While entered, notes the longest sum among the operations that run."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.most = 1

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self.most = max(self.most, _terms(func.overloadpacket, args, result))
        return result


def _terms(packet: Any, args: tuple[Any, ...], result: Any) -> int:
    taken = [leaf for leaf in tree_leaves(args) if isinstance(leaf, torch.Tensor)]
    made = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    if not taken or not made or not is_inexact(taken[0]):
        return 1
    if packet in _TO_FEWER:
        return taken[0].numel() // max(1, made[0].numel())
    if packet in _ALONG and taken[0].dim():
        return int(taken[0].shape[args[1]])
    if packet in _PRODUCTS:
        # `addmm` and its like name what is added first.
        return int(taken[-2].shape[-1])
    if packet in _NORMALIZED and len(made) > 1:
        return taken[0].numel() // max(1, made[1].numel())
    if packet is _ATEN.convolution:
        return math.prod(taken[1].shape[1:])
    return 1
