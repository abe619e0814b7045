"""What judging a module at given sizes needs in memory, counted on tensors without contents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernelagent.tools.calls.tensors import tensors_of
from kernelagent.tools.estimates.recurrent import AtOnce
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.smaller_sizes import on_meta
from kernelagent.tools.judge.problem.trials.interpreted_work import meta_twin

BASE_BYTES = 1 << 30
"""Judge, fork server, runner and executor before the first tensor, together; measured 0.9 GB."""
_TRIALS = 8
"""Calls whose inputs and answers are kept at once: those of the longest round and a sequel."""
MADE_AHEAD_BYTES = 128 << 20
"""Inputs and answers of the next round that are made before this one has ended; one call may go beyond."""


@dataclass(frozen=True)
class Need:
    """Bytes that one input set asks for, while one candidate is judged on it."""

    inputs: int = 0
    weights: int = 0
    outputs: int = 0
    working: int = 0
    """Intermediate results that exist at once."""
    columns: int = 0
    """What a convolution in float64 unfolds its input into."""

    @property
    def judge(self) -> int:
        """Both references, the weights given and drawn, the calls of a round, a comparison."""
        of_a_call = 2 * self.inputs + 3 * self.outputs
        kept = _TRIALS * of_a_call + min(_TRIALS * of_a_call, MADE_AHEAD_BYTES + of_a_call)
        return 5 * self.weights + kept + 2 * self.working + self.columns + 10 * self.outputs

    @property
    def runner(self) -> int:
        return 3 * self.weights + 4 * self.inputs + 3 * self.outputs + self.working

    @property
    def executor(self) -> int:
        """The tensors of a launch, in the memory that both share."""
        return self.weights + self.inputs + self.outputs + self.working

    @property
    def total(self) -> int:
        return BASE_BYTES + self.judge + self.runner + self.executor


def need_of(module: torch.nn.Module, arguments: Arguments) -> Need:
    """What one forward on these sizes needs; the tensors may be on the meta device."""
    twin = meta_twin(module)
    meter = _Meter()
    args, kwargs = on_meta(arguments)
    with meter, AtOnce(), torch.no_grad():
        output = twin(*args, **kwargs)
    weights = {id(t): bytes_of(t) for t in (*twin.parameters(), *twin.buffers())}
    return Need(
        inputs=sum(bytes_of(t) for t in tensors_of(arguments)),
        weights=sum(weights.values()),
        outputs=sum(bytes_of(t) for t in tensors_of(output)),
        working=2 * meter.largest,
        columns=meter.columns,
    )


class _Meter(TorchDispatchMode):
    """Sees how much the largest operation reads and writes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.largest = 0
        self.columns = 0

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if not func.is_view:
            moved = sum(bytes_of(t) for t in (*tensors_of(args), *tensors_of(result)))
            self.largest = max(self.largest, moved)
        if func is torch.ops.aten.convolution.default:
            self.columns = max(self.columns, _columns(args[0], args[1], result, transposed=args[6]))
        return result


def _columns(
    given: torch.Tensor, weight: torch.Tensor, result: torch.Tensor, *, transposed: bool
) -> int:
    """torch unfolds a whole batch in float64, and for a transposed convolution a sample at a time."""
    per_place = weight.numel() // max(1, weight.shape[0])
    if transposed:
        places = given.numel() // max(1, given.shape[0] * given.shape[1])
    else:
        places = result.numel() // max(1, weight.shape[0])
    return 8 * per_place * places


def bytes_of(tensor: torch.Tensor) -> int:
    """The size of its elements together."""
    return tensor.numel() * tensor.element_size()
