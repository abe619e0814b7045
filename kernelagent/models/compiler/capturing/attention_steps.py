"""Attention that a module writes out step by step, found in a traced graph and made one step.

    softmax(query @ key^T * scale + mask) @ value

with batch and heads in front, as `torch.matmul` and `torch.softmax` are traced.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import GraphModule, Node

from kernelagent.models.compiler.capturing.attention import fits_a_tile

_ATEN = torch.ops.aten
_VIEWS = (_ATEN.view.default, _ATEN._unsafe_view.default, _ATEN.reshape.default)
_COPIES = (
    _ATEN.expand.default,
    _ATEN.clone.default,
    _ATEN.alias.default,
    _ATEN.detach.default,
    _ATEN._to_copy.default,
)
"""What `torch.matmul` and casts put around a product of matrices: our kernel adds up in float32 anyway."""
_HEADS_TURNED: Mapping[Any, tuple[Any, ...]] = {
    _ATEN.transpose.int: ((1, 2), (2, 1)),
    _ATEN.permute.default: ([0, 2, 1, 3],),
}


@dataclass(frozen=True)
class _Scores:
    """What the softmax is taken of."""

    product: Node
    scale: float = 1.0
    """At the user's sizes."""
    varies: bool = False
    """The scale is computed from sizes that are variables."""
    added: tuple[Node, ...] = ()
    hidden: tuple[Node, ...] = ()
    """Masks that are true where a key is not seen."""


def as_one_step(graph: GraphModule) -> GraphModule:
    """Each written-out attention whose result is only read with its heads turned becomes one step."""
    products = [n for n in graph.graph.nodes if n.target is _ATEN.bmm.default]
    joined = [_joined(graph, node) for node in products]
    if any(joined):
        graph.graph.eliminate_dead_code()
        graph.recompile()
    return graph


def _joined(graph: GraphModule, product: Node) -> bool:
    results = list(product.users)
    if len(results) != 1 or results[0].target not in _VIEWS or len(_shape(results[0])) != 4:
        return False
    result = results[0]
    if not result.users or not all(_turns_heads(user) for user in result.users):
        return False
    weights, value = (_with_heads(factor) for factor in product.args)
    if weights is None or value is None:
        return False
    if weights.target is not _ATEN._softmax.default or weights.args[1] not in (-1, 3):
        return False
    scores = _scores(weights.args[0])
    if scores is None or not _alone_between(weights, product):
        return False
    query, turned_key = (_with_heads(factor) for factor in scores.product.args)
    if query is None or turned_key is None:
        return False
    if len({_shape(node)[:2] for node in (result, query, turned_key, value)}) != 1:
        return False
    if not fits_a_tile(query.meta["val"], value.meta["val"]):
        return False
    if scores.varies and not _is_usual(scores, query):
        return False
    with graph.graph.inserting_before(product):
        made = _attention(graph, scores, query, turned_key, value)
    made.meta["val"] = result.meta["val"]
    result.replace_all_uses_with(made)
    for turned in list(made.users):
        for copied in list(turned.users):
            # In memory the heads of a token already stand one after another.
            if copied.target is _ATEN.clone.default:
                copied.replace_all_uses_with(turned)
    return True


def _attention(
    graph: GraphModule, scores: _Scores, query: Node, turned_key: Node, value: Node
) -> Node:
    def call(function: Any, *arguments: Any) -> Node:
        return graph.graph.call_function(function, arguments)

    key = call(_ATEN.transpose.int, turned_key, -2, -1)
    mask: Node | None = None
    for hidden in scores.hidden:
        seen = call(_ATEN.logical_not.default, hidden)
        mask = seen if mask is None else call(_ATEN.logical_and.default, mask, seen)
    for added in scores.added:
        mask = added if mask is None else call(_ATEN.add.Tensor, mask, added)
    attention = torch.ops.kernelagent.attention.default
    scale = None if scores.varies else scores.scale
    return call(attention, query, key, value, mask, False, scale, False, True)


def _scores(node: Any) -> _Scores | None:
    """The product, its scale and its masks; None where anything else is done to the scores."""
    if not isinstance(node, Node):
        return None
    if node.target is _ATEN.bmm.default:
        return _Scores(node)
    if node.target in (*_VIEWS, *_COPIES):
        return _scores(node.args[0])
    if node.target in (_ATEN.mul.Tensor, _ATEN.div.Tensor):
        before = _scores(node.args[0])
        factor: Any = node.args[1]
        # What was added before would be scaled too.
        if before is None or before.added or not _is_positive(factor):
            return None
        varies = isinstance(factor, Node)
        times = factor.meta["val"].node.hint if isinstance(factor, Node) else factor
        times = times if node.target is _ATEN.mul.Tensor else 1 / times
        return replace(before, scale=before.scale * times, varies=before.varies or varies)
    if node.target is _ATEN.masked_fill.Scalar:
        before, (hidden, filled) = _scores(node.args[0]), node.args[1:]
        if before is None or before.added or filled != -math.inf or not isinstance(hidden, Node):
            return None
        return replace(before, hidden=(*before.hidden, hidden))
    if node.target is _ATEN.add.Tensor and not node.kwargs:
        for first, other in (node.args[:2], node.args[1::-1]):
            before = _scores(first)
            if before is not None and isinstance(other, Node) and not before.hidden:
                return replace(before, added=(*before.added, other))
    return None


def _is_positive(factor: Any) -> bool:
    if isinstance(factor, Node):
        # A number that is made of sizes: a root of one, or its inverse.
        return (
            isinstance(factor.meta.get("val"), torch.SymFloat) and factor.meta["val"].node.hint > 0
        )
    return isinstance(factor, int | float) and factor > 0


def _is_usual(scores: _Scores, query: Node) -> bool:
    """One over the root of the head's size."""
    size = query.meta["val"].shape[3]
    dims = size.node.hint if isinstance(size, torch.SymInt) else size
    return math.isclose(scores.scale * math.sqrt(dims), 1.0, rel_tol=1e-9)


def _with_heads(node: Any) -> Node | None:
    """The tensor of four axes that a factor of three is a view of, without copies; None for any other."""
    while isinstance(node, Node) and len(_shape(node)) != 4:
        if node.target not in (*_VIEWS, *_COPIES):
            return None
        node = node.args[0]
    while isinstance(node, Node) and node.target in _COPIES:
        before = node.args[0]
        if not isinstance(before, Node) or _shape(before) != _shape(node):
            break
        node = before
    return node if isinstance(node, Node) else None


def _turns_heads(node: Node) -> bool:
    """Whether it makes (batch, token, head, dim) of a result."""
    known = _HEADS_TURNED.get(node.target, ())
    given = list(node.args[1]) if node.target is _ATEN.permute.default else node.args[1:]  # type: ignore[arg-type]
    return given in known


def _alone_between(weights: Node, product: Node) -> bool:
    """Whether nothing else reads the weights."""
    node = weights
    while node is not product:
        if len(node.users) != 1:
            return False
        node = next(iter(node.users))
    return True


def _shape(node: Node) -> tuple[str, ...]:
    """Sizes as text: comparing symbols would fix them."""
    value = node.meta.get("val")
    return tuple(map(str, value.shape)) if isinstance(value, torch.Tensor) else ()
