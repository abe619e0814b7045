"""How much one forward is for the interpreter, without computing it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from kernelagent.tools.estimates.recurrent import AtOnce
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.reference.copies import copied_with
from kernelagent.tools.judge.problem.smaller_sizes import on_meta

INTERPRETED_BYTES = 4 << 20
"""Input and output bytes of one forward that `virtual` executes in about a second."""
INTERPRETED_FLOPS = 1 << 30
_INTERPRETED_STEPS = 1024
"""Steps of recurrent layers: each is a dozen operations of the reference's, and a launch of a kernel has one of each
layer at most."""
_GATHERED = 3
"""How many times longer an operation of a convolution takes than one of a matrix product: its operands are gathered."""
_CONVOLUTIONS = frozenset(
    [torch.ops.aten.convolution, torch.ops.aten._convolution, torch.ops.aten.convolution_backward]
)


def work_of(full: Arguments, module: torch.nn.Module) -> float:
    """One forward's work, in units of what is executed in about a second."""
    try:
        return seconds_of(full, module)
    except Exception:  # noqa: BLE001 - a forward that cannot run without contents: judge by its inputs
        return 2 * bytes_in(full) / INTERPRETED_BYTES


def seconds_of(full: Arguments, module: torch.nn.Module) -> float:
    """The same; raises what the forward raises without contents."""
    moved, operations, steps = _work(full, module)
    return max(
        moved / INTERPRETED_BYTES, operations / INTERPRETED_FLOPS, steps / _INTERPRETED_STEPS
    )


def meta_twin(module: torch.nn.Module) -> torch.nn.Module:
    """The module with tensors that have shapes and hold nothing."""
    return copied_with(module, lambda tensor: tensor.to("meta")).to("meta")


def bytes_in(value: Any) -> int:
    """Of all tensors in it."""
    return sum(
        v.numel() * v.element_size() for v in tree_leaves(value) if isinstance(v, torch.Tensor)
    )


def _work(full: Arguments, module: torch.nn.Module) -> tuple[int, int, int]:
    """Bytes in and out of one forward, its floating point operations, and steps of recurrent layers, without computing it.

    An intermediate result that is larger counts as if it were written and read.
    """
    args, kwargs = on_meta(full)
    steps, layers = _Steps(), AtOnce()
    with steps, layers, torch.no_grad():
        outputs = meta_twin(module)(*args, **kwargs)
    flops = steps.flops + layers.flops
    return max(bytes_in(full) + bytes_in(outputs), 2 * steps.largest), flops, layers.steps


class _Steps(TorchDispatchMode):
    """Counts the operations of matrix products and convolutions, and the bytes of the largest result."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops = 0
        self.largest = 0

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if not func.is_view:
            self.largest = max(self.largest, bytes_in(result))
        count = flop_registry.get(func.overloadpacket)
        if count is not None:
            times = _GATHERED if func.overloadpacket in _CONVOLUTIONS else 1
            self.flops += times * int(count(*args, **(kwargs or {}), out_val=result))
        return result
