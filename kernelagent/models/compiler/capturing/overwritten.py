"""Buffers that a forward writes to while it is trained, in its graph: as results, and stored again by its kernels."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.fx import GraphModule, Node

from kernelagent.models.compiler.capturing.capture import Forward


def updates_as_results(graph: GraphModule, forward: Forward, outputs: int) -> tuple[int, ...]:
    """Which buffers the forward writes to; what it leaves in them becomes a result behind its outputs.

    A graph without mutations writes to what it is given at its end alone, once to each.
    """
    values = dict(
        zip(graph.graph.find_nodes(op="placeholder"), enumerate(forward.values), strict=False)
    )
    made: dict[int, Node] = {}
    for node in graph.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default):
        at, value = values.get(node.args[0], (0, None))
        if value is not None and value.kind == "buffer" and not node.users:
            made[at] = node.args[1]
            graph.graph.erase_node(node)
    (output,) = graph.graph.find_nodes(op="output")
    results = list(output.args[0])
    output.args = ([*results[:outputs], *made.values(), *results[outputs:]],)
    graph.recompile()
    return tuple(made)


def without_counters(
    graph: GraphModule, overwritten: Sequence[int], outputs: int
) -> tuple[tuple[int, ...], dict[int, int]]:
    """What else is written to, and the counters, which torch adds to: a kernel would be one for a number."""
    placeholders = graph.graph.find_nodes(op="placeholder")
    (output,) = graph.graph.find_nodes(op="output")
    results = list(output.args[0])
    others: dict[int, Node] = {}
    counters: dict[int, int] = {}
    for at, node in zip(overwritten, results[outputs:], strict=False):
        count, tensor = placeholders[at], placeholders[at].meta["val"]
        plain = node.target is torch.ops.aten.add.Tensor and not node.kwargs
        if (
            plain
            and tensor.dim() == 0
            and not tensor.is_floating_point()
            and node.args[0] is count
            and isinstance(node.args[1], int)
            and list(count.users) == [node]
            and list(node.users) == [output]
            and results.count(node) == 1
        ):
            counters[at] = node.args[1]
        else:
            others[at] = node
    output.args = ([*results[:outputs], *others.values(), *results[outputs + len(overwritten) :]],)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return tuple(others), counters


def write_back(graph: GraphModule, places: Sequence[int], made: Sequence[Node | None]) -> None:
    """The values of buffers are stored where the buffers are, by the kernels that compute them."""
    placeholders = graph.graph.find_nodes(op="placeholder")
    (output,) = graph.graph.find_nodes(op="output")
    with graph.graph.inserting_before(output):
        for at, node in zip(places, made, strict=True):
            graph.graph.call_function(torch.ops.aten.copy_.default, (placeholders[at], node))
