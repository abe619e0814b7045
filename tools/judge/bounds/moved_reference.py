"""What torch computes in a reference whose sums and means are taken before the linear maps they are of.

A candidate that does this algebra does less than the reference, and its work grows less with the sizes. It is then asked to
grow as this form of the reference does.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_unflatten

from kernelagent.tools.estimates.moved_reductions import MOVED, with_reductions_moved
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.virtual.cost.ceilings import DeviceCeilings
from kernelagent.tools.virtual.cost.eager import EagerRow, eager_rows


def rows_with_moved_reductions(
    module: torch.nn.Module, arguments: Arguments, ceilings: DeviceCeilings
) -> list[EagerRow] | None:
    """By operation, of a module and arguments without contents; None where nothing can be moved, or the module not traced."""
    leaves, nest = tree_flatten(arguments)
    places = [at for at, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    tensors = [leaves[at] for at in places]

    def forward(*given: torch.Tensor) -> Any:
        filled = list(leaves)
        for at, tensor in zip(places, given, strict=True):
            filled[at] = tensor
        args, kwargs = tree_unflatten(filled, nest)
        return module(*args, **kwargs)

    try:
        with torch.no_grad():
            traced = make_fx(forward, tracing_mode="fake", _allow_non_fake_inputs=True)(*tensors)
            every = dict.fromkeys((f"{MOVED}{n}" for n in range(len(traced.graph.nodes))), True)
            graph, moved = with_reductions_moved(traced, ceilings, every)
            return eager_rows(graph, tensors, {}, ceilings.target) if moved else None
    except Exception:  # noqa: BLE001 - tracing runs the user's code, which raises anything
        return None
