"""Weights and buffers with other values of their own kind, as a trained module has them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import torch

from kernelagent.tools.calls.complex_numbers import in_each_part, is_inexact
from kernelagent.tools.judge.problem.trials.input_domain import (
    Tensors,
    fresh_values,
    laid_out_like,
    observe,
    standard_normal,
)
from kernelagent.tools.judge.problem.trials.probes import Freedom


@dataclass(frozen=True)
class PerturbedState:
    """Weights and running statistics drawn anew."""

    tensors: dict[str, torch.Tensor]
    kept: tuple[str, ...]
    """Buffers that keep their values (masks, tables made in `__init__`)."""


def perturbed_state(
    state: Tensors,
    parameters: Collection[str],
    generator: torch.Generator,
    freedom: Freedom = "any",
) -> PerturbedState:
    """Random weights and running statistics in place of the given ones.

    Constants (norm weights, zero biases) become random, variances stay positive, tied tensors stay
    tied; with `freedom` other than `any` constants keep their sign. Other buffers keep their values.
    """
    drawn: dict[str, torch.Tensor] = {}
    kept: list[str] = []
    for name, tensor in state.items():
        twin = tied_to(name, state, drawn)
        if twin is not None:
            drawn[name] = drawn[twin].clone()
        elif is_inexact(tensor) and (name in parameters or _is_running(name)):
            values = in_each_part(
                lambda part: _perturbed(name, part, generator, freedom),  # noqa: B023 - called at once
                tensor,
            )
            drawn[name] = laid_out_like(values, tensor)
        else:
            drawn[name] = tensor.detach().clone()
            kept += [] if _is_running(name) else [name]
    return PerturbedState(drawn, tuple(kept))


def tied_to(name: str, state: Tensors, drawn: Tensors) -> str | None:
    """A tensor of equal, not constant values that was drawn before: one tensor under two names."""
    tensor = state[name]
    if not is_inexact(tensor) or tensor.numel() < 2 or _is_constant(tensor):
        return None
    alike = (
        other
        for other in drawn
        if state[other].dtype == tensor.dtype
        and state[other].shape == tensor.shape
        and torch.equal(state[other], tensor)
    )
    return next(alike, None)


def _is_constant(tensor: torch.Tensor) -> bool:
    if tensor.is_complex():
        return bool((tensor == tensor.reshape(-1)[0]).all())
    return observe(tensor).constant


def _is_running(name: str) -> bool:
    return name.rsplit(".", 1)[-1] in ("running_mean", "running_var", "num_batches_tracked")


def _perturbed(
    name: str, tensor: torch.Tensor, generator: torch.Generator, freedom: Freedom
) -> torch.Tensor:
    normal = standard_normal(tensor, generator)
    domain = observe(tensor)
    if name.endswith("running_var"):
        return (normal / 2).exp() * (domain.scale or 1.0)
    if name.endswith("running_mean"):
        return normal * (domain.scale or 1.0)
    if not domain.constant or tensor.numel() == 0:
        return fresh_values(tensor, domain, generator)
    if domain.scale == 0:
        # If a matrix of zeros were redrawn at full scale, it would dominate what it is added to.
        return normal / (tensor.shape[-1] ** 0.5 if tensor.dim() > 1 else 1.0)
    if tensor.numel() == 1 or freedom != "any":
        return domain.low * (normal / 2).exp()
    return domain.low * (1 + normal)
