"""The inputs a verdict holds for, as data: what the emitted module's guards are made of."""

from __future__ import annotations

from typing import Any

import torch

from kernelagent.tools.judge.describe import literal
from kernelagent.tools.judge.docket import Docket
from kernelagent.tools.judge.load import Arguments
from kernelagent.tools.tensors import spec_of


def verified(docket: Docket, declared: dict[str, object] | None) -> dict[str, Any]:
    """Exactly the given input sets; `declared` is what the candidate says of itself, kept beside."""
    found: dict[str, Any] = {
        "input_sets": [_input_set(source.name, source.full) for source in docket.sources],
        "modes": [docket.settings.mode],
        "mode_independent": docket.mode_independent,
        "contiguous": True,
        "device_types": ["cuda"],
    }
    if declared is not None:
        found["declared"] = declared
    return found


def _input_set(name: str, arguments: Arguments) -> dict[str, Any]:
    args, kwargs = arguments
    return {
        "name": name,
        "args": [_facts(value) for value in args],
        "kwargs": {key: _facts(value) for key, value in kwargs.items()},
    }


def _facts(value: Any) -> dict[str, Any]:
    if isinstance(value, torch.Tensor):
        spec = spec_of(value)
        return {"dtype": spec.dtype, "shape": list(spec.shape), "strides": list(spec.strides)}
    if type(value) is list:
        return {"list": [_facts(item) for item in value]}
    if type(value) is tuple:
        return {"tuple": [_facts(item) for item in value]}
    if type(value) is dict:
        return {"dict": {key: _facts(item) for key, item in value.items()}}
    return {"literal": literal(value)}
