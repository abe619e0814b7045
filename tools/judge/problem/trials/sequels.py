"""Nearly the same tensors again, or the same numbers in other places, and a call with them after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal

import torch

from kernelagent.domain.errors import ProblemError
from kernelagent.tools.calls.complex_numbers import is_inexact
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.trials.input_domain import fresh_like, laid_out_like, observe
from kernelagent.tools.judge.problem.trials.one_trial import pair, trial_on
from kernelagent.tools.judge.problem.trials.perturbed_state import perturbed_state
from kernelagent.tools.judge.problem.trials.probes import named_tensors, with_tensors
from kernelagent.tools.judge.problem.trials.rounds import Trial

_NUDGED = 0.1
"""Share of the elements that are drawn anew where nearly everything stays as it was."""
Sequel = Literal["nudged", "nudged in place", "rearranged"]


def with_sequel(
    oracle: Oracle,
    trial: Trial,
    scale: Mapping[str, float],
    generator: torch.Generator,
    sequel: Sequel,
    another: Callable[[], Any],
) -> Trial:
    """Nothing is loaded in between, so the reference goes on from the state it left.

    `another`: draws other arguments, whose integers are taken where all stay in their places: what was made of a
    table or of lengths must not be kept by the object that it was made of. Raises ProblemError.
    """
    start = oracle.weights
    oracle.use_weights(trial.expected.state)
    fresh = named_tensors(trial.arguments)
    changed = (
        rearranged(fresh, generator) if sequel == "rearranged" else nudged(fresh, fresh, generator)
    )
    ways = [changed]
    if sequel == "nudged in place":
        others = named_tensors(another())
        integers = _other_integers(fresh, others)
        # A module may want integers to go together with its other tensors.
        ways = [{**changed, **integers}, changed, {**fresh, **_alike(fresh, others)}]
    try:
        then = _first_taken(oracle, trial, ways, scale, generator)
    finally:
        oracle.use_weights(start)
    return replace(trial, then=replace(then, in_place=sequel == "nudged in place"))


def _first_taken(
    oracle: Oracle,
    trial: Trial,
    ways: list[dict[str, torch.Tensor]],
    scale: Mapping[str, float],
    generator: torch.Generator,
) -> Trial:
    """The trial on the first tensors that the reference has a defined answer to; raises ProblemError."""
    *before, last = ways
    for changed in before:
        arguments = pair(with_tensors(trial.arguments, changed))
        with suppress(ProblemError):
            if not oracle.order_of_writes_shows(arguments):
                return trial_on(oracle, trial.input_set, trial.probe, arguments, scale, generator)
    arguments = pair(with_tensors(trial.arguments, last))
    return trial_on(oracle, trial.input_set, trial.probe, arguments, scale, generator)


def _other_integers(
    tensors: Mapping[str, torch.Tensor], others: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Those of another draw that are no fractions and lie as these do."""
    return {name: other for name, other in _alike(tensors, others).items() if not is_inexact(other)}


def _alike(
    tensors: Mapping[str, torch.Tensor], others: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    return {
        name: laid_out_like(others[name], tensor)
        for name, tensor in tensors.items()
        if name in others
        and others[name].shape == tensor.shape
        and others[name].dtype == tensor.dtype
    }


def nudged(
    tensors: Mapping[str, torch.Tensor], names: Iterable[str], generator: torch.Generator
) -> dict[str, torch.Tensor]:
    """Redraw some elements of the named floating tensors, never the first, which a cache key may be built from."""
    changed = dict(tensors)
    for name in names:
        tensor = tensors[name]
        if not is_inexact(tensor) or tensor.numel() < 2:
            continue
        fresh = fresh_like(tensor, generator)
        if torch.equal(fresh, tensor):
            # Redrawing a constant tensor gives the same values.
            fresh = perturbed_state({name: tensor}, (name,), generator).tensors[name]
        some = torch.rand(tensor.numel(), generator=generator) < _NUDGED
        some[torch.randint(1, tensor.numel(), (1,), generator=generator)] = True
        some[0] = False
        where = some.reshape(tensor.shape).to(tensor.device)
        changed[name] = laid_out_like(torch.where(where, fresh, tensor), tensor)
    return changed


def rearranged(
    tensors: Mapping[str, torch.Tensor], generator: torch.Generator
) -> dict[str, torch.Tensor]:
    """The same numbers in other places, but for the first: sums and extremes, which a cache key may be, stay."""
    changed = dict(tensors)
    for name, tensor in tensors.items():
        if not is_inexact(tensor) or tensor.numel() < 2:
            continue
        # Rows of probabilities, masks and the like would be none any more.
        if observe(tensor).kind not in ("real", "positive"):
            continue
        order = 1 + torch.randperm(tensor.numel() - 1, generator=generator)
        flat = tensor.detach().reshape(-1)
        moved = torch.cat([flat[:1], flat[order.to(tensor.device)]]).reshape(tensor.shape)
        changed[name] = laid_out_like(moved, tensor)
    return changed
