"""The same reductions, scans and mapped functions on tensors that hold an axis for the programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as stock

from kernelagent.tools.virtual.arithmetic.elementwise import make
from kernelagent.tools.virtual.arithmetic.numerics import Array
from kernelagent.tools.virtual.arithmetic.reductions import Reduction, Scan
from kernelagent.tools.virtual.batched.accesses import NotBatchable
from kernelagent.tools.virtual.interpreter.mapping import Mapped

Tensor = Any


class _Together:
    def lifted(self, tensor: Tensor) -> Array:
        held: Array = tensor.handle.data
        return held

    def lowered(self, data: Array, kind: Any) -> Tensor:
        held = np.asarray(data).astype(stock._get_np_dtype(kind), copy=False)
        shaped = tl.block_type(kind, list(held.shape[1:])) if held.ndim > 1 else kind
        return tl.core.tensor(make(held, kind.scalar), shaped)

    def one_by_one(self, slow: Callable[[], Any]) -> Any:
        raise NotBatchable("a combine function branches on scalar values", always=True)


class BatchedReduction(_Together, Reduction):
    """One `tl.reduce` of many programs."""


class BatchedScan(_Together, Scan):
    """One `tl.associative_scan` of many programs."""


class BatchedMapped(Mapped):
    """One `tl.map_elementwise`, left to programs that run one by one."""

    def of(self, given: Sequence[Any]) -> Any:
        """Raises `NotBatchable`."""
        raise NotBatchable("a function decides on single elements", always=True)
