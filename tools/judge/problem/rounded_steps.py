"""A float64 forward in which each operation errs by half a unit in the last place of float32.

What changes in the result is what any float32 computation of the same steps may lose, in whatever
order it adds. Known as Monte Carlo arithmetic (D. S. Parker, UCLA CSD-970002, 1997).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from kernelagent.tools.candidate_runner.forbidding import LIGHT

_UNIT = 2.0**-24


class RoundedSteps(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While entered, every finite float64 that an operation computes is moved up or down by one unit.

    `generator` decides which way. Views, copies, allocations and integers stay as they are.
    """

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._generator = generator

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.is_view or str(func.overloadpacket).partition(".")[2] in LIGHT:
            return result
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and leaf.dtype in (torch.float64, torch.complex128):
                self._move(leaf)
        return result

    def _move(self, tensor: torch.Tensor) -> None:
        drawn = torch.randint(
            0, 2, tensor.shape, generator=self._generator, device=self._generator.device
        )
        signs = (2 * drawn - 1).to(device=tensor.device, dtype=torch.float64)
        # Infinity times a factor is itself, and so is zero: masks and exact zeros stay.
        tensor.mul_(1 + _UNIT * signs)
