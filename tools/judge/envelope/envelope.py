"""The inputs a verdict holds for, as data: what the emitted module's guards are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernelagent.tools.calls.float32_precision import matmul_precision
from kernelagent.tools.calls.tensors import spec_of
from kernelagent.tools.calls.torch_dtypes import name_of
from kernelagent.tools.judge.envelope.reads import Reads, reads_of
from kernelagent.tools.judge.envelope.settings import (
    holds_settings,
    settings_of,
    surroundings_of,
    tied_in,
)
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.describe import literal
from kernelagent.tools.judge.problem.dynamic import Dynamic, Place
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.layouts import usual_strides
from kernelagent.tools.judge.problem.trials.probes import named_tensors

_DRAWS = (0, 1)
"""Seeds of the inputs under which it is looked at what a call reads: a branch may depend on values."""


def verified(
    context: JudgeContext,
    declared: dict[str, object] | None,
    fixed: Mapping[tuple[str, str], str | None],
    *,
    binds: bool,
    leaves: Iterable[str] = (),
) -> dict[str, Any]:
    """The given input sets, with a name in place of each size that was declared dynamic.

    `declared` is what the candidate says of itself, kept beside; `fixed`: digests of tensors whose
    values are part of what was verified, by input set and place; `binds`: calls bind other tensors as
    parameters or buffers; `leaves`: names in which calls leave new values besides the state.
    """
    result: dict[str, Any] = {
        "input_sets": [
            input_set(
                context,
                source.name,
                source.full,
                {place: digest for (name, place), digest in fixed.items() if name == source.name},
            )
            for source in context.sources
        ],
        "modes": ["eval", "train"] if context.trains else ["eval"],
        "mode_independent": context.mode_independent,
        "contiguous": True,
        "device_types": ["cuda"],
    }
    if torch.get_default_dtype() is not torch.float32:
        result["default_dtype"] = name_of(torch.get_default_dtype())
    if matmul_precision() != "highest":
        result["float32_matmul_precision"] = matmul_precision()
    if context.facts.convolutions_round:
        result["float32_convolutions"] = "tf32"
    result |= read_in(context, context.sources, context.module_at_full_size)
    if holds_settings(context.module_at_full_size):
        result["settings"] = True
    if binds:
        result["binds"] = True
    if left := sorted(leaves):
        result["leaves"] = left
    if tied := tied_in(context.module_at_full_size):
        result["tied"] = tied
    if declared is not None:
        result["declared"] = declared
    return result


def read_in(
    context: JudgeContext, sources: Iterable[InputSource], module: torch.nn.Module
) -> dict[str, Any]:
    """What `module` holds of all that calls with these inputs read, besides parameters and saved buffers."""
    reads: Reads | None = None
    if not any(context.dynamic.values()):
        # At sizes that are not known yet a forward may read what it does not read at these.
        reads = reads_of(
            context.oracle.module,
            context.oracle.eager,
            [source.draw(seed) for source in sources for seed in _DRAWS],
            both_modes=context.trains or context.mode_independent,
        )
    made = context.as_built.made_since(context.oracle.module)
    return {"attributes": settings_of(module, reads), "reads": surroundings_of(module, reads, made)}


def input_set(
    context: JudgeContext,
    name: str,
    arguments: Arguments,
    fixed: Mapping[str, str | None] | None = None,
) -> dict[str, Any]:
    """One input set in the form the guard reads (`kernelagent.dropin.emit`)."""
    args, kwargs = arguments
    fixed = fixed or {}
    # A tensor whose values the emitted guard compares has one shape: none of its dimensions can be dynamic.
    dynamic = [
        item
        for item in context.dynamic.get(name, ())
        if not any(fixed.get(place) for place, _ in item.places)
    ]
    at = _At(open_sizes(dynamic, named_tensors(arguments)), fixed)
    return {
        "name": name,
        "args": [_facts(v, f"arguments[0][{n}]", at) for n, v in enumerate(args)],
        "kwargs": {key: _facts(v, f"arguments[1][{key!r}]", at) for key, v in kwargs.items()},
    }


@dataclass(frozen=True)
class _At:
    """What is known of places among the arguments."""

    sizes: Mapping[Place, dict[str, Any]]
    digests: Mapping[str, str | None]


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


def bounds_sentence(context: JudgeContext) -> str | None:
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


def _facts(value: Any, path: str, at: _At) -> dict[str, Any]:
    if isinstance(value, torch.Tensor):
        return _tensor(value, path, at)
    if type(value) is list:
        return {"list": [_facts(v, f"{path}[{n}]", at) for n, v in enumerate(value)]}
    if type(value) is tuple:
        return {"tuple": [_facts(v, f"{path}[{n}]", at) for n, v in enumerate(value)]}
    if type(value) is dict:
        return {"dict": {k: _facts(v, f"{path}[{k!r}]", at) for k, v in value.items()}}
    return {"literal": literal(value)}


def _tensor(value: torch.Tensor, path: str, at: _At) -> dict[str, Any]:
    spec = spec_of(value)
    shape = [at.sizes.get((path, axis), size) for axis, size in enumerate(spec.shape)]
    facts: dict[str, Any] = {"dtype": spec.dtype, "shape": shape}
    if digest := at.digests.get(path):
        facts["values"] = digest
    if shape == list(spec.shape):
        return facts | {"strides": list(spec.strides)}
    if value.is_contiguous():
        return facts
    # With a size open, strides follow from sizes as they did in the calls that were tried.
    return facts | {"strides": list(usual_strides(value)), "sizes": list(spec.shape)}
