"""One training step as a call: a forward with gradients recorded, backwards, and what they leave.

The judge's oracle takes it with the reference and the runner with the candidate, in the same lines;
what comes back is one nest of tensors, which is compared, held and timed like any other answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from kernelagent.tools.calls.backwards import Leaves, Row, Watch, backwards
from kernelagent.tools.calls.complex_numbers import is_inexact

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Call = Callable[..., Any]
FORWARD, GRADIENTS, DIFFERENTIABLE = "forward", "gradients", "differentiable"
KEPT, TOGETHER, ON_CONTEXT = "upstream_kept", "in_one_memory", "on_context"
"""Whether the upstream gradients are as they were; pairs of `.grad`s that have an element in common; how many
bytes of tensors autograd functions keep as attributes of their contexts, where torch does not see them."""
HELD = "memory_of_gradients"
"""By the name of each `.grad`: what all of them show of the memory that it lies in, and how large that is."""


Packed = Literal["alike", "dense"]
"""As other tensors with the same strides; as dense ones, as by torch.autograd.graph.save_on_cpu(pin_memory=True)."""


@dataclass(frozen=True)
class TrainingStep:
    """What is asked of a module in one step."""

    training: bool
    """The module's flag while it is called."""
    parameters: tuple[tuple[str, ...], ...] = ()
    """Names of the parameters whose gradients are asked for, tied ones together."""
    inputs: bool = True
    """Gradients of all floating and complex inputs are asked for as well."""
    outputs: tuple[int, ...] = ()
    """Which leaves of the output have a gradient in the reference."""
    upstream: tuple[Row, ...] = ()
    """One row for each backward: the upstream gradients of those outputs, None for one that gets none.

    No row: no gradients are asked for. One: only the backward `apart`. Three: `first`, `apart` and the second
    backward that accumulates. More: further backwards like `apart`, named by `apart_names`.
    """
    left_out: tuple[int, ...] = ()
    """Of the floating and complex inputs, by number, those whose gradients are not asked for all the same."""
    watched: bool = False
    """What a backward must leave alone is compared as well: not where it is counted or timed."""
    beside: Arguments | None = None
    """Another call between the forward and its backward: what is kept for it must not be lost."""
    beside_flips: bool = False
    """That other call is made with the other flag, as of one who teaches or judges."""
    flips: bool = False
    """The flag is the other one in the backward, as after a `model.eval()` in between."""
    changes: Literal["inputs", "parameters", "results", None] = None
    """What the program writes to between the forward and its backward."""
    only: int | None = None
    """Which of these tensors, by number; None: each."""
    packed: Packed | None = None
    """How what is saved for the backward comes back, if not as it is."""

    def as_value(self) -> dict[str, Any]:
        """The step as a nest that crosses to another process."""
        return {
            "training": self.training,
            "parameters": self.parameters,
            "inputs": self.inputs,
            "outputs": self.outputs,
            "upstream": self.upstream,
            "left_out": self.left_out,
            "watched": self.watched,
            "beside": self.beside,
            "beside_flips": self.beside_flips,
            "flips": self.flips,
            "changes": self.changes,
            "only": self.only,
            "packed": self.packed,
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
                result = module(*args, **kwargs)
            return _answer(result, [], {}, Watch())
        with torch.enable_grad(), _asked_parameters(module, step.parameters) as parameters:
            watch = Watch() if step.watched else None
            return _with_gradients(module, arguments, step, parameters, watch)


def differentiable(
    module: torch.nn.Module, arguments: Arguments, step: TrainingStep
) -> dict[int, torch.Tensor]:
    """Leaves of the output that have a gradient when `step`'s selection requires one, by their place."""
    with (
        _flag(module, step.training),
        torch.enable_grad(),
        _asked_parameters(module, step.parameters),
    ):
        (args, kwargs), _ = _asked_inputs(arguments, step)
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
    module: Call,
    arguments: Arguments,
    step: TrainingStep,
    parameters: Leaves,
    watch: Watch | None = None,
) -> dict[str, Any]:
    (args, kwargs), asked = _asked_inputs(arguments, step)
    packing = nullcontext() if step.packed is None else _packing(step.packed)
    with packing:
        output = module(*args, **kwargs)
    if step.beside is not None:
        (others, named), _ = _asked_inputs(step.beside, step)
        flag = step.training != step.beside_flips
        with _flag(module, flag) if isinstance(module, torch.nn.Module) else nullcontext():
            module(*others, **named)
    if step.flips and isinstance(module, torch.nn.Module):
        module.train(not step.training)
    _change(step, arguments, parameters, output)
    result = tree_leaves(output)
    if watch is not None:
        watch.see_contexts(output)
    reported = [_has_gradient(result, at) for at in step.outputs]
    rows = [tuple(g for g, has in zip(row, reported, strict=True) if has) for row in step.upstream]
    outputs = [result[at] for at, has in zip(step.outputs, reported, strict=True) if has]
    gradients = backwards(outputs, rows, parameters | asked, watch)
    plain = tree_map(lambda v: v.detach() if isinstance(v, torch.Tensor) else v, output)
    return _answer(plain, reported, gradients, watch or Watch())


