"""Roots of sizes that are variables: numbers that a graph computes on the host, as tensors without dimensions.

Inductor takes such a number into its kernels, but in float64, which a GPU computes at a fraction of its rate.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node

_ATEN = torch.ops.aten
_ROOT = torch._sym_sqrt  # type: ignore[attr-defined]
_STEPS: Mapping[Any, Callable[..., Any]] = {
    _ROOT: _ATEN.sqrt.default,
    operator.add: _ATEN.add.Tensor,
    operator.sub: _ATEN.sub.Tensor,
    operator.mul: _ATEN.mul.Tensor,
    operator.truediv: _ATEN.div.Tensor,
    operator.neg: _ATEN.neg.default,
}
_SAME = (torch.sym_float, float)


def with_roots_in_kernels(graph: GraphModule) -> GraphModule:
    """Where a tensor is computed with the root of a size, the root is a tensor, of the other's accuracy.

    A root that anything but an operation on tensors reads stays as it is.
    """
    for node in list(graph.graph.nodes):
        if node.op != "call_function" or not isinstance(node.meta.get("val"), torch.Tensor):
            continue
        exact = torch.float64 if node.meta["val"].dtype == torch.float64 else torch.float32
        for at, kind in enumerate(_types(node)):
            given = node.args[at] if at < len(node.args) else None
            if kind == "Tensor" and isinstance(given, Node) and _has_root(given):
                with graph.graph.inserting_before(node):
                    made = _as_tensor(graph, given, exact, node.meta["val"].device)
                if made is not None:
                    node.update_arg(at, made)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return graph


def reads_roots(graph: GraphModule) -> bool:
    """Whether the root of a variable is left among its numbers."""
    return any(node.target is _ROOT for node in graph.graph.nodes)


def _types(node: Node) -> list[str]:
    schema = getattr(node.target, "_schema", None)
    return [str(argument.type) for argument in schema.arguments] if schema else []


def _has_root(node: Node) -> bool:
    if isinstance(node.meta.get("val"), torch.Tensor):
        return False
    return node.target is _ROOT or any(map(_has_root, node.all_input_nodes))


def _as_tensor(graph: GraphModule, number: Any, exact: torch.dtype, device: Any) -> Node | None:
    """The number, computed again by operations on tensors without dimensions; None for other steps than are known."""
    if isinstance(number, int | float):
        return graph.graph.call_function(
            _ATEN.full.default, ([], number), {"dtype": exact, "device": device}
        )
    if number.target in _SAME:
        return _as_tensor(graph, number.args[0], exact, device)
    if number.target in _STEPS:
        parts = [_as_tensor(graph, part, exact, device) for part in number.args]
        if None in parts:
            return None
        return graph.graph.call_function(_STEPS[number.target], tuple(parts))
    if isinstance(number.meta.get("val"), torch.SymInt):
        return graph.graph.call_function(
            _ATEN.scalar_tensor.default, (number,), {"dtype": exact, "device": device}
        )
    return None
