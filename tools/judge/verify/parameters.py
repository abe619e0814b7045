"""Whether the parameters of `ModelNew` are to a program what the reference's are, beyond names and shapes.

An optimizer takes `parameters()` in their order and those that require gradients; whoever builds the
module without loading weights gets those it begins with.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from kernelagent.domain.evaluation import Disclosure
from kernelagent.tools.calls.parameter_rows import spread_of
from kernelagent.tools.judge.verify.rejection import Rejected

_FEW = 64
"""Of fewer elements nothing is said of how they are spread."""
_ALIKE = 0.7
"""A spread is another one below this share of the reference's, and beyond its inverse."""


def compare_parameters(
    reference: torch.nn.Module,
    begun: Mapping[str, torch.Tensor] | None,
    rows: Sequence[Mapping[str, Any]],
    *,
    trains: bool,
) -> list[Disclosure]:
    """What differs; raises `Rejected` where training would not do what the reference's does.

    `begun`: the weights that the reference was built with, None where nobody needs the candidate's own.
    `rows`: of the candidate's state, as its process tells them.
    """
    theirs = {str(row.get("name")): row for row in rows}
    kinds = _of_other_kinds(reference, theirs)
    if kinds and trains:
        raise Rejected("state_mismatch", f"{kinds}; make each as in your module", {})
    result = (
        [Disclosure("parameters_differ", f"{kinds}: an optimizer is given others")] if kinds else []
    )
    own = [name for name, _ in reference.named_parameters() if name in theirs]
    order = [name for name, row in theirs.items() if row.get("parameter") is True and name in own]
    if not kinds and order != own:
        result.append(
            Disclosure(
                "parameters_in_other_order",
                f"the parameters of ModelNew come in another order ({', '.join(order[:4])} …) than your module's "
                f"({', '.join(own[:4])} …): the state of an optimizer, kept by place, would be read for others",
            )
        )
    spread = [] if begun is None else _begun_otherwise(reference, begun, theirs)
    if spread:
        result.append(
            Disclosure(
                "initial_weights",
                f"before any weights are loaded, {', '.join(spread)} of ModelNew begins otherwise than your "
                f"module's: load your weights into it",
            )
        )
    return result


def _of_other_kinds(reference: torch.nn.Module, theirs: Mapping[str, Mapping[str, Any]]) -> str:
    parts: list[str] = []
    parameters = dict(reference.named_parameters(remove_duplicate=False))
    for name in reference.state_dict():
        row = theirs.get(name)
        if row is None:
            continue
        own = parameters.get(name)
        if (own is not None) is not (row.get("parameter") is True):
            kinds = ("a buffer", "a parameter") if own is not None else ("a parameter", "a buffer")
            parts.append(f"{name} is {kinds[0]} of ModelNew and {kinds[1]} of your module")
        elif own is not None and own.requires_grad is not (row.get("learns") is True):
            needs = ("does not require", "does") if own.requires_grad else ("requires", "does not")
            parts.append(f"{name} of ModelNew {needs[0]} gradients, your module's {needs[1]}")
    return "; ".join(parts)


def _begun_otherwise(
    reference: torch.nn.Module,
    begun: Mapping[str, torch.Tensor],
    theirs: Mapping[str, Mapping[str, Any]],
) -> list[str]:
    result: list[str] = []
    names = (name for name, _ in reference.named_parameters(remove_duplicate=False))
    for name, parameter in ((name, begun[name]) for name in names if name in begun):
        got, wanted = theirs.get(name, {}).get("spread"), spread_of(parameter)
        if not isinstance(got, list | tuple) or wanted is None or parameter.numel() < _FEW:
            continue
        (mean, deviation), (own_mean, own_deviation) = got, wanted
        near = math.isclose(mean, own_mean, abs_tol=0.5 * own_deviation + 1e-6)
        if own_deviation == 0.0 or deviation == 0.0:
            alike = deviation == own_deviation
        else:
            alike = _ALIKE < deviation / own_deviation < 1 / _ALIKE
        if not (near and alike):
            result.append(name)
    return result
