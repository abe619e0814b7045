"""Copies of what goes into a call and comes out of it, which lie in memory as the originals do."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from types import CellType, FunctionType
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map

from kernelagent.tools.calls.complex_numbers import is_inexact
from kernelagent.tools.calls.same_values import same_bytes
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.trials.layouts import in_layout_of


def state_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


def copied_with(
    module: torch.nn.Module, of: Callable[[torch.Tensor], torch.Tensor]
) -> torch.nn.Module:
    """A deep copy whose parameters and buffers are `of(tensor)`: they are never copied as they are."""
    memo: dict[int, Any] = {}
    for parameter in module.parameters():
        made = of(parameter.detach())
        if made is parameter or made.data_ptr() == parameter.data_ptr() != 0:
            made = made.clone()
        gradient = parameter.requires_grad and is_inexact(made)
        memo[id(parameter)] = torch.nn.Parameter(made, requires_grad=gradient)
    for buffer in module.buffers():
        made = of(buffer.detach())
        memo[id(buffer)] = made.clone() if made.data_ptr() == buffer.data_ptr() != 0 else made
    whole = copy.deepcopy(module, memo)
    for part in whole.modules():
        for name, value in [*vars(part).items()]:
            if isinstance(value, FunctionType) and value.__closure__:
                # As of `self.mlpf = lambda x: mlp(x)`, which would go on with the original's `mlp`.
                vars(part)[name] = _with_copies(value, memo)
    return whole


def _with_copies(function: FunctionType, memo: Mapping[int, Any]) -> FunctionType:
    """A function that a module holds, with copies in its closure: to `copy.deepcopy` a function is one thing."""
    cells = []
    for cell in function.__closure__ or ():
        empty = cell == CellType()
        held = None if empty else cell.cell_contents
        cells.append(cell if empty or id(held) not in memo else CellType(memo[id(held)]))
    made = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        tuple(cells),
    )
    made.__kwdefaults__, made.__dict__ = function.__kwdefaults__, function.__dict__
    return made


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether both have the same shape, type and bits."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    # The type first: torch compares no float8 tensor with itself.
    if not left.is_floating_point() and torch.equal(left, right):
        return True
    return same_bytes(left, right)


def copied(value: Any) -> Any:
    return tree_map(lambda v: _copy(v.detach()) if isinstance(v, torch.Tensor) else v, value)


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """Fresh memory with the same strides, those of a view with gaps too."""
    fresh = tensor.clone(memory_format=torch.preserve_format)
    if fresh.stride() == tensor.stride() or 0 in tensor.stride() or tensor.numel() == 0:
        return fresh
    return torch.empty_strided(
        tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device
    ).copy_(tensor)


def was_written(before: Arguments, after: Arguments) -> bool:
    """Whether tensors that were cloned for a call were written in it, or their containers changed."""
    (ours, outside), (theirs, inside) = tree_flatten(before), tree_flatten(after)
    return outside != inside or any(
        tensor._version > 0 if isinstance(tensor, torch.Tensor) else tensor is not given
        for given, tensor in zip(ours, theirs, strict=True)
    )


def detached(arguments: Arguments) -> Arguments:
    args, kwargs = tree_map(lambda v: v.detach() if isinstance(v, torch.Tensor) else v, arguments)
    return args, kwargs


def cloned(arguments: Arguments) -> Arguments:
    """Fresh memory with the same strides, so that a reference that writes its inputs is seen."""
    made: dict[int, torch.Tensor] = {}

    def clone(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        # One tensor that is given twice stays one.
        if id(value) not in made:
            fresh = in_layout_of(value.detach().clone(), value.detach())
            fresh.requires_grad_(value.requires_grad and is_inexact(value))
            made[id(value)] = fresh
        return made[id(value)]

    args, kwargs = tree_map(clone, arguments)
    return args, kwargs
