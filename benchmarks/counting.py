"""Launches a kernel in the counting interpreter and estimates it: a virtual launch without a candidate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from triton.runtime.jit import JITFunction

from kernelagent.tools.virtual.compiled.compiling import compile_kernel, gpu_target
from kernelagent.tools.virtual.compiled.sass import MachineFacts, facts_of_cubin
from kernelagent.tools.virtual.cost.cost import LaunchEstimate, estimate_launch
from kernelagent.tools.virtual.cost.traffic import TrafficCounter
from kernelagent.tools.virtual.cost.traffic_facts import TrafficFacts
from kernelagent.tools.virtual.executor.launch import Launch, Observer, TensorArgument
from kernelagent.tools.virtual.interpreter.interpreter import Interpreter

_RUN = 64
_SPELLINGS = {
    "float32": "fp32",
    "bfloat16": "bf16",
    "float16": "fp16",
    "int32": "i32",
    "int64": "i64",
}


@dataclass(frozen=True)
class Counted:
    """One launch with everything its estimate rests on."""

    kernel: str
    traffic: TrafficFacts
    machine: MachineFacts
    estimate: LaunchEstimate


class CountingLauncher:
    """Called like a kernel launch; `counted` holds one entry per launch, in order."""

    def __init__(self, interpreter: Interpreter, target: str, most_programs: int | None) -> None:
        self.counted: list[Counted] = []
        self.counter = TrafficCounter(target)
        self._interpreter = interpreter
        self._target = target
        self._most = most_programs
        """Larger grids are sampled in contiguous runs of at most 64; None: never."""

    def __call__(
        self, kernel: Any, grid: tuple[int, ...], num_warps: int = 4, **arguments: Any
    ) -> None:
        x, y, z = (*grid, 1, 1)[:3]
        launch = _launch(len(self.counted), kernel, (x, y, z), arguments)
        machine = self._machine(kernel, arguments, num_warps)
        programs = self._sample(launch)
        self.counter.sampled_share = len(programs) / launch.programs if programs else 1.0
        observers: list[Observer] = [self.counter]
        self._interpreter.run(kernel, arguments, launch, programs=programs, observers=observers)
        traffic = self.counter.result(launch)
        estimate = estimate_launch(traffic, machine, self.counter.ceilings)
        self.counted.append(Counted(launch.kernel, traffic, machine, estimate))

    def _machine(self, kernel: Any, arguments: dict[str, Any], num_warps: int) -> MachineFacts:
        self._interpreter.leave()
        made = compile_kernel(
            kernel,
            {name: _spelling(kernel, name, value) for name, value in arguments.items()},
            {(kernel.arg_names.index(n),): arguments[n] for n in _constants(kernel)},
            {
                (kernel.arg_names.index(name),): [["tt.divisibility", 16]]
                for name, value in arguments.items()
                if name not in _constants(kernel) and _divisible(value)
            },
            {"num_warps": num_warps},
            gpu_target(self._target),
        )
        self._interpreter.run_as_compiled(made.regions)
        return facts_of_cubin(made.cubin, made.metadata, self._target, made.ptx)

    def _sample(self, launch: Launch) -> list[tuple[int, int, int]] | None:
        total = launch.programs
        if self._most is None or total <= self._most:
            return None
        length = min(_RUN, self._most)
        runs = self._most // length
        starts = [i * (total - length) // max(1, runs - 1) for i in range(runs)]
        x, y, _ = launch.grid
        numbers = sorted({n for start in starts for n in range(start, start + length)})
        return [(n % x, n // x % y, n // (x * y)) for n in numbers]


def _launch(
    index: int, kernel: JITFunction[Any], grid: tuple[int, int, int], arguments: dict[str, Any]
) -> Launch:
    tensors = tuple(
        TensorArgument(
            name=name,
            address=value.data_ptr(),
            storage_address=value.untyped_storage().data_ptr(),
            storage_bytes=value.untyped_storage().nbytes(),
            item_bytes=value.itemsize,
            dtype=str(value.dtype).removeprefix("torch."),
            shape=tuple(value.shape),
            strides=value.stride(),
        )
        for name, value in arguments.items()
        if isinstance(value, torch.Tensor)
    )
    return Launch(index, kernel.fn.__name__, 1, grid, tensors, {}, {})


def _constants(kernel: JITFunction[Any]) -> list[str]:
    return [p.name for p in kernel.params if p.is_constexpr]


def _spelling(kernel: JITFunction[Any], name: str, value: Any) -> str:
    if name in _constants(kernel):
        return "constexpr"
    if isinstance(value, torch.Tensor):
        return "*" + _SPELLINGS[str(value.dtype).removeprefix("torch.")]
    return "i32"


def _divisible(value: Any) -> bool:
    number = value.data_ptr() if isinstance(value, torch.Tensor) else value
    return bool(number % 16 == 0)
