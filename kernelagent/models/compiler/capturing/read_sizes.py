"""Sizes that a backward needs, read from the tensors it is given."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch.fx import GraphModule, Node


def read_sizes(graph: GraphModule) -> None:
    """Sizes that the forward would hand on are computed from tensors' sizes, where some have them."""
    placeholders = graph.graph.find_nodes(op="placeholder")
    axes: dict[Any, tuple[Node, int]] = {}
    for node in placeholders:
        for axis, length in enumerate(getattr(node.meta["val"], "shape", ())):
            if isinstance(length, torch.SymInt):
                axes.setdefault(length.node.expr, (node, axis))
    for node in placeholders:
        size = node.meta["val"]
        if not isinstance(size, torch.SymInt):
            continue
        with graph.graph.inserting_after(placeholders[-1]):
            sizes = _Sizes(graph, axes, size)
            read = sizes.node(size.node.expr)
        if read is not None:
            node.replace_all_uses_with(read)
            graph.graph.erase_node(node)


class _Sizes:
    """Nodes that compute a size from those that tensors have, in the order in which they are asked for."""

    def __init__(
        self, graph: GraphModule, axes: Mapping[Any, tuple[Node, int]], like: torch.SymInt
    ) -> None:
        self._graph, self._axes, self._like = graph.graph, axes, like
        self._last: Node | None = None

    def node(self, expression: Any) -> Node | None:
        """None where it is more than sums, products and whole quotients of what is known."""
        known = self._axes.get(expression)
        if known is not None:
            return self._called(torch.ops.aten.sym_size.int, known, expression)
        operation = _OPERATIONS.get(type(expression).__name__)
        parts = list(expression.args)
        if type(expression).__name__ == "Pow" and parts[1].is_Integer and parts[1] > 1:
            operation, parts = operator.mul, [parts[0]] * int(parts[1])
        if operation is None or not parts:
            return None
        whole: Any = None
        for part in parts:
            value = int(part) if part.is_Integer else self.node(part)
            if value is None:
                return None
            whole = value if whole is None else self._called(operation, (whole, value), None)
        return cast(Node, whole)

    def _called(self, function: Any, arguments: Any, expression: Any) -> Node:
        node = self._graph.call_function(function, tuple(arguments))
        if self._last is not None:
            self._last.append(node)
        self._last = node
        left, *right = [getattr(a, "meta", {}).get("val", a) for a in arguments]
        node.meta["val"] = function(left, *right)
        return node


_OPERATIONS = {"Add": operator.add, "Mul": operator.mul, "FloorDiv": operator.floordiv}
"""What sizes are computed from each other with, by sympy's names."""
