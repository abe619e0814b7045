"""A problem's operations at full size, without drawing or computing anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from kernelagent.domain.errors import ProblemError
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.estimates.building import Described, built, drawn, without_contents
from kernelagent.tools.estimates.operations import Operation
from kernelagent.tools.judge.problem.load import load_problem, users_traceback
from kernelagent.tools.virtual.cost.eager import EagerTraffic


def described(spec: ProblemSpec, mode: str = "as built") -> Mapping[str, Described]:
    """The module and each input set, all on `meta`.

    `mode` is `eval`, `train`, or `as built`, which leaves the module as its constructor does.
    Raises `ProblemError` for what cannot be loaded or built.
    """
    with without_contents():
        problem = load_problem(spec)
    module = built(problem.build)
    if mode != "as built":
        module.train(mode == "train")
    sets: Mapping[str, tuple[tuple[Any, ...], dict[str, Any]]] = drawn(problem.input_sets)
    return {name: Described(module, args, kwargs) for name, (args, kwargs) in sets.items()}


def traced(
    module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Operation, ...]:
    """The operations of one forward on `meta`; raises `ProblemError` where it needs values."""
    with EagerTraffic(None) as traffic, without_contents():
        try:
            module(*args, **kwargs)
        except Exception as error:  # the user's forward may raise anything
            raise ProblemError(
                f"the forward does not run on tensors without contents, so that there is no "
                f"estimate:\n{users_traceback(error)}"
            ) from error
    return tuple(row.operation for row in traffic.rows if row.operation is not None)


def operations_of(spec: ProblemSpec, mode: str = "as built") -> tuple[Operation, ...]:
    """The operations of the problem's first input set."""
    first = next(iter(described(spec, mode).values()))
    return traced(first.module, first.args, first.kwargs)
