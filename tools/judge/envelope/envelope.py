"""The inputs a verdict holds for, as data: what the emitted module's guards are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.describe import literal
from kernelagent.tools.judge.problem.dynamic import Dynamic, Place
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.probes import named_tensors
from kernelagent.tools.tensors import spec_of


def verified(context: JudgeContext, declared: dict[str, object] | None) -> dict[str, Any]:
    """The given input sets, with a name in place of each size that was declared dynamic.

    `declared` is what the candidate says of itself, kept beside.
    """
    result: dict[str, Any] = {
        "input_sets": [input_set(context, source.name, source.full) for source in context.sources],
        "modes": ["eval", "train"] if context.trains else ["eval"],
        "mode_independent": context.mode_independent,
        "contiguous": True,
        "device_types": ["cuda"],
    }
    if declared is not None:
        result["declared"] = declared
    return result


def input_set(context: JudgeContext, name: str, arguments: Arguments) -> dict[str, Any]:
    """One input set in the form the guard reads (`kernelagent.dropin.emit`)."""
    args, kwargs = arguments
    sizes = open_sizes(context.dynamic.get(name, ()), named_tensors(arguments))
    return {
        "name": name,
        "args": [_facts(v, f"arguments[0][{at}]", sizes) for at, v in enumerate(args)],
        "kwargs": {key: _facts(v, f"arguments[1][{key!r}]", sizes) for key, v in kwargs.items()},
    }


def open_sizes(
    dynamic: Sequence[Dynamic], tensors: Mapping[str, torch.Tensor]
) -> dict[Place, dict[str, Any]]:
    """A rule for every place whose size may change; those of one dimension share a name.

    Nothing beyond the largest size that was tried, or the user's own where that is larger.
    """
    rules: dict[Place, dict[str, Any]] = {}
    for number, item in enumerate(dynamic):
        given = max(tensors[name].shape[axis] for name, axis in item.places)
        most = max(item.farthest, item.size, int(given))
        rule = {"name": f"size{number}", "min": 1, "max": most}
        rules |= dict.fromkeys(item.places, rule)
    return rules


def bounds_said(context: JudgeContext) -> str | None:
    """One sentence on how far sizes may change; None where none may."""
    parts = []
    for source in context.sources:
        tensors = named_tensors(source.full)
        rules = open_sizes(context.dynamic.get(source.name, ()), tensors)
        for item in context.dynamic.get(source.name, ()):
            parts.append(
                f"{item.written_out} of {source.name}: 1 to {rules[item.places[0]]['max']}"
            )
    if not parts:
        return None
    return f"sizes the emitted module takes, the largest tried: {'; '.join(parts)}"


def _facts(value: Any, path: str, sizes: Mapping[Place, dict[str, Any]]) -> dict[str, Any]:
    if isinstance(value, torch.Tensor):
        return _tensor(value, path, sizes)
    if type(value) is list:
        return {"list": [_facts(v, f"{path}[{at}]", sizes) for at, v in enumerate(value)]}
    if type(value) is tuple:
        return {"tuple": [_facts(v, f"{path}[{at}]", sizes) for at, v in enumerate(value)]}
    if type(value) is dict:
        return {"dict": {k: _facts(v, f"{path}[{k!r}]", sizes) for k, v in value.items()}}
    return {"literal": literal(value)}


def _tensor(
    value: torch.Tensor, path: str, sizes: Mapping[Place, dict[str, Any]]
) -> dict[str, Any]:
    spec = spec_of(value)
    shape = [sizes.get((path, axis), size) for axis, size in enumerate(spec.shape)]
    facts = {"dtype": spec.dtype, "shape": shape}
    # Strides follow from sizes: with one of them open only contiguous tensors were tried.
    return facts if shape != list(spec.shape) else facts | {"strides": list(spec.strides)}
