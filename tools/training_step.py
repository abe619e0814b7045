"""One training step as a call: a forward with gradients recorded, backwards, and what they leave.

The judge's oracle takes it with the reference and the runner with the candidate, in the same lines;
what comes back is one nest of tensors, which is compared, held and timed like any other answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Call = Callable[..., Any]
Row = tuple[torch.Tensor, ...]
Leaves = dict[str, tuple[torch.Tensor, ...]]
"""By name what one gradient is taken of; tied parameters that a candidate holds apart share a name."""
FORWARD, GRADIENTS, DIFFERENTIABLE = "forward", "gradients", "differentiable"
FIRST, APART, ACCUMULATED = "first", "apart", "accumulated"
"""`.grad` after one backward; what `autograd.grad` returns; `.grad` after one more backward."""


@dataclass(frozen=True)
class TrainingStep:
    """What is asked of a module in one step."""

    training: bool
    """The module's flag while it is called."""
    parameters: tuple[tuple[str, ...], ...] = ()
    """Names of the parameters whose gradients are asked for, tied ones together."""
    inputs: bool = True
    """Gradients of all floating inputs are asked for as well."""
    outputs: tuple[int, ...] = ()
    """Which leaves of the output have a gradient in the reference."""
    upstream: tuple[Row, ...] = ()
    """For each backward a gradient of each such output; one: `apart` alone; none: no gradients."""
    beside: Arguments | None = None
    """Another call between the forward and its backward: what is kept for it must not be lost."""

    def as_value(self) -> dict[str, Any]:
        """The step as a nest that crosses to another process."""
        return {
            "training": self.training,
            "parameters": self.parameters,
            "inputs": self.inputs,
            "outputs": self.outputs,
            "upstream": self.upstream,
            "beside": self.beside,
        }

    @classmethod
    def from_value(cls, value: Any) -> TrainingStep:
        return cls(**value)


def take(module: torch.nn.Module, arguments: Arguments, step: TrainingStep) -> dict[str, Any]:
    """Call the module as `step` asks; its flags and `.grad` are as before afterwards.

    Returns the output and, for each kind of backward, the gradients by name: None where there is none.
    """
    with _flag(module, step.training):
        if not step.upstream:
            with torch.no_grad():
                args, kwargs = arguments
                return {FORWARD: module(*args, **kwargs), DIFFERENTIABLE: [], GRADIENTS: {}}
        with torch.enable_grad(), _asked_parameters(module, step.parameters) as parameters:
            return _with_gradients(module, arguments, step, parameters)


def differentiable(
    module: torch.nn.Module, arguments: Arguments, step: TrainingStep
) -> dict[int, torch.Tensor]:
    """Leaves of the output that have a gradient when `step`'s selection requires one, by their place."""
    with (
        _flag(module, step.training),
        torch.enable_grad(),
        _asked_parameters(module, step.parameters),
    ):
        (args, kwargs), _ = _asked_inputs(arguments) if step.inputs else (arguments, {})
        result = tree_leaves(module(*args, **kwargs))
        return {at: result[at].detach() for at in range(len(result)) if _has_gradient(result, at)}


class Prepared:
    """A step to be taken many times: flags and requirements are set once and stay."""

    def __init__(self, module: torch.nn.Module, call: Call, step: TrainingStep) -> None:
        """`call`: the module itself, or what was compiled of it."""
        module.train(step.training)
        self._kept = ExitStack()
        self._parameters = self._kept.enter_context(_asked_parameters(module, step.parameters))
        self._call = call
        self._step = step

    def __call__(self, arguments: Arguments) -> dict[str, Any]:
        """What `take` returns."""
        with torch.enable_grad():
            return _with_gradients(self._call, arguments, self._step, self._parameters)


def _with_gradients(
    module: Call, arguments: Arguments, step: TrainingStep, parameters: Leaves
) -> dict[str, Any]:
    (args, kwargs), asked = _asked_inputs(arguments) if step.inputs else (arguments, {})
    output = module(*args, **kwargs)
    if step.beside is not None:
        (others, named), _ = _asked_inputs(step.beside) if step.inputs else (step.beside, {})
        module(*others, **named)
    result = tree_leaves(output)
    reported = [_has_gradient(result, at) for at in step.outputs]
    rows = [[g for g, has in zip(row, reported, strict=True) if has] for row in step.upstream]
    outputs = [result[at] for at, has in zip(step.outputs, reported, strict=True) if has]
    gradients = _backwards(outputs, rows, parameters | asked)
    plain = tree_map(lambda v: v.detach() if isinstance(v, torch.Tensor) else v, output)
    return {FORWARD: plain, DIFFERENTIABLE: reported, GRADIENTS: gradients}


