"""What the calls of one part cost inside a forward of the whole model, and what they would cost at their bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from kernelagent.domain.whole_model import TimeKind
from kernelagent.tools.estimates.library import Library, library_for
from kernelagent.tools.judge.bounds.headroom import headroom_of
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.trials.interpreted_work import meta_twin
from kernelagent.tools.judge.whole_model.held import holds_foreign, mapped
from kernelagent.tools.judge.whole_model.submodules import Whole
from kernelagent.tools.virtual.cost.eager import eager_rows
from kernelagent.tools.virtual.cost.forward_cost import estimate_eager

_REPEATS = 20


@dataclass(frozen=True)
class Cost:
    """Some calls: the device's work and the host's beside it, without what a forward costs once."""

    device_us: float = 0.0
    host_us: float = 0.0
    """Of launches; zero where device times were measured."""

    def plus(self, other: Cost, times: int = 1) -> Cost:
        return Cost(self.device_us + times * other.device_us, self.host_us + times * other.host_us)

    def less(self, other: Cost) -> Cost:
        return Cost(
            max(0.0, self.device_us - other.device_us), max(0.0, self.host_us - other.host_us)
        )

    def at_most(self, other: Cost) -> Cost:
        return Cost(min(self.device_us, other.device_us), min(self.host_us, other.host_us))

    @property
    def us(self) -> float:
        """Both side by side."""
        return Library.side_by_side(self.device_us, self.host_us)

    def inside(self, whole: Cost) -> float:
        """Its share of the whole's time; the shares of parts that make up the whole add up to `whole.us`."""
        of_device, of_host = Library.weights(whole.device_us, whole.host_us)
        return of_device * self.device_us + of_host * self.host_us


class Clock:
    """The cost of one call: measured where there is a GPU, else estimated and said to be."""

    def __init__(self, whole: Whole) -> None:
        self._target = whole.device.facts.target
        self._device = whole.device.torch_device
        self._ceilings = whole.device.ceilings
        self._library = library_for(whole.device.ceilings)
        self.kind: TimeKind = "measured" if whole.device.kind == "cuda" else "estimate"
        estimated = self.kind == "estimate"
        self.once_us = self._library.host["eager_base_us"] if estimated else 0.0
        """What a forward costs once; a measured time holds it already."""

    def cost(self, module: torch.nn.Module, arguments: Arguments) -> Cost:
        if self.kind == "measured":
            return Cost(_measured_us(module, arguments, self._device))
        args, kwargs = _on_meta(arguments)
        try:
            rows = eager_rows(meta_twin(module), args, kwargs, self._target)
        except Exception:  # noqa: BLE001 - a forward that reads values fails on meta tensors: count a real run
            rows = eager_rows(module, *_for_a_call(arguments, self._device), self._target)
        estimate = estimate_eager(rows, self._ceilings)
        return Cost(estimate.device_us, estimate.host_us)

    def least(self, module: torch.nn.Module, arguments: Arguments) -> Cost | None:
        """The call as one kernel at its bandwidth or compute bound; None where that cannot be counted."""
        args, kwargs = _on_meta(arguments)
        gpu = self._ceilings
        try:
            bound = headroom_of(module, args, kwargs, gpu)
        except Exception:  # noqa: BLE001 - a forward that meta tensors cannot run has no bound here
            return None
        if self.kind == "measured":
            return Cost(max(bound.bound_us, gpu.launch_us))
        work = max(bound.dram_us / gpu.dram_efficiency, bound.math_us / gpu.dot_efficiency)
        return Cost(work + self._library.constants["kernel_us"], self._library.triton_launch_us)


def _measured_us(module: torch.nn.Module, arguments: Arguments, device: str) -> float:
    """The median of some calls, each between two events of the device. Never run on a GPU so far."""
    args, kwargs = _for_a_call(arguments, device)
    times = []
    with torch.no_grad():
        module(*args, **kwargs)
        for _ in range(_REPEATS):
            args, kwargs = _for_a_call(arguments, device)
            begin, end = (_event() for _ in range(2))
            begin.record()
            module(*args, **kwargs)
            end.record()
            torch.cuda.synchronize()
            times.append(1e3 * float(begin.elapsed_time(end)))
    return sorted(times)[len(times) // 2]


def _event() -> Any:
    event: Any = torch.cuda.Event
    return event(enable_timing=True)


def _for_a_call(arguments: Arguments, device: str) -> Arguments:
    """With caches of its own: a call writes into those it gets, and the next one would find them filled."""
    if not holds_foreign(arguments):
        return arguments

    def filled(tensor: torch.Tensor) -> torch.Tensor:
        # Of these the form is known alone, and what a call takes does not depend on what is in them.
        return torch.zeros_like(tensor, device=device) if tensor.is_meta else tensor.clone()

    args, kwargs = mapped(arguments, lambda tensor: tensor, filled)
    return args, kwargs


def _on_meta(arguments: Arguments) -> Arguments:
    args, kwargs = mapped(arguments, lambda tensor: tensor.to("meta"))
    return args, kwargs
