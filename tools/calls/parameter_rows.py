"""What is told of a module's parameters and buffers, by the process that holds them."""

from __future__ import annotations

from typing import Any

import torch

from kernelagent.tools.calls.complex_numbers import is_inexact, parts_first
from kernelagent.tools.calls.loading import unplaced
from kernelagent.tools.calls.torch_dtypes import name_of

_MOST = 1 << 12
"""So many elements say how a parameter is spread."""


def rows_of(module: torch.nn.Module) -> list[dict[str, Any]]:
    """A row for each entry of its state, in their order; parameters first, in that of `parameters()`."""
    nowhere = unplaced(module)
    parameters = dict(module.named_parameters(remove_duplicate=False))
    state = module.state_dict()
    names = [*(name for name in parameters if name in state)]
    return [
        {
            "name": name,
            "dtype": name_of(state[name].dtype),
            "shape": list(state[name].shape),
            "placed": name not in nowhere,
            "parameter": name in parameters,
            "learns": name in parameters and parameters[name].requires_grad,
            "spread": spread_of(state[name]) if name in parameters else None,
        }
        for name in [*names, *(name for name in state if name not in parameters)]
    ]


def spread_of(tensor: torch.Tensor) -> tuple[float, float] | None:
    """Mean and standard deviation of the first elements; None where there is nothing to say it of."""
    if not is_inexact(tensor) or tensor.device.type == "meta" or tensor.numel() < 2:
        return None
    some = parts_first(tensor.detach().reshape(-1)[:_MOST]).double()
    return float(some.mean()), float(some.std())
