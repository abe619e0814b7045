"""What a module's own tensors alone decide, as a program of its own: computed once and kept until one of them changes.

A weight that is scaled to unit norm, an update of low rank that is added to it, weights that are joined, a table
that is looked up in a buffer: every forward computes these again from the same numbers. What only views a
weight, or computes little from it that a kernel does as it reads it, stays where it is.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

KEPT = "what the weights alone decide"
"""The key of the choice that is whether that is kept."""
KEEPERS = ("_kept", "_kept_of_weights", "_from_weights")
"""Names that a written module has for it: of a module that has one of them nothing is kept."""
UNTIL = (
    "until a weight is replaced or written to; what torch does not count as a write is not seen: one through `.data`, "
    "through numpy, or by a fused optimizer"
)
"""How long it is kept, for a user."""
_LARGE = 1 << 16
"""Elements from which on what is computed element by element from a weight is worth keeping."""


@dataclass(frozen=True)
class Apart:
    """A graph in two: what the module's own tensors decide, and the rest, which is given it."""

    first: GraphModule
    rest: GraphModule
    read: tuple[int, ...]
    """Which of the module's tensors the first one reads, by place."""
    made: tuple[torch.Tensor, ...]
    """What it makes, in order, as the tensors are traced: the last arguments of the rest."""


def words_of(ends: Sequence[Node]) -> str:
    """For a user: what it changes to keep these, and what it does not see."""
    tensors = "a tensor" if len(ends) == 1 else f"{len(ends)} tensors"
    return f"{KEPT} ({tensors}) is computed once and kept {UNTIL}"


def decided_by_weights(graph: GraphModule, own: int) -> list[Node]:
    """What is worth keeping of what the graph computes; `own`: how many of its first arguments are the module's."""
    placeholders = graph.graph.find_nodes(op="placeholder")
    decided = _decided(graph, placeholders[:own])
    ends = dict.fromkeys(
        _computed(node) for node in decided if any(user not in decided for user in node.users)
    )
    # What is returned may be written to by whoever gets it.
    (output,) = graph.graph.find_nodes(op="output")
    returned = {memory_of(node) for node in output.all_input_nodes if _is_tensor(node)}
    return [
        end
        for end in ends
        if _is_tensor(end) and memory_of(end) not in returned and _is_worth_it(end)
    ]


def _computed(node: Node) -> Node:
    """What a view is of."""
    while _is_view(node) and node.all_input_nodes:
        node = node.all_input_nodes[0]
    return node


def memory_of(node: Node) -> Any:
    """What tells the memory that a node's tensor lies in from any other: views of one tensor have the same."""
    return node.meta["val"].untyped_storage()._cdata


def apart(graph: GraphModule, own: int, ends: Sequence[Node]) -> Apart:
    """The graph in two, of which the first makes these values; it is changed."""
    placeholders = graph.graph.find_nodes(op="placeholder")
    first, read = _first(graph, placeholders[:own], ends)
    made = tuple(node.meta["val"] for node in ends)
    for number, node in enumerate(ends):
        with graph.graph.inserting_after(placeholders[-1]):
            given = graph.graph.placeholder(f"kept_{number}")
        given.meta = {"val": node.meta["val"]}
        placeholders.append(given)
        node.replace_all_uses_with(given)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return Apart(first, graph, read, made)


def _decided(graph: GraphModule, own: Sequence[Node]) -> dict[Node, None]:
    """Nodes that need no input, in order: the module's tensors, and what is computed from them alone."""
    decided = dict.fromkeys(own)
    for node in graph.graph.nodes:
        target, given = node.target, node.all_input_nodes
        if target is operator.getitem and given[0] in decided:
            decided[node] = None
        if not isinstance(target, torch._ops.OpOverload):
            continue
        if target._schema.is_mutable:
            # What is written to, and what shares its memory, may be another number in the next call.
            return {}
        drawn = torch.Tag.nondeterministic_seeded in target.tags
        if all(n in decided for n in given) and not drawn:
            decided[node] = None
    return decided


def _is_tensor(node: Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)


def _is_worth_it(end: Node) -> bool:
    """Whether a kernel of its own would compute it: more than views and a few operations on small tensors."""
    steps = _steps(end)
    weights = [node for node in steps if node.op == "placeholder"]
    targets = [n.target for n in steps if n.all_input_nodes and not _is_view(n)]
    computed = [target for target in targets if isinstance(target, torch._ops.OpOverload)]
    if not weights or not computed or not _sizes_are_known(steps, weights):
        return False
    if any(torch.Tag.pointwise not in target.tags for target in computed):
        return True
    return _elements(end) >= _LARGE and _bytes(end) <= sum(map(_bytes, weights))


def _sizes_are_known(steps: Sequence[Node], weights: Sequence[Node]) -> bool:
    """Whether each size that varies is a dimension of one of the weights, where it can be read."""
    dimensions = {expr for node in weights for expr in _formulas(node) if expr.is_Symbol}
    return all(
        expr.free_symbols <= dimensions
        for node in steps
        if _is_tensor(node)
        for expr in _formulas(node)
    )


def _formulas(node: Node) -> list[Any]:
    return [size.node.expr for size in node.meta["val"].shape if isinstance(size, torch.SymInt)]


def _steps(end: Node) -> list[Node]:
    """It and all that it is computed from."""
    steps = {end: None}
    waiting = [end]
    while waiting:
        for node in waiting.pop().all_input_nodes:
            if node not in steps:
                steps[node] = None
                waiting.append(node)
    return list(steps)


def _is_view(node: Node) -> bool:
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and target.is_view


def _elements(node: Node) -> int:
    sizes = node.meta["val"].shape
    return math.prod(int(n.node.hint) if isinstance(n, torch.SymInt) else int(n) for n in sizes)


def _bytes(node: Node) -> int:
    return _elements(node) * int(node.meta["val"].dtype.itemsize)


def _first(
    graph: GraphModule, own: Sequence[Node], ends: Sequence[Node]
) -> tuple[GraphModule, tuple[int, ...]]:
    """The program of these values, and which of the module's tensors it is given."""
    wanted = set().union(*(_steps(end) for end in ends))
    made = Graph()
    copies: dict[Node, Node] = {}
    for node in graph.graph.nodes:
        if node in wanted:
            copies[node] = made.node_copy(node, lambda old: copies[old])
    made.output(tuple(copies[end] for end in ends))
    read = tuple(at for at, node in enumerate(own) if node in wanted)
    return GraphModule(graph, made), read
