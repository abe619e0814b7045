"""Whether the emitted module would answer a call with its kernels: its guard's questions of the arguments, asked here.

The guard itself (`kernelagent/dropin/template/dropin.py`) asks more, of devices, modes and state; in a whole model that is
run here those are what they were. What a call gives is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from kernelagent.tools.calls.torch_dtypes import name_of
from kernelagent.tools.judge.problem.describe import literal
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.trials.layouts import scaled_strides
from kernelagent.tools.judge.verify.beyond.beyond import digest_of


def why_not_admitted(envelope: Mapping[str, Any], arguments: Arguments) -> str | None:
    """What of the arguments no input set has, as the last of them says it; None where one takes the call."""
    args, kwargs = arguments
    why = "nothing was verified"
    for item in envelope.get("input_sets", ()):
        names = item.get("kwargs", {})
        if len(args) != len(item["args"]) or kwargs.keys() != names.keys():
            why = "arguments passed in another way"
            continue
        pairs = [*zip(args, item["args"], strict=True)]
        pairs += [(kwargs[name], names[name]) for name in names]
        sizes: dict[str, int] = {}
        reasons = [_differs(value, facts, sizes) for value, facts in pairs]
        first = next((reason for reason in reasons if reason is not None), None)
        if first is None:
            return None
        why = first
    return why


def _differs(value: Any, facts: Mapping[str, Any], sizes: dict[str, int]) -> str | None:
    if "literal" in facts:
        same = not isinstance(value, torch.Tensor) and literal(value) == facts["literal"]
        return None if same else f"another value than {facts['literal']}"
    for kind in (list, tuple, dict):
        if kind.__name__ in facts:
            inner = facts[kind.__name__]
            keys = [*inner] if kind is dict else [*range(len(inner))]
            if type(value) is not kind or (
                [*value] != keys if kind is dict else len(value) != len(keys)
            ):
                return f"no {kind.__name__} of {keys}"
            reasons = (_differs(value[key], inner[key], sizes) for key in keys)
            return next((reason for reason in reasons if reason is not None), None)
    return _tensor_differs(value, facts, sizes)


def _tensor_differs(value: Any, facts: Mapping[str, Any], sizes: dict[str, int]) -> str | None:
    if not isinstance(value, torch.Tensor):
        return "no tensor"
    if name_of(value.dtype) != facts["dtype"]:
        return f"the type {name_of(value.dtype)}"
    shape, rules, strides = tuple(value.shape), facts["shape"], facts.get("strides")
    if len(shape) != len(rules) or not all(
        _fits(size, rule, sizes) for size, rule in zip(shape, rules, strict=True)
    ):
        return f"the shape {list(shape)}"
    if strides is None:
        lies = value.is_contiguous()
    else:
        if "sizes" in facts:
            strides = scaled_strides(facts["sizes"], strides, shape)
        pairs = zip(shape, value.stride(), strides, strict=True)
        lies = all(size == 1 or now == wanted for size, now, wanted in pairs)
    if not lies:
        return f"the strides {tuple(value.stride())}"
    if facts.get("values") not in (None, digest_of(value)):
        return "other values where they were the same in every verified call"
    return None


def _fits(size: int, rule: Any, sizes: dict[str, int]) -> bool:
    if not isinstance(rule, Mapping):
        return bool(rule == size)
    within = bool(rule["min"] <= size <= rule["max"])
    return within and sizes.setdefault(rule["name"], size) == size
