"""torch's attention as CUDA has it: one operation, and one more where its gradients are asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.autograd.function import once_differentiable

from kernelagent.tools.estimates.operations import ATTENTION, ATTENTION_BACKWARD


@dataclass(frozen=True)
class Step:
    """One of the two: what it is called, and its work."""

    name: str
    flops: int
    special: int
    """Exponentials."""


class Seen(Protocol):
    """Whoever counts operations."""

    def silence(self, silent: bool) -> None:
        """Operations that follow belong to one that is recorded as a whole."""
        ...

    def step(
        self, step: Step, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any
    ) -> None:
        """One operation has been done."""
        ...


def attended(
    seen: Seen, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The function's answer, recorded as one operation; its backward will be one as well.

    A fused backward computes the weights again: five products where the forward has two (Dao et al.,
    arXiv:2205.14135). A mask that is trained, and dropout, CUDA does by other kernels: their backward is counted as it is
    here.
    """
    given = _Given.of(*args, **kwargs)
    call = _Call(seen, given)
    follows = _is_trained(given)
    query, key, value = (given.query, given.key, given.value)
    if follows:
        query, key, value = _Ends.apply(call, query, key, value)  # type: ignore[no-untyped-call]
    seen.silence(True)
    try:
        # Arguments in their places, whichever way they were given.
        result = func(query, key, value, *args[3:], **_without_tensors(kwargs))
    finally:
        seen.silence(False)
    seen.step(given.step(ATTENTION, 1, 1), args, kwargs, result)
    return _Begins.apply(call, result) if follows else result  # type: ignore[no-untyped-call]


@dataclass(frozen=True, eq=False)
class _Given:
    """The arguments that decide its work."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    mask: torch.Tensor | None
    dropout: float
    causal: bool

    @classmethod
    def of(
        cls,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        **_: Any,
    ) -> _Given:
        return cls(query, key, value, attn_mask, dropout_p, is_causal)

    def step(self, name: str, by_keys: int, by_values: int) -> Step:
        """So many products over the sizes of keys, and of values; half the pairs when causal."""
        pairs = math.prod(self.query.shape[:-1]) * self.key.shape[-2] // (2 if self.causal else 1)
        sizes = by_keys * self.query.shape[-1] + by_values * self.value.shape[-1]
        return Step(name, 2 * pairs * sizes, pairs)


def _is_trained(given: _Given) -> bool:
    of_mask = given.mask is not None and given.mask.requires_grad
    asked = any(t.requires_grad for t in (given.query, given.key, given.value))
    # Functions of functions, as `torch.func.grad` has them, take no autograd function without rules of its own.
    plain = torch._C._functorch.peek_interpreter_stack() is None
    return torch.is_grad_enabled() and asked and plain and not of_mask and not given.dropout


def _without_tensors(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in kwargs.items() if name not in ("query", "key", "value")}


@dataclass
class _Call:
    """One attention, from its forward to the end of its backward."""

    seen: Seen
    given: _Given
    read: tuple[torch.Tensor, ...] = ()
    """What the backward reads besides what the forward read: the upstream gradient and the result."""


class _Ends(torch.autograd.Function):
    """Hands on what attention is given; its backward is the last of attention's own."""

    @staticmethod
    def forward(ctx: Any, call: _Call, *tensors: torch.Tensor) -> Any:
        ctx.call = call
        return tuple(tensor.view_as(tensor) for tensor in tensors)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        call: _Call = ctx.call
        given = call.given
        call.seen.silence(False)
        args = (given.query, given.key, given.value, given.mask, 0.0, given.causal)
        read, call.read = call.read, ()
        call.seen.step(given.step(ATTENTION_BACKWARD, 3, 2), args, {"read": read}, gradients)
        return (None, *gradients)


class _Begins(torch.autograd.Function):
    """Hands on attention's result; its backward is the first of attention's own."""

    @staticmethod
    def forward(ctx: Any, call: _Call, result: torch.Tensor) -> Any:
        ctx.call, ctx.result = call, result.detach()
        return result.view_as(result)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: torch.Tensor) -> Any:
        call: _Call = ctx.call
        call.read = (upstream, ctx.result)
        call.seen.silence(True)
        return None, upstream