def _packing(how: Packed) -> saved_tensors_hooks:
    return saved_tensors_hooks(_dense if how == "dense" else _alike, _as_it_is)


def _alike(saved: torch.Tensor) -> torch.Tensor:
    """Another tensor with the same numbers and strides: the saved one itself where strides overlap."""
    plain = saved.detach()
    made = plain.clone()
    return made if made.stride() == plain.stride() else plain


def _dense(saved: torch.Tensor) -> torch.Tensor:
    return saved.detach().clone(memory_format=torch.contiguous_format)


def _as_it_is(packed: torch.Tensor) -> torch.Tensor:
    return packed


def _change(step: TrainingStep, arguments: Arguments, parameters: Leaves, output: Any) -> None:
    """Write to what the forward was given or returned, as an optimizer's step or an operation in place does."""
    if step.changes is None:
        return
    written = {"inputs": arguments, "parameters": list(parameters.values()), "results": output}
    given = tree_leaves(written[step.changes])
    floating = [t for t in given if isinstance(t, torch.Tensor) and is_inexact(t)]
    with torch.no_grad():
        for tensor in floating if step.only is None else floating[step.only : step.only + 1]:
            tensor.mul_(2)


def _answer(output: Any, reported: list[bool], gradients: Any, watch: Watch) -> dict[str, Any]:
    return {
        FORWARD: output,
        DIFFERENTIABLE: reported,
        GRADIENTS: gradients,
        KEPT: watch.kept,
        TOGETHER: watch.together,
        ON_CONTEXT: watch.on_context,
        HELD: watch.held,
    }


def _asked_inputs(arguments: Arguments, step: TrainingStep) -> tuple[Arguments, Leaves]:
    """The arguments with a leaf of its own, in the same memory, for each floating or complex tensor asked for."""
    if not step.inputs:
        return arguments, {}
    flat, form = tree_flatten(arguments)
    asked: Leaves = {}
    number = 0
    for at, value in enumerate(flat):
        if isinstance(value, torch.Tensor) and is_inexact(value):
            if number not in step.left_out:
                flat[at] = value.detach().requires_grad_()
                asked[f"input {number}"] = (flat[at],)
            number += 1
    args, kwargs = tree_unflatten(flat, form)
    return (args, kwargs), asked


def _has_gradient(outcome: Sequence[Any], at: int) -> bool:
    return at < len(outcome) and isinstance(outcome[at], torch.Tensor) and outcome[at].requires_grad


@contextmanager
def _flag(module: torch.nn.Module, training: bool) -> Iterator[None]:
    before = module.training
    if before is not training:
        module.train(training)
    try:
        yield
    finally:
        if module.training is not before:
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
