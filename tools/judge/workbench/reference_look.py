"""What the reference itself computes on one input set: statistics of a submodule's outputs, call by call."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from kernelagent.domain.replies.tool_calls import ReferenceLook, TensorStatistics
from kernelagent.tools.calls.torch_dtypes import name_of
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.trials import draw
from kernelagent.tools.judge.verify.compare.compare import leaves

_MOST = 24
"""Outputs that are told; a submodule may be called often."""
_NAMES = 60


def look(context: JudgeContext, source: InputSource, path: str) -> ReferenceLook:
    """Of the submodule at `path`, or the whole module for an empty one; raises `KeyError` where there is none."""
    oracle = context.oracle
    modules = dict(oracle.module.named_modules())
    watched = modules[path]
    seen: list[TensorStatistics] = []
    calls = 0

    def note(_module: torch.nn.Module, _inputs: Any, output: Any) -> None:
        nonlocal calls
        name = f"{path}, call {calls}" if path else "output"
        calls += 1
        for leaf_name, leaf in leaves(output, name):
            if isinstance(leaf, torch.Tensor) and len(seen) < _MOST:
                seen.append(statistics_of(leaf_name, leaf))

    oracle.use_weights(oracle.given_weights)
    handle = watched.register_forward_hook(note)
    try:
        oracle.eager(draw(source))
    finally:
        handle.remove()
    inside = tuple(name for name in modules if name)[:_NAMES]
    return ReferenceLook(
        source.name, context.executed_text(source.name), path, calls, tuple(seen), inside
    )


def statistics_of(name: str, tensor: torch.Tensor) -> TensorStatistics:
    """Of a tensor's finite values; numbers are None where there are none, or it holds no numbers."""
    flat = tensor.detach().reshape(-1)
    facts = TensorStatistics(
        name, name_of(tensor.dtype), tuple(tensor.shape), tuple(tensor.stride())
    )
    if flat.is_complex() or not flat.numel():
        return facts
    values = flat.double().cpu()
    finite = values[values.isfinite()]
    nonfinite = 1 - finite.numel() / values.numel()
    if not finite.numel():
        return replace(facts, nonfinite=nonfinite)
    return replace(
        facts,
        least=float(finite.min()),
        most=float(finite.max()),
        mean=float(finite.mean()),
        deviation=float(finite.std(correction=0)),
        rms=math.sqrt(float(finite.square().mean())),
        zeros=float((finite == 0).double().mean()),
        nonfinite=nonfinite,
    )
