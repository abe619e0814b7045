"""Answers the few questions Inductor asks of a driver while it writes code for a GPU that is not there."""

from __future__ import annotations

from collections.abc import Callable

import torch
from triton.backends.compiler import GPUTarget


class StandInDriver:
    """Only code generation works on it: nothing is compiled or run."""

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_benchmarker(self) -> Callable[..., float]:
        return lambda *_, **__: 1.0