def _backwards(
    outputs: Sequence[torch.Tensor], rows: Sequence[Sequence[torch.Tensor]], leaves: Leaves
) -> dict[str, dict[str, torch.Tensor | None]]:
    if len(rows) == 1:
        return {APART: _apart(outputs, rows[0], leaves, last=True)}
    first, apart, again = rows
    _accumulate(outputs, first, last=False)
    result = {FIRST: _accumulated(leaves)}
    result[APART] = _apart(outputs, apart, leaves, last=False)
    _accumulate(outputs, again, last=True)
    return result | {ACCUMULATED: _accumulated(leaves)}


def _accumulate(
    outputs: Sequence[torch.Tensor], row: Sequence[torch.Tensor], *, last: bool
) -> None:
    if outputs:
        torch.autograd.backward(list(outputs), list(row), retain_graph=not last)


def _accumulated(leaves: Leaves) -> dict[str, torch.Tensor | None]:
    # Copied: the next backward adds to the very same memory.
    return {name: _sum([_copy(t.grad) for t in tensors]) for name, tensors in leaves.items()}


def _copy(gradient: torch.Tensor | None) -> torch.Tensor | None:
    return None if gradient is None else gradient.detach().clone()


def _apart(
    outputs: Sequence[torch.Tensor], row: Sequence[torch.Tensor], leaves: Leaves, *, last: bool
) -> dict[str, torch.Tensor | None]:
    flat = [tensor for tensors in leaves.values() for tensor in tensors]
    if not outputs or not flat:
        return dict.fromkeys(leaves)
    result = iter(
        torch.autograd.grad(
            list(outputs), flat, list(row), retain_graph=not last, allow_unused=True
        )
    )
    return {name: _sum([next(result) for _ in tensors]) for name, tensors in leaves.items()}


def _sum(gradients: Sequence[torch.Tensor | None]) -> torch.Tensor | None:
    there = [gradient.detach() for gradient in gradients if gradient is not None]
    if not there:
        return None
    total = there[0]
    for gradient in there[1:]:
        total = total + gradient
    return total


def _asked_inputs(arguments: Arguments) -> tuple[Arguments, Leaves]:
    """The arguments with a leaf of its own, in the same memory, for each floating tensor."""
    flat, form = tree_flatten(arguments)
    asked: Leaves = {}
    for at, value in enumerate(flat):
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            flat[at] = value.detach().requires_grad_()
            asked[f"input {len(asked)}"] = (flat[at],)
    args, kwargs = tree_unflatten(flat, form)
    return (args, kwargs), asked


def _has_gradient(found: Sequence[Any], at: int) -> bool:
    return at < len(found) and isinstance(found[at], torch.Tensor) and found[at].requires_grad


@contextmanager
def _flag(module: torch.nn.Module, training: bool) -> Iterator[None]:
    before = module.training
    if before is not training:
        module.train(training)
    try:
        yield
    finally:
        if before is not training:
            module.train(before)


@contextmanager
def _asked_parameters(module: torch.nn.Module, groups: Sequence[Sequence[str]]) -> Iterator[Leaves]:
    """Only these require gradients, whatever the module made of them; `.grad` is empty before and after."""
    held = dict(module.named_buffers(remove_duplicate=False))
    held |= dict(module.named_parameters(remove_duplicate=False))
    own = {id(tensor): tensor for tensor in held.values()}
    before = [(tensor, tensor.requires_grad) for tensor in own.values()]
    leaves: Leaves = {}
    for names in groups:
        tensors = {id(held[name]): held[name] for name in names if name in held}
        leaves[names[0]] = tuple(tensors.values())
    wanted = {id(tensor) for tensors in leaves.values() for tensor in tensors}
    try:
        for key, tensor in own.items():
            tensor.grad = None
            if tensor.requires_grad is not (key in wanted):
                tensor.requires_grad_(key in wanted)
        yield leaves
    finally:
        for tensor, required in before:
            tensor.grad = None
            if tensor.is_leaf:
                tensor.requires_grad_(required)
