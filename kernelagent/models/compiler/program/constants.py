"""Tensors of few values: those that a forward makes itself, and those without dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch.fx import GraphModule, Node


def constants_of(graph: GraphModule) -> list[tuple[str, torch.Tensor]]:
    """What Inductor makes leading arguments of its program, in that order."""
    named = [*graph.named_parameters(), *graph.named_buffers()]
    return [(name, tensor.detach()) for name, tensor in named]


def with_slices(graph: GraphModule) -> GraphModule:
    """Indexing one axis by evenly spaced constants becomes a slice, which kernels read in place."""
    for node in list(graph.graph.nodes):
        if node.op == "call_function" and node.target is torch.ops.aten.index.Tensor:
            _sliced(graph, node)
    _drop_unused(graph)
    return graph


def with_numbers(graph: GraphModule) -> GraphModule:
    """A constant of one element, `torch.tensor(0.5)`, becomes the number, which kernels need not be given."""
    for node in list(graph.graph.nodes):
        tensor = getattr(graph, str(node.target), None) if node.op == "get_attr" else None
        if not isinstance(tensor, torch.Tensor) or tensor.dim() or tensor.is_complex():
            continue
        with graph.graph.inserting_before(node):
            number = graph.graph.call_function(
                torch.ops.aten.full.default,
                ([], tensor.item()),
                {"dtype": tensor.dtype, "device": tensor.device},
            )
        number.meta = dict(node.meta)
        node.replace_all_uses_with(number)
        graph.graph.erase_node(node)
    _drop_unused(graph)
    return graph


def with_one_element(graph: GraphModule, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """What the graph is to be compiled for: its arguments without dimensions become tensors of one element.

    Inductor takes the others' values out of a CPU's memory on the host, for which a GPU would be waited.
    """
    given = []
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    for node, tensor in zip(placeholders, tensors, strict=True):
        given.append(tensor.reshape(1) if tensor.dim() == 0 else tensor)
        if tensor.dim() or not node.users:
            continue
        with graph.graph.inserting_after(node):
            number = graph.graph.call_function(torch.ops.aten.view.default, (node, []))
        number.meta = dict(node.meta)
        node.replace_all_uses_with(number, lambda user, own=number: user is not own)
    graph.recompile()
    return given


def _drop_unused(graph: GraphModule) -> None:
    graph.graph.eliminate_dead_code()
    used = {node.target for node in graph.graph.nodes if node.op == "get_attr"}
    for name, _ in [*graph.named_parameters(), *graph.named_buffers()]:
        if name not in used:
            delattr(graph, name)
    graph.recompile()


def _sliced(graph: GraphModule, node: Node) -> None:
    source, indices = node.args[0], node.args[1]
    assert isinstance(source, Node)
    assert isinstance(indices, list | tuple)
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    if len(axes) != 1:
        return
    values = _values(graph, indices[axes[0]])
    if values is None:
        return
    size = int(source.meta["val"].shape[axes[0]])
    at = [value + size if value < 0 else value for value in values]
    step = at[1] - at[0] if len(at) > 1 else 1
    even = all(b - a == step for a, b in pairwise(at))
    if step < 1 or not even or not all(0 <= value < size for value in at):
        return
    with graph.graph.inserting_before(node):
        part = graph.graph.call_function(
            torch.ops.aten.slice.Tensor, (source, axes[0], at[0], at[-1] + 1, step)
        )
        # Indexing gives a new tensor, a slice does not.
        copied = graph.graph.call_function(torch.ops.aten.clone.default, (part,))
    part.meta["val"] = node.meta["val"]
    copied.meta = dict(node.meta)
    node.replace_all_uses_with(copied)
    graph.graph.erase_node(node)


def _values(graph: GraphModule, index: Any) -> list[int] | None:
    """The whole numbers of a constant index of one axis; None for any other index."""
    while isinstance(index, Node) and index.target in _COPIES:
        index = index.args[0]
    if not isinstance(index, Node) or index.op != "get_attr":
        return None
    tensor = getattr(graph, str(index.target), None)
    if not isinstance(tensor, torch.Tensor) or tensor.dim() != 1 or tensor.numel() == 0:
        return None
    whole = tensor.dtype in (torch.int64, torch.int32)
    return [int(value) for value in tensor.tolist()] if whole else None


_COPIES = (
    torch.ops.aten.lift_fresh_copy.default,
    torch.ops.aten.lift_fresh.default,
    torch.ops.aten.clone.default,
    torch.ops.aten.detach.default,
)
